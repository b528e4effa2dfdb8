#include "oubli/audit/tell_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/jackknife.h"
#include "oubli/audit/kolmogorov_smirnov.h"
#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

// Which models of one population attacks learn from, and which they are tested on.
struct Split {
  std::vector<std::uint32_t> train, test;
};

// As many models of either population to learn from; all the others are the test.
Split split_models(std::size_t models, std::size_t train, std::uint64_t seed, std::uint64_t side) {
  std::vector<std::uint32_t> order(models);
  std::iota(order.begin(), order.end(), 0U);
  RandomStream random(seed, task_id("split", {side}));
  random.shuffle(std::span(order));
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(train);
  return {{order.begin(), middle}, {middle, order.end()}};
}

// The samples of a class that model `model` shows to attacks: all, or a random few.
std::vector<std::uint32_t> choose_images(std::size_t available, std::size_t wanted,
                                         std::uint64_t seed, std::uint64_t label,
                                         std::uint64_t side, std::uint64_t model) {
  std::vector<std::uint32_t> images(available);
  std::iota(images.begin(), images.end(), 0U);
  if (wanted == 0 || wanted >= available) return images;
  RandomStream random(seed, task_id("images", {label, side, model}));
  for (std::size_t i = 0; i < wanted; ++i)
    std::swap(images[i], images[i + random.below(available - i)]);
  images.resize(wanted);
  return images;
}

// One class of one population: models x images rows of logits.
struct ClassRows {
  std::size_t images = 0;
  Matrix<float> logits;
};

ClassRows read_class(const Population& population, std::span<const std::uint32_t> samples,
                     const AuditOptions& options) {
  ClassRows rows{samples.size(), Matrix<float>::for_overwrite(population.models * samples.size(),
                                                              population.columns)};
  run_tasks(
      population.models, options.workers,
      [&](std::size_t model, unsigned) {
        read_finite(population, model, samples,
                    rows.logits.view().middle_rows(model * samples.size(), samples.size()));
      },
      options.stop);
  return rows;
}

// What attacks learn from and are tested on, as one observer sees it.
struct AttackData {
  Matrix<float> train, test;
  std::vector<std::uint8_t> labels;  // of `train`: 1 for the first population
};

class ClassAudit {
 public:
  ClassAudit(const Population* const (&populations)[2], const Split (&splits)[2],
             std::uint32_t label, bool forgotten, std::span<const std::uint32_t> samples,
             const AuditOptions& options)
      : options_(options), splits_(splits), label_(label) {
    models_ = {populations[0]->models, populations[1]->models};
    const std::size_t wanted = forgotten ? options.images_forgotten : options.images_retained;
    for (std::size_t side = 0; side < 2; ++side) {
      rows_[side] = read_class(*populations[side], samples, options);
      for (const bool training : {true, false}) {
        for (const std::uint32_t model : training ? splits[side].train : splits[side].test) {
          const auto images =
              choose_images(samples.size(), wanted, options.seed, label, side, model);
          auto& rows = training ? train_rows_ : test_rows_;
          for (const std::uint32_t image : images)
            rows.push_back({static_cast<std::uint8_t>(side),
                            static_cast<std::uint32_t>(model * samples.size() + image)});
          images_per_model_ = images.size();
        }
      }
    }
    // Equally far training points count by their order: it must not be by population.
    RandomStream random(options.seed, task_id("order", {label}));
    random.shuffle(std::span(train_rows_));
  }

  [[nodiscard]] std::size_t points_train() const { return train_rows_.size(); }
  [[nodiscard]] std::size_t points_test() const { return test_rows_.size(); }

  // Shares of right answers per test model of the two populations.
  using Shares = std::array<std::vector<double>, 2>;
  struct ObserverResult {
    std::size_t images = 0;  // behind each of the shares
    std::vector<Shares> attacks;
    std::vector<double> ks;  // per direction
    double ks_largest = 0;   // of `ks`
    double ks_ones = 0;
    LeftOut ks_left_out;  // the mean over the first directions, without groups of models
    LeftOut ks_ones_left_out;
  };

