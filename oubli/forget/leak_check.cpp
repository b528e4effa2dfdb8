#include "oubli/forget/leak_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oubli/array/row_blocks.h"
#include "oubli/audit/recognition.h"
#include "oubli/base/largest.h"
#include "oubli/base/random.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

// Fitting a read-out to n samples of k logits takes n k^2 steps; this many are some seconds.
constexpr double kReadoutSteps = 2e9;
constexpr std::size_t kReadoutLeast = 500;         // samples, below which it is not worth having
constexpr std::size_t kMostElements = 50'000'000;  // of a matrix of logits: 200 MB
// Where no read-out is fitted, multiplications for the mean logits of samples, and for all logits
// of those whose labels are compared: tenths of a second each.
constexpr double kMeanSteps = 2e9;
constexpr double kLabelSteps = 2e9;

std::size_t at_most(double steps, std::size_t per_sample) {
  return std::max<std::size_t>(200,
                               static_cast<std::size_t>(steps / static_cast<double>(per_sample)));
}

// All samples, or a seeded choice of `most` that takes those of forgotten classes first (but no
// more than half).
std::vector<std::size_t> choose_for_leaks(std::span<const std::uint32_t> labels,
                                          const ClassSplit& split, std::size_t most,
                                          std::uint64_t seed) {
  std::vector<std::size_t> of_forgotten;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < labels.size(); ++i)
    (split.forgets(labels[i]) ? of_forgotten : others).push_back(i);
  RandomStream random(seed, task_id("leak samples"));
  random.shuffle(std::span(of_forgotten));
  random.shuffle(std::span(others));
  if (labels.size() > most) {
    of_forgotten.resize(std::min(of_forgotten.size(), most / 2));
    others.resize(std::min(others.size(), most - of_forgotten.size()));
  }
  of_forgotten.insert(of_forgotten.end(), others.begin(), others.end());
  std::ranges::sort(of_forgotten);
  return of_forgotten;
}

Matrix<float> keep_columns(MatrixView<const float> logits, std::span<const std::size_t> retained) {
  auto kept = Matrix<float>::for_overwrite(logits.rows(), retained.size());
  for (std::size_t i = 0; i < logits.rows(); ++i)
    for (std::size_t j = 0; j < retained.size(); ++j) kept(i, j) = logits(i, retained[j]);
  return kept;
}

struct BothLogits {
  Matrix<float> naive;
  Matrix<float> chosen;
};

// Samples are copied in blocks, so that data of gigabytes is not there twice. A multiple of the
// blocks in which logits_of() works: the logits are those of all samples at once.
constexpr std::size_t kLogitBlock = 8192;

BothLogits logits_after(const HeadView& old_head, const HeadView& new_head,
                        const FiltrationPlan& plan, const CalibrationData& data,
                        std::span<const std::size_t> rows) {
  const std::vector<std::size_t>& retained = plan.filter.split.retained;
  const unsigned workers = available_cores();
  BothLogits all{Matrix<float>::for_overwrite(rows.size(), retained.size()),
                 Matrix<float>::for_overwrite(rows.size(), retained.size())};
  for (std::size_t first = 0; first < rows.size(); first += kLogitBlock) {
    const std::size_t count = std::min(kLogitBlock, rows.size() - first);
    const Matrix<float> values = pick_samples(data.values, rows.subspan(first, count));
    const bool on_logits = data.space == Space::logits;
    const Matrix<float> naive =
        keep_columns(on_logits ? values : logits_of(old_head, values.view(), workers), retained);
    const Matrix<float> chosen = on_logits ? plan.on_logits->apply(values.view())
                                           : logits_of(new_head, values.view(), workers);
    std::ranges::copy(naive.flat(), all.naive.view().middle_rows(first, count).flat().begin());
    std::ranges::copy(chosen.flat(), all.chosen.view().middle_rows(first, count).flat().begin());
  }
  return all;
}

