#include "oubli/audit/tell_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/class_audit.h"
#include "oubli/audit/jackknife.h"
#include "oubli/audit/sampling.h"
#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"

namespace oubli {
namespace {

// As many models of either population to learn from; all the others are the test.
ModelSplit split_models(std::size_t models, std::size_t train, const AuditOptions& options,
                        std::uint64_t side) {
  std::vector<std::uint32_t> order(models);
  std::iota(order.begin(), order.end(), 0U);
  RandomStream random(options.seed, options.split == 0 ? task_id("split", {side})
                                                       : task_id("split", {side, options.split}));
  random.shuffle(std::span(order));
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(train);
  return {{order.begin(), middle}, {middle, order.end()}};
}

Figure advantage(const ClassAudit::AttackResult& result, const ModelBootstrap& bootstrap) {
  const double mean = mean_std(result.shares[0]).mean + mean_std(result.shares[1]).mean - 1;
  Figure figure = Figure::of(mean, bootstrap.why_impossible());
  if (bootstrap.possible()) {
    const auto [low, high] =
        bootstrap.interval(result.shares[0], result.shares[1], result.answers_per_network);
    figure.low = low - 1;
    figure.high = high - 1;
  }
  return figure;
}

Figure with_interval(double value, const LeftOut& left_out) {
  Figure figure = Figure::of(value);
  if (left_out[0].empty()) {
    figure.reason = "no intervals were asked for";
  } else if (!jackknife_possible(left_out)) {
    figure.reason = fmt::format("{} and {} models: the jackknife takes three of either population",
                                left_out[0].size(), left_out[1].size());
  } else {
    const double half = jackknife_half_width(left_out);
    figure.low = std::max(0.0, value - half);
    figure.high = std::min(1.0, value + half);
  }
  return figure;
}

AttackLeak to_attack_leak(const ClassAudit::AttackResult& result, const ModelBootstrap& bootstrap) {
  AttackLeak leak;
  leak.attack = result.row.attack;
  leak.answers = result.row.answers;
  if (!result.reason.empty()) {
    for (const auto& [key, title, chart, figure] : kAttackFigures)
      leak.*figure = Figure::missing(result.reason);
    return leak;
  }
  leak.answers_per_network = result.answers_per_network;
  leak.shares = result.shares;
  leak.advantage = advantage(result, bootstrap);
  ScoreFigures scores = score_figures(*result.scores, bootstrap);
  leak.area = std::move(scores.area);
  leak.found_1 = std::move(scores.tails[0].rate);
  leak.found_1_mirror = std::move(scores.tails[1].rate);
  leak.found_01 = std::move(scores.tails[2].rate);
  leak.found_01_mirror = std::move(scores.tails[3].rate);
  leak.tail_answers = {scores.tails[1].answers, scores.tails[0].answers};
  return leak;
}

ObserverLeak to_leak(Observer observer, const ClassAudit::ObserverResult& result,
                     const ModelBootstrap& bootstrap) {
  ObserverLeak leak;
  leak.observer = observer;
  for (const ClassAudit::AttackResult& attack : result.attacks)
    leak.attacks.push_back(to_attack_leak(attack, bootstrap));
  if (observer == Observer::label) {
    const Figure none = Figure::missing("a label is not a number: there is nothing to project");
    leak.ks = leak.ks_largest = leak.ks_ones = none;
  } else if (result.ks.empty()) {
    leak.ks = leak.ks_largest = leak.ks_ones = Figure::missing("not asked for");
  } else {
    leak.ks = with_interval(mean_std(result.ks).mean, result.ks_left_out);
    leak.ks_largest = Figure::of(result.ks_largest, "none is computed for a maximum");
    leak.ks_ones = observer == Observer::logits
                       ? with_interval(result.ks_ones, result.ks_ones_left_out)
                       : Figure::missing("probabilities do not show the mean logit");
  }
  return leak;
}

// Only verdicts need them, and those are on forgotten classes.
void drop_shares(std::vector<ObserverLeak>& leaks) {
  for (ObserverLeak& leak : leaks)
    for (AttackLeak& attack : leak.attacks) attack.shares = {};
}

// The mean over classes, model by model and direction by direction: linear figures stay exact.
class MeanOverClasses {
 public:
  void add(const std::vector<ClassAudit::ObserverResult>& results) {
    if (classes_++ == 0) {
      sums_ = results;
      return;
    }
    for (std::size_t o = 0; o < results.size(); ++o) {
      for (std::size_t a = 0; a < results[o].attacks.size(); ++a)
        add_attack(sums_[o].attacks[a], results[o].attacks[a]);
      add_to(sums_[o].ks, results[o].ks);
      sums_[o].ks_largest += results[o].ks_largest;
      sums_[o].ks_ones += results[o].ks_ones;
      for (std::size_t side = 0; side < 2; ++side) {
        add_to(sums_[o].ks_left_out[side], results[o].ks_left_out[side]);
        add_to(sums_[o].ks_ones_left_out[side], results[o].ks_ones_left_out[side]);
      }
    }
  }

