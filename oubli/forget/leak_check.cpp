#include "oubli/forget/leak_check.h"

#include <algorithm>
#include <cmath>

#include "oubli/audit/leak.h"
#include "oubli/base/random.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

// Fitting a read-out to n samples of k logits takes n k^2 steps; this many are some seconds.
constexpr double kReadoutSteps = 2e9;
constexpr std::size_t kReadoutLeast = 500;         // samples, below which it is not worth having
constexpr std::size_t kMostElements = 50'000'000;  // of a matrix of logits: 200 MB

// All samples, or a seeded choice of `most` that takes those of forgotten classes first (but no
// more than half).
std::vector<std::size_t> choose_for_leaks(std::span<const std::uint32_t> labels,
                                          std::span<const std::size_t> forget, std::size_t most,
                                          std::uint64_t seed) {
  std::vector<std::size_t> of_forgotten;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < labels.size(); ++i)
    (std::ranges::find(forget, labels[i]) != forget.end() ? of_forgotten : others).push_back(i);
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
  Matrix<float> kept(logits.rows(), retained.size());
  for (std::size_t i = 0; i < logits.rows(); ++i)
    for (std::size_t j = 0; j < retained.size(); ++j) kept(i, j) = logits(i, retained[j]);
  return kept;
}

struct BothLogits {
  Matrix<float> naive;
  Matrix<float> chosen;
};

BothLogits logits_after(const HeadView& old_head, const HeadView& new_head,
                        const FiltrationPlan& plan, const CalibrationData& data,
                        std::span<const std::size_t> rows) {
  const Matrix<float> values = pick_samples(data.values, rows);
  if (data.space == Space::logits)
    return {keep_columns(values, plan.filter.retained), plan.on_logits->apply(values.view())};
  const unsigned workers = available_cores();
  return {keep_columns(logits_of(old_head, values.view(), workers), plan.filter.retained),
          logits_of(new_head, values.view(), workers)};
}

std::size_t count_flips(const BothLogits& logits) {
  std::size_t flips = 0;
  for (std::size_t i = 0; i < logits.naive.rows(); ++i) {
    const auto best = [i](const Matrix<float>& m) {
      const auto row = m.row(i);
      return std::ranges::max_element(row) - row.begin();
    };
    if (best(logits.naive) != best(logits.chosen)) ++flips;
  }
  return flips;
}

// What measure_leaks() finds, or the ghost logit alone where a read-out would take too long.
std::vector<Leak> leaks_of(MatrixView<const float> logits, std::span<const std::uint32_t> labels,
                           std::span<const std::size_t> forget, std::uint64_t seed, bool readout) {
  if (readout) return measure_leaks(logits, labels, forget, seed);
  // One column that has the same mean: the ghost is the same, the read-out is dropped.
  Matrix<float> mean(logits.rows(), 1);
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    double sum = 0;
    for (const float value : logits.row(i)) sum += static_cast<double>(value);
    mean(i, 0) = static_cast<float>(sum / static_cast<double>(logits.cols()));
  }
  std::vector<Leak> leaks = measure_leaks(mean.view(), labels, forget, seed);
  for (Leak& leak : leaks) leak.readout.reset();
  return leaks;
}

}  // namespace

LeakCheck check_leaks(const HeadView& old_head, const HeadView& new_head,
                      const FiltrationPlan& plan, std::span<const std::size_t> forget,
                      const CalibrationData& data, std::uint64_t seed) {
  LeakCheck check;
  const std::size_t kept = plan.filter.retained.size();
  if (data.space == Space::logits && !plan.on_logits) {
    check.not_checked.push_back("leaks: the filter works on features, and only logits were given");
    return check;
  }
  // One read-out is fitted per forgotten class, observer and method, on two halves.
  const double steps_per_sample = static_cast<double>(kept) * static_cast<double>(kept) * 6 *
                                  static_cast<double>(forget.size());
  auto most = static_cast<std::size_t>(std::min(kReadoutSteps / steps_per_sample, 1e9));
  const bool readout = most >= kReadoutLeast;
  if (!readout) {
    most = 20'000;
    check.not_checked.push_back(
        fmt::format("linear read-out: fitting it to {} logits for {} classes would take too long",
                    kept, forget.size()));
  }
  most = std::min(most, std::max<std::size_t>(200, kMostElements / old_head.classes()));
  const std::vector<std::size_t> rows = choose_for_leaks(data.labels, forget, most, seed);
  std::vector<std::uint32_t> labels;
  for (const std::size_t row : rows) labels.push_back(data.labels[row]);
  BothLogits logits = logits_after(old_head, new_head, plan, data, rows);
  check.samples = rows.size();
  check.label_flips = count_flips(logits);

  for (const Observer observer : kAllObservers) {
    if (observer != Observer::logits && !readout) continue;
    BothLogits seen = logits;
    observe(observer, seen.naive.view());
    observe(observer, seen.chosen.view());
    const std::vector<Leak> naive = leaks_of(seen.naive.view(), labels, forget, seed, readout);
    const std::vector<Leak> chosen = leaks_of(seen.chosen.view(), labels, forget, seed, readout);
    for (std::size_t n = 0; n < naive.size(); ++n) {
      LeakRow row{.forgotten_class = naive[n].forgotten_class,
                  .samples = naive[n].samples,
                  .observer = observer,
                  .ghost_naive = {},
                  .ghost = {},
                  .readout_naive = naive[n].readout,
                  .readout = chosen[n].readout};
      if (observer == Observer::logits) {
        row.ghost_naive = naive[n].ghost;
        row.ghost = chosen[n].ghost;
      }
      check.rows.push_back(row);
      if (readout && observer == Observer::logits && !naive[n].readout)
        check.not_checked.push_back(
            fmt::format("linear read-out of class {}: {} samples, wanted {}",
                        naive[n].forgotten_class, naive[n].samples, kReadoutSamples));
    }
  }
  for (const std::size_t c : forget)
    if (std::ranges::find(check.rows, c, &LeakRow::forgotten_class) == check.rows.end())
      check.not_checked.push_back(fmt::format("leaks of class {}: no samples of it", c));
  return check;
}

}  // namespace oubli