// Fills in what `check` says of labels; rows of the logits are the data's `rows`.
void compare_labels(const BothLogits& logits, std::span<const std::size_t> retained,
                    std::span<const std::uint32_t> labels, std::span<const std::size_t> rows,
                    LeakCheck& check) {
  check.label_samples = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t naive = place_of_largest(logits.naive.row(i)),
                      now = place_of_largest(logits.chosen.row(i));
    const std::size_t label = labels[rows[i]];
    if (naive != now) ++check.label_flips;
    if (!std::ranges::binary_search(retained, label)) continue;
    ++check.kept_samples;
    if (naive != now) ++check.kept_flips;
    if (retained[naive] == label) ++check.kept_right;
    if (retained[now] == label) ++check.kept_right_now;
  }
}

// The mean of the retained logits as a function of what the data holds. Logits are linear in it, so
// their mean takes one row, not one per class.
struct MeanLogit {
  Matrix<double> row;
  double bias = 0;

  [[nodiscard]] float of(std::span<const float> values) const {
    return static_cast<float>(dot(row.row(0), values) + bias);
  }
};

MeanLogit mean_logit(const HeadView& head, std::span<const std::size_t> classes) {
  Matrix<double> average(1, head.classes());
  const std::vector<double> bias = bias_of(head);
  MeanLogit mean;
  for (const std::size_t j : classes) {
    average(0, j) = 1 / static_cast<double>(classes.size());
    mean.bias += bias[j] / static_cast<double>(classes.size());
  }
  mean.row = combine_rows(head, average);
  return mean;
}

MeanLogit mean_logit(const LogitFilter& filter) {
  const auto kept = static_cast<double>(filter.split.retained.size());
  MeanLogit mean{Matrix<double>(1, filter.split.classes), 0};
  for (const std::size_t j : filter.split.retained) mean.row(0, j) = 1 / kept;
  for (std::size_t t = 0; t < filter.d.rows(); ++t) {
    double offset = 0;
    for (const double d : filter.d.row(t)) offset += d / kept;
    for (std::size_t j = 0; j < filter.split.classes; ++j)
      mean.row(0, j) += offset * filter.y(t, j);
    mean.bias += offset * filter.beta[t];
  }
  return mean;
}

// Of each sample, the mean retained logit after naive deletion and after the chosen method.
BothLogits mean_logits_after(const HeadView& old_head, const HeadView& new_head,
                             const FiltrationPlan& plan, const CalibrationData& data,
                             std::span<const std::size_t> rows) {
  std::vector<std::size_t> new_classes(plan.filter.split.retained.size());
  std::iota(new_classes.begin(), new_classes.end(), std::size_t{0});
  const bool on_logits = data.space == Space::logits;
  const MeanLogit naive = on_logits ? mean_logit(naive_filter(plan.filter.split))
                                    : mean_logit(old_head, plan.filter.split.retained);
  const MeanLogit chosen =
      on_logits ? mean_logit(*plan.on_logits) : mean_logit(new_head, new_classes);
  BothLogits means{Matrix<float>(rows.size(), 1), Matrix<float>(rows.size(), 1)};
  constexpr std::size_t kBlock = 256;
  run_tasks((rows.size() + kBlock - 1) / kBlock, available_cores(),
            [&](std::size_t block, unsigned) {
              const std::size_t first = block * kBlock;
              std::vector<float> buffer;
              for (std::size_t i = first; i < std::min(first + kBlock, rows.size()); ++i) {
                const auto values = float_row(data.values, rows[i], buffer);
                means.naive(i, 0) = naive.of(values);
                means.chosen(i, 0) = chosen.of(values);
              }
            });
  return means;
}

