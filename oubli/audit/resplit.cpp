#include "oubli/audit/resplit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oubli/audit/bootstrap.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

// Of the results of two splits of one population.
double correlation(const SplitSizes& sizes) {
  const double q = static_cast<double>(sizes.test) / static_cast<double>(sizes.train + sizes.test);
  return std::max(q, 2 * q * (1 - q));
}

// Of an advantage from as many independent answers; one more right and one more wrong.
double variance_of_answers(double advantage, std::size_t first, std::size_t second) {
  const auto n = static_cast<double>(first), m = static_cast<double>(second);
  const double right = ((advantage + 1) / 2 * (n + m) + 1) / (n + m + 2);
  return right * (1 - right) * (1 / n + 1 / m);
}

// Calls use(attack of `leaks`, attack of `again`) for those that both have.
template <typename Use>
void for_each_pair(std::vector<ObserverLeak>& leaks, const std::vector<ObserverLeak>& again,
                   const Use& use) {
  for (ObserverLeak& leak : leaks) {
    const ObserverLeak* other = find(again, leak.observer);
    for (AttackLeak& attack : leak.attacks)
      if (const AttackLeak* found = find(other, attack.attack, attack.answers)) use(attack, *found);
  }
}

template <typename Use>
void for_each_pair(Leaks& leaks, const Leaks& again, const Use& use) {
  for (ClassLeaks& of_class : leaks.classes)
    if (const ClassLeaks* found = find(again.classes, of_class.label))
      for_each_pair(of_class.observers, found->observers, use);
  for_each_pair(leaks.forgotten, again.forgotten, use);
  for_each_pair(leaks.retained, again.retained, use);
}

}  // namespace

Figure over_splits(std::span<const double> advantages, const SplitSizes& first,
                   const SplitSizes& second, std::size_t answers) {
  OUBLI_ASSERT(!advantages.empty() && first.test > 0 && second.test > 0);
  const MeanStd found = mean_std(advantages);
  if (advantages.size() < 2) return Figure::of(found.mean, "a single split");
  if (std::min(first.test, second.test) < kFewModels)
    return Figure::of(found.mean,
                      fmt::format("{} and {} test networks: splits of fewer than {} say too little",
                                  first.test, second.test, kFewModels));
  const auto splits = static_cast<double>(advantages.size());
  const double rho = std::max(correlation(first), correlation(second));
  const double variance =
      std::max((1 / splits + rho / (1 - rho)) * found.std * found.std,
               variance_of_answers(found.mean, first.test * answers, second.test * answers));
  const double half = student_t_975(splits - 1) * std::sqrt(variance);
  return {.value = found.mean,
          .low = std::max(-1.0, found.mean - half),
          .high = std::min(1.0, found.mean + half),
          .reason = {}};
}

void add_splits(Leaks& leaks, const Population& first, const Population& second,
                const AuditSamples& samples, AuditOptions options, std::size_t splits) {
  options.directions = 0;
  options.bootstrap = 0;
  const std::size_t train = leaks.networks_train;
  const SplitSizes sizes[2] = {{train, first.models - train}, {train, second.models - train}};
  for (options.split = 1; options.split < splits; ++options.split)
    for_each_pair(leaks, tell_apart(first, second, samples, options),
                  [&](AttackLeak& attack, const AttackLeak& again) {
                    if (!attack.advantage.value || !again.advantage.value) return;
                    if (attack.splits.empty()) attack.splits.push_back(*attack.advantage.value);
                    attack.splits.push_back(*again.advantage.value);
                    attack.over_splits =
                        over_splits(attack.splits, sizes[0], sizes[1], attack.answers_per_network);
                  });
}

}  // namespace oubli
