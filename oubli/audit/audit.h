#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "oubli/audit/figure.h"
#include "oubli/audit/forgetting.h"
#include "oubli/audit/leaks.h"
#include "oubli/audit/population.h"
#include "oubli/audit/tell_apart.h"
#include "oubli/audit/verdict.h"

namespace oubli {

// "Could anyone tell that these models have seen the class?" k classes, |C| forgotten, k' retained.
struct FeatureLayer {
  std::string name;                       // empty: what the head is given
  std::optional<Population> seen;         // features of the seen models
  std::optional<Population> unseen;       // the same of unseen ones
  std::optional<Population> before = {};  // of the seen models before unlearning
};

struct AuditInput {
  Population
      seen;  // trained on everything, then unlearned: k' columns, the retained classes in order
  // Trained without C: k' columns. A single model gives neither attacks nor a verdict, but what one
  // retrained network can (ForgettingFigures).
  Population unseen;
  std::optional<Population> unseen2;   // more of them: the floor
  std::optional<Population> before;    // the seen models before unlearning: k columns
  std::vector<FeatureLayer> features;  // of one layer or several
  AuditSamples samples;
  std::vector<std::string> class_names;  // empty, or k of them
};

// Label flips against naive deletion (the arg max over the retained columns of `before`): share of
// samples whose label differs, mean and standard deviation over models.
struct FlipFigures {
  std::optional<MeanStd> all, forgotten, correct;  // correct: retained, and naive is right
  std::string reason;                              // why some or all are missing
};

// On samples of retained classes, over models.
struct QualityFigures {
  std::string population;                 // "before", "seen", "unseen", "unseen2"
  std::optional<MeanStd> accuracy, loss;  // loss: mean cross-entropy in nats
  std::string reason;
};

// Where the samples of a forgotten class go: per retained class, the share of samples.
struct Misclassification {
  std::size_t label = 0;
  std::string population;
  std::vector<MeanStd> shares;  // k' of them
};

// A linear probe on the features: AUC of "is this sample of class `label`", cross-fitted, over the
// first kProbedModels models: probing every model of a large population costs much and says little
// more. Recall: the share of the class's samples that a probe of all classes gives back. CKA: how
// alike the features of seen and unseen models are, those of unseen ones among each other, and each
// seen model's to its own before unlearning (feature_figures.h).
inline constexpr std::size_t kProbedModels = 10;
struct ProbeFigures {
  std::size_t label = 0;
  std::string layer;                               // empty: what the head is given
  std::size_t seen_models = 0, unseen_models = 0;  // that were probed
  std::optional<MeanStd> seen, unseen;
  std::optional<MeanStd> recall_seen, recall_unseen, cka, cka_floor, cka_before;
  std::string seen_reason, unseen_reason;  // why one is missing
  std::string sentence;                    // what it means, and how many models were probed
};

struct AuditResult {
  std::size_t models_seen = 0, models_unseen = 0, samples = 0, classes = 0;
  std::vector<std::size_t> forgotten;
  std::vector<std::string> class_names;
  AuditOptions options;
  Leaks leaks;                 // seen against unseen
  std::string leaks_reason;    // why there are none
  std::optional<Leaks> floor;  // unseen2 against unseen
  std::string floor_reason;    // why there is none
  std::vector<QualityFigures> quality;
  FlipFigures flips;
  std::vector<Misclassification> misclassification;
  std::vector<ProbeFigures> probes;
  std::optional<std::size_t> models_unseen2;
  std::vector<std::string> warnings;          // what makes figures mislead
  Verdict verdict;                            // over all attacks and observers, against the floor
  std::vector<ForgettingFigures> forgetting;  // one per forgotten class

  // The attack with the largest advantage on a forgotten class, over all observers; empty if no
  // advantage was computed.
  struct Worst {
    std::size_t label = 0;
    Observer observer = Observer::logits;
    AttackLeak attack;
  };
  [[nodiscard]] std::optional<Worst> worst() const;
};

// Checks everything first: Error{bad_input} names the population and says what is wrong with it.
// `floor`: the result of tell_apart(unseen2, unseen, ...) with the same options, where it is known
// already (the same for every method); else it is computed here if there is an `unseen2`.
[[nodiscard]] AuditResult audit(const AuditInput& input, const AuditOptions& options,
                                const Leaks* floor = nullptr);

// "format": "oubli-audit", "version": 1. What a file says of the options is read back; attacks,
// observers and the rest of them it does not say. from_json: Error{bad_input} that begins with the
// place.
void to_json(nlohmann::json& json, const AuditResult& result);
void from_json(const nlohmann::json& json, AuditResult& result);
// A table for people, per observer; and one CSV line per class, observer and attack.
[[nodiscard]] std::string to_text(const AuditResult& result);
[[nodiscard]] std::string to_csv(const AuditResult& result);

}  // namespace oubli
