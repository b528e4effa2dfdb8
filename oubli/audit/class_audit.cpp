#include "oubli/audit/class_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oubli/audit/sampling.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

constexpr std::size_t kDirectionsPerTask = 16;

// The samples of a class that model `model` shows to attacks: all, or a random few.
std::vector<std::uint32_t> choose_images(std::size_t available, std::size_t wanted,
                                         std::uint64_t seed, std::uint64_t label,
                                         std::uint64_t side, std::uint64_t model) {
  std::vector<std::uint32_t> images(available);
  std::iota(images.begin(), images.end(), 0U);
  if (wanted >= available) return images;
  RandomStream random(seed, task_id("images", {label, side, model}));
  for (std::size_t i = 0; i < wanted; ++i)
    std::swap(images[i], images[i + random.below(available - i)]);
  images.resize(wanted);
  return images;
}

// One class of one population: models x images rows of logits.
Matrix<float> read_class(const Population& population, std::span<const std::uint32_t> samples,
                         const AuditOptions& options) {
  auto rows = Matrix<float>::for_overwrite(population.models * samples.size(), population.columns);
  run_tasks(
      population.models, options.workers,
      [&](std::size_t model, unsigned) {
        read_finite(population, model, samples,
                    rows.view().middle_rows(model * samples.size(), samples.size()));
      },
      options.stop);
  return rows;
}

}  // namespace

std::vector<AttackRow> attack_rows(const AuditOptions& options, Observer observer) {
  std::vector<AttackRow> rows;
  for (const Attack attack : options.attacks) {
    if (!is_per_image(attack)) {
      rows.push_back({attack, 1});
    } else if (attack != Attack::per_image_spread || observer != Observer::label) {
      for (const std::size_t answers : options.answers) rows.push_back({attack, answers});
    }
  }
  return rows;
}

KsDirections::KsDirections(std::size_t columns, std::size_t answers, const AuditOptions& options) {
  const DirectionCounts counts = audited_directions(columns, answers, options);
  left_out = counts.jackknife;
  all = random_directions(counts.random + 1, columns, options.seed);
  std::ranges::fill(all.row(counts.random),
                    static_cast<float>(1 / std::sqrt(static_cast<double>(columns))));
}

ClassAudit::ClassAudit(const Population* const (&populations)[2], const ModelSplit (&splits)[2],
                       std::size_t label, bool forgotten, std::span<const std::uint32_t> samples,
                       const AuditOptions& options, const ModelBootstrap& bootstrap,
                       const KsDirections& directions)
    : options_(options),
      bootstrap_(bootstrap),
      directions_(directions),
      models_{populations[0]->models, populations[1]->models},
      splits_(splits),
      label_(label),
      images_(samples.size()) {
  const std::size_t wanted =
      pooled_images(images_, forgotten ? options.images_forgotten : options.images_retained,
                    models_[0] + models_[1], populations[0]->columns, options);
  for (std::size_t side = 0; side < 2; ++side) {
    rows_[side] = read_class(*populations[side], samples, options);
    for (const bool training : {true, false}) {
      for (const std::uint32_t model : training ? splits[side].train : splits[side].test) {
        const auto images = choose_images(images_, wanted, options.seed, label, side, model);
        auto& rows = training ? train_rows_ : test_rows_;
        for (const std::uint32_t image : images)
          rows.push_back({static_cast<std::uint8_t>(side),
                          static_cast<std::uint32_t>(model * images_ + image)});
        images_per_model_ = images.size();
      }
    }
  }
  // Equally far training points count by their order: it must not be by population.
  RandomStream random(options.seed, task_id("order", {label}));
  random.shuffle(std::span(train_rows_));
}