  std::vector<ObserverResult> run() {
    const std::size_t observers = options_.observers.size();
    Team team(options_.workers);
    std::vector<AttackData> data(observers);
    team.run(
        2 * observers,
        [&](std::size_t task, unsigned) {
          AttackData& seen = data[task / 2];
          if (task % 2 == 0) {
            seen.train = gather(train_rows_, options_.observers[task / 2]);
            for (const Row& row : train_rows_) seen.labels.push_back(row.side == 0 ? 1 : 0);
          } else {
            seen.test = gather(test_rows_, options_.observers[task / 2]);
          }
        },
        options_.stop);
    const Matrix<float> directions = all_directions();
    std::vector<std::optional<DirectionalKs>> distances(observers);
    std::vector<ObserverResult> results(observers);

    // All figures side by side: whole attacks, the costly first ones first, and then the many small
    // parts of the distances, which leave no worker without work for long.
    std::vector<std::function<void()>> tasks;
    for (std::size_t a = 0; a < options_.attacks.size(); ++a) {
      for (std::size_t o = 0; o < observers; ++o) {
        results[o].attacks.resize(options_.attacks.size());
        tasks.emplace_back([&, a, o] {
          results[o].attacks[a] = attack(options_.attacks[a], options_.observers[o], data[o]);
        });
      }
    }
    for (std::size_t o = 0; o < observers; ++o) {
      results[o].images = images_per_model_;
      if (options_.observers[o] == Observer::label || options_.directions == 0) continue;
      distances[o] = observed_distances(options_.observers[o], team);
      add_distances(*distances[o], directions, results[o], tasks);
    }
    team.run(
        tasks.size(), [&](std::size_t task, unsigned) { tasks[task](); }, options_.stop);
    for (ObserverResult& result : results) {
      if (result.ks.empty()) continue;
      result.ks_ones = result.ks.back();
      result.ks.pop_back();
      result.ks_largest = std::ranges::max(result.ks);
    }
    return results;
  }

 private:
  struct Row {
    std::uint8_t side;
    std::uint32_t row;
  };

  [[nodiscard]] Matrix<float> gather(const std::vector<Row>& rows, Observer observer) const {
    auto x = Matrix<float>::for_overwrite(rows.size(), rows_[0].logits.cols());
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::ranges::copy(rows_[rows[i].side].logits.row(rows[i].row), x.row(i).begin());
    observe(observer, x);
    return x;
  }

  Shares attack(Attack attack, Observer observer, const AttackData& data) const {
    RandomStream random(options_.seed,
                        task_id("attack", {label_, static_cast<std::uint64_t>(observer),
                                           static_cast<std::uint64_t>(attack)}));
    // Attacks run side by side; where there are fewer of them than workers, each uses several.
    const auto side_by_side =
        static_cast<unsigned>(options_.attacks.size() * options_.observers.size());
    const std::vector<std::uint8_t> answers =
        labels_of(run_attack(attack, data.train, data.labels, data.test, random,
                             std::max(1U, options_.workers / side_by_side)));
    Shares shares;
    std::size_t row = 0;
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t model = 0; model < splits_[side].test.size(); ++model) {
        std::size_t right = 0;
        for (std::size_t i = 0; i < images_per_model_; ++i)
          if ((answers[row++] == 1) == (side == 0)) ++right;
        shares[side].push_back(static_cast<double>(right) / static_cast<double>(images_per_model_));
      }
    }
    return shares;
  }

  // Random ones; the last is the all-ones one.
  [[nodiscard]] Matrix<float> all_directions() const {
    const std::size_t columns = rows_[0].logits.cols();
    Matrix<float> directions = random_directions(options_.directions + 1, columns, options_.seed);
    std::ranges::fill(directions.row(options_.directions),
                      static_cast<float>(1 / std::sqrt(static_cast<double>(columns))));
    return directions;
  }

  // On all rows of the class, whatever attacks are shown.
  [[nodiscard]] DirectionalKs observed_distances(Observer observer, Team& team) const {
    Matrix<float> seen[2];
    team.run(2, [&](std::size_t side, unsigned) {
      seen[side] = rows_[side].logits;
      observe(observer, seen[side]);
    });
    return {seen[0], seen[1], team};
  }

  void add_distances(const DirectionalKs& distances, MatrixView<const float> directions,
                     ObserverResult& result, std::vector<std::function<void()>>& tasks) const {
    const std::size_t random = directions.rows() - 1;
    if (options_.bootstrap != 0) {
      for (std::size_t side = 0; side < 2; ++side) {
        const std::size_t groups = jackknife_groups(models_[side]);
        result.ks_left_out[side].resize(groups);
        result.ks_ones_left_out[side].resize(groups);
        for (std::size_t group = 0; group < groups; ++group) {
          tasks.emplace_back([=, this, &distances, &result] {
            std::array<RowRange, 2> without{};
            without[side] = rows_of_group(rows_[side].logits.rows(), models_[side], group);
            const std::vector<double> ks = distances.along(
                directions.middle_rows(0, std::min(random, kJackknifeDirections)), without);
            result.ks_left_out[side][group] = mean_std(ks).mean;
            result.ks_ones_left_out[side][group] =
                distances.along(directions.middle_rows(random, 1), without)[0];
          });
        }
      }
    }
    result.ks.resize(directions.rows());
    for (std::size_t begin = 0; begin < directions.rows(); begin += kDirectionsPerTask) {
      tasks.emplace_back([=, &distances, &result] {
        const auto some =
            directions.middle_rows(begin, std::min(kDirectionsPerTask, directions.rows() - begin));
        std::ranges::copy(distances.along(some),
                          result.ks.begin() + static_cast<std::ptrdiff_t>(begin));
      });
    }
  }

  // Few directions give the error of the mean over many: they move together.
  static constexpr std::size_t kJackknifeDirections = 32;
  static constexpr std::size_t kDirectionsPerTask = 16;
  const AuditOptions& options_;
  std::array<std::size_t, 2> models_{};
  const Split (&splits_)[2];
  std::uint32_t label_;
  ClassRows rows_[2];
  std::vector<Row> train_rows_, test_rows_;
  std::size_t images_per_model_ = 0;
};

