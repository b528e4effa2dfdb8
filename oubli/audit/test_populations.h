#pragma once

// Populations of made-up models for the tests of this folder.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oubli/audit/audit.h"
#include "oubli/base/random.h"

namespace oubli::testing {

struct Made {
  std::size_t models = 10;
  std::size_t classes = 4;     // k
  std::size_t per_class = 20;  // samples of each
  std::size_t forgotten = 1;
  bool all_columns = false;  // k columns instead of k - 1
  double signal = 3;         // added to the true class's logit
  double model_effect = 0;   // standard deviation of what a model adds to each column
  // Added to the first column, and to all, for samples of the forgotten class.
  double shift_first = 0;
  double shift_all = 0;
};

inline std::vector<std::uint32_t> made_labels(const Made& made) {
  std::vector<std::uint32_t> labels;
  for (std::size_t i = 0; i < made.classes * made.per_class; ++i)
    labels.push_back(static_cast<std::uint32_t>(i % made.classes));
  return labels;
}

inline AuditSamples made_samples(const Made& made, const std::vector<std::uint32_t>& labels) {
  return {.labels = labels, .classes = made.classes, .forgotten = {made.forgotten}};
}

// Logits: signal for the true class + what the model adds + N(0, 1), in memory.
inline Population made_population(const Made& made, std::uint64_t seed, std::string name = "made") {
  const std::size_t samples = made.classes * made.per_class;
  const std::size_t columns = made.all_columns ? made.classes : made.classes - 1;
  auto values = std::make_shared<Matrix<float>>(made.models * samples, columns);
  for (std::size_t m = 0; m < made.models; ++m) {
    RandomStream random(seed, task_id("made", {m}));
    std::vector<double> effect(columns);
    for (double& value : effect) value = made.model_effect * random.normal();
    for (std::size_t i = 0; i < samples; ++i) {
      const std::size_t label = i % made.classes;
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t column_class = made.all_columns || j < made.forgotten ? j : j + 1;
        double value = random.normal() + effect[j] + (column_class == label ? made.signal : 0);
        if (label == made.forgotten) value += made.shift_all + (j == 0 ? made.shift_first : 0);
        (*values)(m * samples + i, j) = static_cast<float>(value);
      }
    }
  }
  return {.name = std::move(name),
          .models = made.models,
          .samples = samples,
          .columns = columns,
          .read = [values, samples](std::size_t model, std::span<const std::uint32_t> rows,
                                    MatrixView<float> out) {
            for (std::size_t i = 0; i < rows.size(); ++i)
              std::ranges::copy(values->row(model * samples + rows[i]), out.row(i).begin());
          }};
}

// Few directions and resamples: what is tested here does not need more.
inline AuditOptions quick() { return {.directions = 20, .bootstrap = 200, .seed = 3}; }

struct Case {
  Made made;
  std::vector<std::uint32_t> labels = made_labels(made);
  AuditInput input{.seen = made_population(made, 1, "seen"),
                   .unseen = made_population(made, 2, "unseen"),
                   .unseen2 = {},
                   .before = {},
                   .features = {},
                   .samples = made_samples(made, labels),
                   .class_names = {}};
};

}  // namespace oubli::testing