  [[nodiscard]] std::vector<ObserverLeak> leaks(const AuditOptions& options,
                                                const ModelBootstrap& bootstrap) {
    std::vector<ObserverLeak> leaks;
    if (classes_ == 0) return leaks;
    const auto divide = [&](std::vector<double>& values) {
      for (double& value : values) value /= static_cast<double>(classes_);
    };
    for (std::size_t o = 0; o < sums_.size(); ++o) {
      for (ClassAudit::AttackResult& attack : sums_[o].attacks) {
        for (auto& side : attack.shares) divide(side);
        if (attack.scores) attack.scores->divide(static_cast<double>(classes_));
      }
      divide(sums_[o].ks);
      sums_[o].ks_largest /= static_cast<double>(classes_);
      sums_[o].ks_ones /= static_cast<double>(classes_);
      for (std::size_t side = 0; side < 2; ++side) {
        divide(sums_[o].ks_left_out[side]);
        divide(sums_[o].ks_ones_left_out[side]);
      }
      leaks.push_back(to_leak(options.observers[o], sums_[o], bootstrap));
    }
    return leaks;
  }

 private:
  static void add_to(std::vector<double>& sum, const std::vector<double>& values) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  // What one class cannot give the mean has not either.
  static void add_attack(ClassAudit::AttackResult& sum, const ClassAudit::AttackResult& result) {
    if (sum.reason.empty() && !result.reason.empty()) sum = result;
    if (!sum.reason.empty()) return;
    sum.answers_per_network += result.answers_per_network;
    for (std::size_t side = 0; side < 2; ++side) add_to(sum.shares[side], result.shares[side]);
    sum.scores->add(*result.scores);
  }

  std::size_t classes_ = 0;
  std::vector<ClassAudit::ObserverResult> sums_;
};

}  // namespace

Leaks tell_apart(const Population& all_of_first, const Population& all_of_second,
                 const AuditSamples& samples, const AuditOptions& options) {
  const Population first = audited_networks(all_of_first, options),
                   second = audited_networks(all_of_second, options);
  OUBLI_ASSERT(first.models >= 2 && second.models >= 2 && first.columns == second.columns);
  const std::size_t fewer = std::min(first.models, second.models);
  const auto share =
      static_cast<std::size_t>(std::lround(options.train_share * static_cast<double>(fewer)));
  const std::size_t train = std::clamp<std::size_t>(share, 1, fewer - 1);
  const Population* const populations[2] = {&first, &second};
  const ModelSplit splits[2] = {split_models(first.models, train, options, 0),
                                split_models(second.models, train, options, 1)};
  RandomStream random(options.seed, task_id("bootstrap"));
  const ModelBootstrap bootstrap(splits[0].test.size(), splits[1].test.size(), options.bootstrap,
                                 random);

  std::vector<std::vector<std::uint32_t>> by_class(samples.classes);
  for (std::size_t i = 0; i < samples.labels.size(); ++i)
    by_class[samples.labels[i]].push_back(static_cast<std::uint32_t>(i));

  Leaks leaks;
  leaks.networks_train = train;
  MeanOverClasses forgotten_mean, retained_mean;
  const KsDirections directions(first.columns,
                                (first.models + second.models) * samples.labels.size(), options);
  for (const std::size_t label : audited_classes(samples, options).all()) {
    const bool forgotten = std::ranges::binary_search(samples.forgotten, label);
    throw_if_stopped(options.stop);
    ClassAudit audit(populations, splits, label, forgotten, by_class[label], options, bootstrap,
                     directions);
    const auto results = audit.run();
    ClassLeaks of_class{.label = label,
                        .forgotten = forgotten,
                        .points_train = audit.points_train(),
                        .points_test = audit.points_test(),
                        .observers = {}};
    for (std::size_t o = 0; o < results.size(); ++o)
      of_class.observers.push_back(to_leak(options.observers[o], results[o], bootstrap));
    if (!forgotten) drop_shares(of_class.observers);
    leaks.classes.push_back(std::move(of_class));
    (forgotten ? forgotten_mean : retained_mean).add(results);
    if (options.on_class) options.on_class();
  }
  leaks.forgotten = forgotten_mean.leaks(options, bootstrap);
  leaks.retained = retained_mean.leaks(options, bootstrap);
  drop_shares(leaks.forgotten);
  drop_shares(leaks.retained);
  return leaks;
}

}  // namespace oubli