std::vector<ClassAudit::ObserverResult> ClassAudit::run() {
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
  std::vector<std::optional<DirectionalKs>> distances(observers);
  std::vector<ObserverResult> results(observers);

  // All figures side by side: whole attacks, the costly first ones first, and then the many small
  // parts of the distances, which leave no worker without work for long.
  std::vector<std::function<void()>> tasks;
  for (std::size_t o = 0; o < observers; ++o)
    for (const AttackRow& row : attack_rows(options_, options_.observers[o]))
      results[o].attacks.push_back({.row = row, .shares = {}, .scores = {}, .reason = {}});
  for (const Attack attack : options_.attacks)
    for (std::size_t o = 0; o < observers; ++o)
      for (AttackResult& result : results[o].attacks)
        if (result.row.attack == attack && !is_per_image(attack))
          tasks.emplace_back([&, o] { add_pooled(result, options_.observers[o], data[o]); });
  const std::optional<PerImageFound> found = per_image_scores(results);
  for (std::size_t o = 0; o < observers && found; ++o) {
    const Observer observer = options_.observers[o];
    const NumberScores& numbers =
        observer == Observer::probabilities ? found->probabilities : found->logits;
    const PerImageScores& pooled = observer == Observer::label ? found->labels : numbers.pooled;
    tasks.emplace_back([&, o] { add_per_image(results[o], pooled, numbers.own); });
  }
  for (std::size_t o = 0; o < observers; ++o) {
    if (options_.observers[o] == Observer::label || directions_.all.rows() < 2) continue;
    distances[o] = observed_distances(options_.observers[o], team);
    add_distances(*distances[o], results[o], tasks);
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

Matrix<float> ClassAudit::gather(const std::vector<Row>& rows, Observer observer) const {
  auto x = Matrix<float>::for_overwrite(rows.size(), rows_[0].cols());
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(rows_[rows[i].side].row(rows[i].row), x.row(i).begin());
  observe(observer, x);
  return x;
}

void ClassAudit::add_pooled(AttackResult& result, Observer observer, const AttackData& data) const {
  RandomStream random(options_.seed,
                      task_id("attack", {label_, static_cast<std::uint64_t>(observer),
                                         static_cast<std::uint64_t>(result.row.attack)}));
  // Attacks run side by side; where there are fewer of them than workers, each uses several.
  const auto side_by_side =
      static_cast<unsigned>(options_.attacks.size() * options_.observers.size());
  const std::vector<double> scores =
      run_attack(result.row.attack, data.train, data.labels, data.test, random,
                 std::max(1U, options_.workers / side_by_side));
  const std::vector<std::uint8_t> answers = labels_of(scores);
  ScorePair pair;
  std::size_t row = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    const std::size_t models = splits_[side].test.size();
    pair[side] = Matrix<double>(models, images_per_model_);
    for (std::size_t model = 0; model < models; ++model) {
      std::size_t right = 0;
      for (std::size_t i = 0; i < images_per_model_; ++i, ++row) {
        pair[side](model, i) = scores[row];
        if ((answers[row] == 1) == (side == 0)) ++right;
      }
      result.shares[side].push_back(static_cast<double>(right) /
                                    static_cast<double>(images_per_model_));
    }
  }
  result.answers_per_network = images_per_model_;
  result.scores = summarise_scores(pair, bootstrap_);
}

std::optional<PerImageFound> ClassAudit::per_image_scores(
    std::vector<ObserverResult>& results) const {
  if (std::ranges::none_of(options_.attacks, is_per_image)) return std::nullopt;
  const std::size_t train = std::min(splits_[0].train.size(), splits_[1].train.size());
  const auto asked = [&](Observer observer) {
    return std::ranges::find(options_.observers, observer) != options_.observers.end();
  };
  if (train >= kFewestPerImage)
    return score_images({stacked_answers({rows_[0], rows_[1]}, images_),
                         images_,
                         rows_[0].cols(),
                         {splits_[0].train, splits_[1].train},
                         {splits_[0].test, splits_[1].test}},
                        {.logits = asked(Observer::logits),
                         .probabilities = asked(Observer::probabilities),
                         .labels = asked(Observer::label)});
  for (ObserverResult& result : results)
    for (AttackResult& attack : result.attacks)
      if (is_per_image(attack.row.attack))
        attack.reason = fmt::format(
            "{} network of each kind to learn from: how an image's answers vary takes {}", train,
            kFewestPerImage);
  return std::nullopt;
}

void ClassAudit::add_per_image(ObserverResult& result, const PerImageScores& pooled,
                               const PerImageScores& own) const {
  const AnswerGroups groups(images_, options_.seed + label_);
  for (AttackResult& attack : result.attacks) {
    if (attack.row.attack == Attack::per_image) add_answers(attack, pooled, groups);
    if (attack.row.attack == Attack::per_image_spread) add_answers(attack, own, groups);
  }
}

void ClassAudit::add_answers(AttackResult& result, const PerImageScores& scores,
                             const AnswerGroups& groups) const {
  if (result.row.answers > images_) {
    result.reason =
        fmt::format("{} images of the class, fewer than {} answers", images_, result.row.answers);
    return;
  }
  const ScorePair pair{groups.sums(scores.scores[0], result.row.answers),
                       groups.sums(scores.scores[1], result.row.answers)};
  result.answers_per_network = pair[0].cols();
  result.shares = right_shares(pair);
  result.scores = summarise_scores(pair, bootstrap_);
}

// On all rows of the class, whatever attacks are shown.
DirectionalKs ClassAudit::observed_distances(Observer observer, Team& team) const {
  Matrix<float> seen[2];
  team.run(2, [&](std::size_t side, unsigned) {
    seen[side] = rows_[side];
    observe(observer, seen[side]);
  });
  return {seen[0], seen[1], team};
}

void ClassAudit::add_distances(const DirectionalKs& distances, ObserverResult& result,
                               std::vector<std::function<void()>>& tasks) const {
  const MatrixView<const float> directions = directions_.all;
  const std::size_t random = directions.rows() - 1, left_out = directions_.left_out;
  if (options_.bootstrap != 0) {
    for (std::size_t side = 0; side < 2; ++side) {
      const std::size_t groups = jackknife_groups(models_[side]);
      result.ks_left_out[side].resize(groups);
      result.ks_ones_left_out[side].resize(groups);
      for (std::size_t group = 0; group < groups; ++group) {
        tasks.emplace_back([=, this, &distances, &result] {
          std::array<RowRange, 2> without{};
          without[side] = rows_of_group(rows_[side].rows(), models_[side], group);
          const std::vector<double> ks =
              distances.along(directions.middle_rows(0, left_out), without);
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

}  // namespace oubli