Figure advantage(const ClassAudit::Shares& shares, std::size_t images,
                 const ModelBootstrap& bootstrap) {
  const double mean = mean_std(shares[0]).mean + mean_std(shares[1]).mean - 1;
  Figure figure = Figure::of(mean, bootstrap.why_impossible());
  if (bootstrap.possible()) {
    const auto [low, high] = bootstrap.interval(shares[0], shares[1], images);
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

ObserverLeak to_leak(Observer observer, const ClassAudit::ObserverResult& result,
                     const AuditOptions& options, const ModelBootstrap& bootstrap) {
  ObserverLeak leak;
  leak.observer = observer;
  for (std::size_t a = 0; a < options.attacks.size(); ++a)
    leak.attacks.push_back(
        {options.attacks[a], advantage(result.attacks[a], result.images, bootstrap)});
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

// The mean over classes, model by model and direction by direction: linear figures stay exact.
class MeanOverClasses {
 public:
  void add(const std::vector<ClassAudit::ObserverResult>& results) {
    if (classes_++ == 0) {
      sums_ = results;
      return;
    }
    const auto add_to = [](std::vector<double>& sum, const std::vector<double>& values) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    };
    for (std::size_t o = 0; o < results.size(); ++o) {
      sums_[o].images += results[o].images;
      for (std::size_t a = 0; a < results[o].attacks.size(); ++a)
        for (std::size_t side = 0; side < 2; ++side)
          add_to(sums_[o].attacks[a][side], results[o].attacks[a][side]);
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
      for (auto& shares : sums_[o].attacks)
        for (auto& side : shares) divide(side);
      divide(sums_[o].ks);
      sums_[o].ks_largest /= static_cast<double>(classes_);
      sums_[o].ks_ones /= static_cast<double>(classes_);
      for (std::size_t side = 0; side < 2; ++side) {
        divide(sums_[o].ks_left_out[side]);
        divide(sums_[o].ks_ones_left_out[side]);
      }
      leaks.push_back(to_leak(options.observers[o], sums_[o], options, bootstrap));
    }
    return leaks;
  }

 private:
  std::size_t classes_ = 0;
  std::vector<ClassAudit::ObserverResult> sums_;
};

}  // namespace

Leaks tell_apart(const Population& first, const Population& second, const AuditSamples& samples,
                 const AuditOptions& options) {
  OUBLI_ASSERT(first.models >= 2 && second.models >= 2 && first.columns == second.columns);
  const std::size_t fewer = std::min(first.models, second.models);
  const auto share =
      static_cast<std::size_t>(std::lround(options.train_share * static_cast<double>(fewer)));
  const std::size_t train = std::clamp<std::size_t>(share, 1, fewer - 1);
  const Population* const populations[2] = {&first, &second};
  const Split splits[2] = {split_models(first.models, train, options.seed, 0),
                           split_models(second.models, train, options.seed, 1)};
  RandomStream random(options.seed, task_id("bootstrap"));
  const ModelBootstrap bootstrap(splits[0].test.size(), splits[1].test.size(), options.bootstrap,
                                 random);

  std::vector<std::vector<std::uint32_t>> by_class(samples.classes);
  for (std::size_t i = 0; i < samples.labels.size(); ++i)
    by_class[samples.labels[i]].push_back(static_cast<std::uint32_t>(i));

  Leaks leaks;
  MeanOverClasses forgotten_mean, retained_mean;
  for (std::uint32_t label = 0; label < samples.classes; ++label) {
    const bool forgotten = std::ranges::binary_search(samples.forgotten, label);
    if (!forgotten && !options.retained) continue;
    throw_if_stopped(options.stop);
    ClassAudit audit(populations, splits, label, forgotten, by_class[label], options);
    const auto results = audit.run();
    ClassLeaks of_class{.label = label,
                        .forgotten = forgotten,
                        .points_train = audit.points_train(),
                        .points_test = audit.points_test(),
                        .observers = {}};
    for (std::size_t o = 0; o < results.size(); ++o)
      of_class.observers.push_back(to_leak(options.observers[o], results[o], options, bootstrap));
    leaks.classes.push_back(std::move(of_class));
    (forgotten ? forgotten_mean : retained_mean).add(results);
    if (options.on_class) options.on_class();
  }
  leaks.forgotten = forgotten_mean.leaks(options, bootstrap);
  leaks.retained = retained_mean.leaks(options, bootstrap);
  return leaks;
}

}  // namespace oubli
