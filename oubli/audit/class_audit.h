#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/attack/per_image.h"
#include "oubli/audit/bootstrap.h"
#include "oubli/audit/jackknife.h"
#include "oubli/audit/kolmogorov_smirnov.h"
#include "oubli/audit/score_figures.h"
#include "oubli/audit/tell_apart.h"
#include "oubli/base/workers.h"

namespace oubli {

// Which models of one population attacks learn from, and which they are tested on.
struct ModelSplit {
  std::vector<std::uint32_t> train, test;
};

// One row of an observer's table: an attack, and how many answers of one network it gets.
struct AttackRow {
  Attack attack = Attack::nearest_neighbours;
  std::size_t answers = 1;
};
// Pooled attacks get one answer; those per image every number that was asked for. A label has no
// spread.
[[nodiscard]] std::vector<AttackRow> attack_rows(const AuditOptions& options, Observer observer);

// The directions of the KS statistic: the same for all classes.
struct KsDirections {
  Matrix<float> all;         // random ones, and last the all-ones one
  std::size_t left_out = 0;  // so many of the first ones are for the jackknife

  KsDirections(std::size_t columns, std::size_t answers, const AuditOptions& options);
};

// Two populations and the samples of one class: every attack of every observer, fitted on training
// models and judged on the others. What is returned are numbers per model, so that classes can be
// averaged before intervals are taken.
class ClassAudit {
 public:
  ClassAudit(const Population* const (&populations)[2], const ModelSplit (&splits)[2],
             std::size_t label, bool forgotten, std::span<const std::uint32_t> samples,
             const AuditOptions& options, const ModelBootstrap& bootstrap,
             const KsDirections& directions);

  [[nodiscard]] std::size_t points_train() const { return train_rows_.size(); }
  [[nodiscard]] std::size_t points_test() const { return test_rows_.size(); }

  struct AttackResult {
    AttackRow row;
    std::array<std::vector<double>, 2> shares;  // of right answers, per test model
    std::size_t answers_per_network = 0;        // behind each of the shares
    std::optional<ScoreSummary> scores;
    std::string reason;  // why there is none of it
  };
  struct ObserverResult {
    std::vector<AttackResult> attacks;
    std::vector<double> ks;  // per direction
    double ks_largest = 0;   // of `ks`
    double ks_ones = 0;
    LeftOut ks_left_out;  // the mean over the first directions, without groups of models
    LeftOut ks_ones_left_out;
  };

  [[nodiscard]] std::vector<ObserverResult> run();

 private:
  struct Row {
    std::uint8_t side;
    std::uint32_t row;
  };
  // What pooled attacks learn from and are tested on, as one observer sees it.
  struct AttackData {
    Matrix<float> train, test;
    std::vector<std::uint8_t> labels;  // of `train`: 1 for the first population
  };

  [[nodiscard]] Matrix<float> gather(const std::vector<Row>& rows, Observer observer) const;
  void add_pooled(AttackResult& result, Observer observer, const AttackData& data) const;
  // What attacks per image find, if there are any; where networks are too few, the results say so.
  [[nodiscard]] std::optional<PerImageFound> per_image_scores(
      std::vector<ObserverResult>& results) const;
  // All rows of attacks per image of one observer.
  void add_per_image(ObserverResult& result, const PerImageScores& pooled,
                     const PerImageScores& own) const;
  void add_answers(AttackResult& result, const PerImageScores& scores,
                   const AnswerGroups& groups) const;
  [[nodiscard]] DirectionalKs observed_distances(Observer observer, Team& team) const;
  void add_distances(const DirectionalKs& distances, ObserverResult& result,
                     std::vector<std::function<void()>>& tasks) const;

  const AuditOptions& options_;
  const ModelBootstrap& bootstrap_;
  const KsDirections& directions_;
  std::array<std::size_t, 2> models_{};
  const ModelSplit (&splits_)[2];
  std::size_t label_;
  std::size_t images_;                 // of the class
  std::array<Matrix<float>, 2> rows_;  // models x images rows of logits
  std::vector<Row> train_rows_, test_rows_;
  std::size_t images_per_model_ = 0;  // that pooled attacks see
};

}  // namespace oubli
