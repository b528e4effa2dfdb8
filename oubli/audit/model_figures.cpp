#include "oubli/audit/model_figures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "oubli/base/class_split.h"
#include "oubli/base/error.h"
#include "oubli/base/largest.h"
#include "oubli/base/random.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

std::vector<std::uint32_t> all_samples(const AuditSamples& samples) {
  std::vector<std::uint32_t> rows(samples.labels.size());
  std::iota(rows.begin(), rows.end(), 0U);
  return rows;
}

double cross_entropy(std::span<const float> row, std::size_t target) {
  const auto largest = static_cast<double>(*std::ranges::max_element(row));
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - largest);
  return std::log(sum) + largest - static_cast<double>(row[target]);
}

double share(std::size_t part, std::size_t whole) {
  OUBLI_ASSERT(whole != 0);
  return static_cast<double>(part) / static_cast<double>(whole);
}

bool is_forgotten(const AuditSamples& samples, std::size_t label) {
  return std::ranges::binary_search(samples.forgotten, label);
}

std::uint64_t fingerprint_of(std::span<const float> values) {
  std::uint64_t hash = 0x9E3779B97F4A7C15;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0xBF58476D1CE4E5B9;
    hash ^= hash >> 31;
  }
  return hash;
}

// Logits that share a huge offset have lost in float32 what told them apart, whatever the file's
// type: an audit would find nothing and say so.
void require_digits(const Population& population, std::size_t model, std::size_t sample,
                    std::span<const float> row) {
  constexpr float kLarge = 1e4F;
  const auto [low, high] = std::ranges::minmax(row);
  const float largest = std::max(std::abs(low), std::abs(high));
  if (largest < kLarge || row.size() < 2) return;
  const double rounding = static_cast<double>(largest) * 0x1p-24;
  const double spread = static_cast<double>(high) - static_cast<double>(low);
  if (rounding <= 1e-3 * spread) return;
  fail(ErrorCode::bad_input,
       "{}, sample {}: numbers of size {:.3g} that differ by {:.3g} at most; float32, in which "
       "audits compute, cannot tell them apart. Subtract a common number from each sample's logits "
       "(softmax does not see it), in float64, and save them again",
       population.model_name(model), sample, largest, spread);
}

constexpr std::size_t kSketched = 32;  // samples

// Whether two models give the same numbers up to rounding, judged by their sketches.
bool alike(std::span<const float> a, std::span<const float> b) {
  double mean = 0;
  for (const float value : a) mean += static_cast<double>(value) / static_cast<double>(a.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]) - mean, y = static_cast<double>(b[i]) - mean;
    difference += (x - y) * (x - y);
    size += x * x + y * y;
  }
  return difference <= 1e-6 * size;  // 2^-11, the rounding of a float16, squared is 2.4e-7
}

// A model's sketch along one direction, and how far along it sketches that are alike can be.
struct Projected {
  double place = 0, reach = 0;
  std::size_t model = 0;
  bool of_second = false;
};

Projected project(std::span<const float> sketch, std::span<const double> direction) {
  Projected made;
  double mean = 0, squares = 0;
  for (const float value : sketch) mean += static_cast<double>(value);
  mean /= static_cast<double>(std::max<std::size_t>(1, sketch.size()));
  for (std::size_t i = 0; i < sketch.size(); ++i) {
    const double x = static_cast<double>(sketch[i]) - mean;
    squares += x * x;
    made.place += direction[i] * static_cast<double>(sketch[i]);
  }
  // alike: |a - b|^2 <= 1e-6 (|a - m|^2 + |b - m|^2), so |a - b| < 1.6e-3 |a - m| with any of the
  // two means.
  made.reach = 1.6e-3 * std::sqrt(squares);
  return made;
}

// Whether two sketches are not further apart than that: mostly a few numbers tell.
bool within(std::span<const float> a, std::span<const float> b, double reach) {
  const double most = reach * reach;
  double squares = 0;
  for (std::size_t i = 0; i < a.size() && squares <= most; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return squares <= most;
}

}  // namespace

std::optional<SameModel> same_model(const PopulationPass& a, const PopulationPass& b) {
  const bool one = &a == &b;
  std::vector<double> direction(a.sketch.cols());
  RandomStream random(0, task_id("sketches"));
  const double length =
      1 / std::sqrt(static_cast<double>(std::max<std::size_t>(1, a.sketch.cols())));
  for (double& step : direction) step = random.below(2) == 0 ? length : -length;
  std::vector<Projected> all;
  for (const PopulationPass* const pass : {&a, &b}) {
    if (one && !all.empty()) break;
    for (std::size_t i = 0; i < pass->fingerprint.size(); ++i) {
      all.push_back(project(pass->sketch.row(i), direction));
      all.back().model = i;
      all.back().of_second = pass != &a;
    }
  }
  std::ranges::stable_sort(all, {}, &Projected::place);
  std::optional<SameModel> found;
  for (std::size_t n = 0; n < all.size(); ++n) {
    const std::size_t end = std::min(all.size(), n + 1 + kComparedModels);
    for (std::size_t m = n + 1; m < end && all[m].place <= all[n].place + all[n].reach; ++m) {
      if (!one && all[n].of_second == all[m].of_second) continue;
      const bool turned = one ? all[n].model > all[m].model : all[n].of_second;
      const std::size_t i = all[turned ? m : n].model, j = all[turned ? n : m].model;
      if (found && std::pair(i, j) >= std::pair(found->first, found->second)) continue;
      const bool exactly = a.fingerprint[i] == b.fingerprint[j];
      if (exactly || (within(a.sketch.row(i), b.sketch.row(j), all[n].reach) &&
                      alike(a.sketch.row(i), b.sketch.row(j))))
        found = {i, j, exactly};
    }
  }
  return found;
}