// One read-out is fitted per forgotten class, observer and method, on two halves: the most samples
// that this is done in seconds for.
std::size_t most_for_readout(const ClassSplit& split) {
  const auto kept = static_cast<double>(split.retained.size());
  const double steps_per_sample = kept * kept * 6 * static_cast<double>(split.forgotten.size());
  return static_cast<std::size_t>(std::min(kReadoutSteps / steps_per_sample, 1e9));
}

// What both methods leak to one observer.
void add_rows(const BothLogits& logits, Observer observer, std::span<const std::uint32_t> labels,
              const ClassSplit& split, std::uint64_t seed, bool readout, LeakCheck& check) {
  BothLogits seen = logits;
  observe(observer, seen.naive.view());
  observe(observer, seen.chosen.view());
  const std::vector<Recognition> naive =
      measure_recognition(seen.naive.view(), labels, split.forgotten, seed);
  const std::vector<Recognition> chosen =
      measure_recognition(seen.chosen.view(), labels, split.forgotten, seed);
  for (std::size_t n = 0; n < naive.size(); ++n) {
    LeakRow& row = check.rows.emplace_back();
    row.forgotten_class = naive[n].forgotten_class;
    row.samples = naive[n].samples;
    row.observer = observer;
    if (readout) {
      row.readout_naive = naive[n].readout;
      row.readout = chosen[n].readout;
    }
    if (observer != Observer::logits) continue;
    row.ghost_naive = naive[n].ghost;
    row.ghost = chosen[n].ghost;
    if (readout && !naive[n].readout)
      check.not_checked.push_back(fmt::format("linear read-out of class {}: {} samples, wanted {}",
                                              row.forgotten_class, row.samples, kReadoutSamples));
  }
}

}  // namespace

LeakCheck check_leaks(const HeadView& old_head, const HeadView& new_head,
                      const FiltrationPlan& plan, const CalibrationData& data, std::uint64_t seed) {
  LeakCheck check;
  const ClassSplit& split = plan.filter.split;
  if (data.space == Space::logits && !plan.on_logits) {
    check.not_checked.push_back("leaks: the filter works on features, and only logits were given");
    return check;
  }
  std::size_t most = most_for_readout(split);
  const bool readout = most >= kReadoutLeast;
  const std::size_t most_logits = std::max<std::size_t>(200, kMostElements / old_head.classes());
  if (readout) {
    most = std::min(most, most_logits);
  } else {
    most = at_most(kMeanSteps, data.values.shape[1]);
    check.not_checked.push_back(
        fmt::format("linear read-out: fitting it to {} logits for {} classes would take too long",
                    split.retained.size(), split.forgotten.size()));
  }
  const std::vector<std::size_t> rows = choose_for_leaks(data.labels, split, most, seed);
  std::vector<std::uint32_t> labels;
  labels.reserve(rows.size());
  for (const std::size_t row : rows) labels.push_back(data.labels[row]);
  check.samples = rows.size();
  BothLogits logits;
  if (readout) {
    logits = logits_after(old_head, new_head, plan, data, rows);
    compare_labels(logits, split.retained, data.labels, rows, check);
  } else {
    const std::size_t most_labels =
        std::min(most_logits, at_most(kLabelSteps, old_head.classes() * data.values.shape[1]));
    const std::vector<std::size_t> some = choose_for_leaks(data.labels, split, most_labels, seed);
    compare_labels(logits_after(old_head, new_head, plan, data, some), split.retained, data.labels,
                   some, check);
    // One column with the same mean: the ghost is the same, a read-out of it is dropped.
    logits = mean_logits_after(old_head, new_head, plan, data, rows);
  }
  for (const Observer observer : all_values<Observer>())
    if (readout || observer == Observer::logits)
      add_rows(logits, observer, labels, split, seed, readout, check);
  for (const std::size_t c : split.forgotten)
    if (std::ranges::find(check.rows, c, &LeakRow::forgotten_class) == check.rows.end())
      check.not_checked.push_back(fmt::format("leaks of class {}: no samples of it", c));
  return check;
}

}  // namespace oubli
