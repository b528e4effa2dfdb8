#include "oubli/forget/sample_confusion.h"

#include <algorithm>
#include <functional>

#include "oubli/array/row_blocks.h"
#include "oubli/base/largest.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

// Multiplications for the logits of so many samples take tenths of a second.
constexpr double kSteps = 2e9;
constexpr std::size_t kFewest = 256;

std::size_t most_of(std::size_t steps_per_sample) {
  return std::max<std::size_t>(
      kFewest, static_cast<std::size_t>(kSteps / static_cast<double>(steps_per_sample)));
}

// At most `most` of them, at equal distances.
std::vector<std::size_t> spread(const std::vector<std::size_t>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(all[i * all.size() / most]);
  return chosen;
}

struct Places {
  std::vector<std::size_t> of_forgotten, others;
};

Places places_of(std::span<const std::uint32_t> labels, std::span<const std::size_t> forget) {
  Places places;
  for (std::size_t i = 0; i < labels.size(); ++i)
    (std::ranges::find(forget, labels[i]) != forget.end() ? places.of_forgotten : places.others)
        .push_back(i);
  return places;
}

// Takes the logits of samples at `rows`, a few at a time.
void for_logits(const HeadView& head, const CalibrationData& data,
                std::span<const std::size_t> rows,
                const std::function<void(std::uint32_t, std::span<const float>)>& take) {
  for (std::size_t begin = 0; begin < rows.size(); begin += kFewest) {
    const auto some = rows.subspan(begin, std::min(kFewest, rows.size() - begin));
    const Matrix<float> values = pick_samples(data.values, some);
    const Matrix<float> logits =
        data.space == Space::logits ? values : logits_of(head, values.view(), available_cores());
    for (std::size_t i = 0; i < some.size(); ++i) take(data.labels[some[i]], logits.row(i));
  }
}

// The head's rows, one per class, in float.
Matrix<float> rows_of(const HeadView& head) {
  Matrix<float> stored = to_float_matrix(head.weights);
  if (!head.transposed) return stored;
  auto rows = Matrix<float>::for_overwrite(stored.cols(), stored.rows());
  for (std::size_t i = 0; i < stored.rows(); ++i)
    for (std::size_t j = 0; j < stored.cols(); ++j) rows(j, i) = stored(i, j);
  return rows;
}

// Samples of other classes: two logits of each are needed, not all.
void add_others(const HeadView& head, const CalibrationData& data,
                std::span<const std::size_t> places, std::vector<Leaning>& leanings) {
  const Matrix<float> weights = rows_of(head);
  const std::vector<double> bias = bias_of(head);
  Matrix<double> differences(places.size(), leanings.size());
  run_tasks((places.size() + kFewest - 1) / kFewest, available_cores(),
            [&](std::size_t block, unsigned) {
              std::vector<float> buffer;
              const std::size_t end = std::min((block + 1) * kFewest, places.size());
              for (std::size_t i = block * kFewest; i < end; ++i) {
                const auto x = float_row(data.values, places[i], buffer);
                const std::vector<double> features(x.begin(), x.end());
                const auto logit = [&](std::uint32_t c) {
                  return head.weight_scale * dot(features, weights.row(c)) + bias[c];
                };
                const double own = logit(data.labels[places[i]]);
                for (std::size_t t = 0; t < leanings.size(); ++t)
                  differences(i, t) = logit(leanings[t].forgotten()) - own;
              }
            });
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t t = 0; t < leanings.size(); ++t)
      leanings[t].add_other(data.labels[places[i]], differences(i, t));
}

}  // namespace

Confusion confusion_of(const HeadView& head, const CalibrationData& data,
                       std::span<const std::size_t> forget) {
  const std::size_t most =
      most_of(head.classes() * (data.space == Space::features ? head.features() : 1));
  const Places places = places_of(data.labels, forget);
  std::vector<std::size_t> rows = spread(places.of_forgotten, most / 2);
  const std::vector<std::size_t> more = spread(places.others, most - rows.size());
  rows.insert(rows.end(), more.begin(), more.end());
  std::ranges::sort(rows);
  Confusion confusion(head.classes());
  for_logits(head, data, rows, [&](std::uint32_t label, std::span<const float> row) {
    confusion.add(label, static_cast<std::uint32_t>(place_of_largest(row)));
  });
  return confusion;
}

std::vector<Leaning> leanings_of(const HeadView& head, const CalibrationData& data,
                                 std::span<const std::size_t> forget) {
  std::vector<Leaning> leanings;
  for (const std::size_t c : forget)
    leanings.emplace_back(static_cast<std::uint32_t>(c), head.classes());
  if (leanings.empty()) return leanings;
  const auto add = [&](std::uint32_t label, std::span<const float> row) {
    for (Leaning& leaning : leanings) leaning.add(label, row);
  };
  const bool features = data.space == Space::features;
  const Places places = places_of(data.labels, forget);
  const std::size_t most = most_of(head.classes() * (features ? head.features() : 1));
  for_logits(head, data, spread(places.of_forgotten, most / 2), add);
  const std::size_t most_others = most_of((leanings.size() + 1) * (features ? head.features() : 1));
  const std::vector<std::size_t> others = spread(places.others, most_others);
  if (features)
    add_others(head, data, others, leanings);
  else
    for_logits(head, data, others, add);
  return leanings;
}

}  // namespace oubli