namespace {

// Class -> its column; -1 if this population has none for it.
std::vector<std::ptrdiff_t> columns_of(const Population& population, const AuditSamples& samples) {
  std::vector<std::ptrdiff_t> column(samples.classes, -1);
  if (population.columns == samples.classes) {
    std::iota(column.begin(), column.end(), 0);
    return column;
  }
  const std::vector<std::size_t> retained =
      split_classes(samples.classes, samples.forgotten).retained;
  for (std::size_t j = 0; j < retained.size(); ++j)
    column[retained[j]] = static_cast<std::ptrdiff_t>(j);
  return column;
}

// Labels, accuracy and loss of one model; places in `pass` that are its own.
void count_labels(const Matrix<float>& logits, const AuditSamples& samples,
                  std::span<const std::ptrdiff_t> column, std::size_t model, PopulationPass& pass) {
  std::size_t right = 0, of_retained = 0;
  double loss = 0;
  std::vector<std::size_t> of_forgotten(samples.forgotten.size());
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    const std::size_t label = samples.labels[i];
    const std::size_t answer = place_of_largest(logits.row(i));
    const auto place = std::ranges::lower_bound(samples.forgotten, label);
    if (place != samples.forgotten.end() && *place == label) {
      const auto c = static_cast<std::size_t>(place - samples.forgotten.begin());
      ++of_forgotten[c];
      pass.shares[c][answer][model] += 1;
      continue;
    }
    ++of_retained;
    const auto target = static_cast<std::size_t>(column[label]);
    right += answer == target ? 1 : 0;
    loss += cross_entropy(logits.row(i), target);
  }
  if (of_retained != 0) {
    pass.accuracy[model] = share(right, of_retained);
    pass.loss[model] = loss / static_cast<double>(of_retained);
  }
  for (std::size_t c = 0; c < of_forgotten.size(); ++c)
    for (auto& per_model : pass.shares[c])
      per_model[model] /= static_cast<double>(std::max<std::size_t>(1, of_forgotten[c]));
}

}  // namespace

PopulationPass pass_over(const Population& population, const AuditSamples& samples,
                         const AuditOptions& options) {
  const std::vector<std::uint32_t> rows = all_samples(samples);
  const std::vector<std::ptrdiff_t> column = columns_of(population, samples);
  PopulationPass pass;
  const std::size_t models = population.models;
  const bool any_retained = std::ranges::any_of(
      samples.labels, [&](std::size_t label) { return !is_forgotten(samples, label); });
  pass.accuracy.resize(any_retained ? models : 0);
  pass.loss.resize(any_retained ? models : 0);
  pass.fingerprint.resize(models);
  const std::size_t sketched = std::min(kSketched, rows.size());
  pass.sketch = Matrix<float>(models, sketched * population.columns);
  pass.shares.assign(samples.forgotten.size(),
                     std::vector(population.columns, std::vector<double>(models)));
  run_tasks(
      models, options.workers,
      [&](std::size_t model, unsigned) {
        Matrix<float> logits(rows.size(), population.columns);
        read_finite(population, model, rows, logits);
        pass.fingerprint[model] = fingerprint_of(logits.flat());
        for (std::size_t i = 0; i < rows.size(); ++i)
          require_digits(population, model, i, logits.row(i));
        for (std::size_t i = 0; i < sketched; ++i)
          std::ranges::copy(
              logits.row(i * rows.size() / sketched),
              pass.sketch.row(model).begin() + static_cast<std::ptrdiff_t>(i * population.columns));
        count_labels(logits, samples, column, model, pass);
      },
      options.stop);
  return pass;
}

FlipPass flips_between(const Population& before, const Population& after,
                       const AuditSamples& samples, const AuditOptions& options) {
  const std::vector<std::uint32_t> rows = all_samples(samples);
  const std::vector<std::size_t> retained =
      split_classes(samples.classes, samples.forgotten).retained;
  FlipPass pass{std::vector<double>(after.models), std::vector<double>(after.models), {}};
  std::vector<std::optional<double>> of_correct(after.models);
  run_tasks(
      after.models, options.workers,
      [&](std::size_t model, unsigned) {
        Matrix<float> old_logits(rows.size(), before.columns),
            new_logits(rows.size(), after.columns);
        read_finite(before, model, rows, old_logits);
        read_finite(after, model, rows, new_logits);
        struct {
          std::size_t flips = 0, samples = 0;
        } all, forgotten, correct;
        std::vector<float> naive(retained.size());
        for (std::size_t i = 0; i < rows.size(); ++i) {
          for (std::size_t j = 0; j < retained.size(); ++j) naive[j] = old_logits(i, retained[j]);
          const std::size_t old_answer = place_of_largest(naive);
          const std::size_t flip = old_answer != place_of_largest(new_logits.row(i)) ? 1 : 0;
          const auto count = [&](auto& figure) {
            figure.flips += flip;
            ++figure.samples;
          };
          count(all);
          if (is_forgotten(samples, samples.labels[i]))
            count(forgotten);
          else if (retained[old_answer] == samples.labels[i])
            count(correct);
        }
        pass.all[model] = share(all.flips, all.samples);
        pass.forgotten[model] = share(forgotten.flips, forgotten.samples);
        if (correct.samples != 0) of_correct[model] = share(correct.flips, correct.samples);
      },
      options.stop);
  for (const std::optional<double>& of_model : of_correct)
    if (of_model) pass.correct.push_back(*of_model);
  return pass;
}

}  // namespace oubli
