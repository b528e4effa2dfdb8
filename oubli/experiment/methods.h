#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/audit/figure.h"
#include "oubli/base/text_table.h"
#include "oubli/experiment/run_config.h"
#include "oubli/experiment/scheduler.h"

namespace oubli {

// The field in one table: every rival (oubli/rivals) applied to the same networks, for several
// classes in turn, and audited against the same retrained ones.
struct MethodsPlan {
  std::string experiment = "mnist";  // one without batch normalisation: not faces
  std::uint64_t seed = 1;
  std::size_t epochs = 0;   // of training; 0 is the recipe's number
  std::size_t models = 60;  // seen, and as many retrained without each class
  std::vector<std::size_t> classes = {2, 3, 6, 7, 9};  // none of kTuningClasses
  std::size_t hidden = 0;                              // units before the head; 0 is usual_hidden()
  std::vector<std::string> methods = {};               // rivals_named()
};
// 50 for mnist and fashion-mnist, 64 for cifar10: its smallest.
[[nodiscard]] std::size_t usual_hidden(const std::string& experiment);
// Error{usage} if an experiment, a class or their number cannot be.
void check(const MethodsPlan& plan);
// The run folder that has these networks, and perhaps more.
[[nodiscard]] RunConfig config_of(const MethodsPlan& plan);
// The networks that the plan needs, balanced over classes however early it stops.
[[nodiscard]] std::vector<Trial> trials_of(const MethodsPlan& plan, const RunConfig& config);

// A line of the table. Leaks are advantages (0 guessing, 1 certain) on inputs of the forgotten
// class, means over the classes; costs are shares of a retraining.
struct MethodRow {
  std::string name = {};
  std::size_t networks = 0;  // unlearned ones, over all classes
  std::vector<std::string> failed = {};
  double gradients = 0;     // as a share of a retraining's sample-gradients
  double seconds = 0;       // as a share of a retraining's processor time
  Figure ten_answers = {};  // attack per image on ten probabilities, the worse of its two forms
  Figure one_answer = {}, hundred_answers = {}, ten_logits = {};
  Figure logistic = {}, nearest_neighbours = {};
  Figure accuracy = {};               // on retained classes, minus naive's, in points
  std::vector<Figure> by_class = {};  // ten_answers, in the order of the classes
};

// methods.json. The times make it the one file of a run that differs from machine to machine.
//
// {"format": "oubli-methods", "version": 1, "experiment": "mnist", "seed": 1, "epochs": 6,
//  "hidden": 50,
//  "classes": [2, ...], "class_names": ["2", ...], "tuning_classes": [0, ...],
//  "models": {"seen": 60, "unseen": 60},
//  "retraining": {"gradients": 324000, "seconds": 1.1},
//  "methods": [{"name": "naive", "networks": 300, "failed": [], "gradients": 0, "seconds": 0,
//               "ten_answers": FIGURE, "one_answer": FIGURE, ..., "by_class": [FIGURE, ...]}],
//  "floor": {the same of retrained networks against other retrained ones}}
struct MethodsResult {
  std::string experiment;
  std::uint64_t seed = 0;
  std::size_t epochs = 0;
  std::size_t hidden = 0;  // units before the head
  std::vector<std::size_t> classes = {}, tuning_classes = {};
  std::vector<std::string> class_names = {};  // of `classes`
  std::size_t seen = 0, unseen = 0;           // networks, the fewest of any class
  double retraining_gradients = 0;
  double retraining_seconds = 0;  // 0 if no retraining was timed
  std::vector<MethodRow> methods = {};
  MethodRow floor = {};
};
void to_json(nlohmann::json& json, const MethodsResult& result);
void from_json(const nlohmann::json& json, MethodsResult& result);

// A line per method, the floor last.
[[nodiscard]] TextTable to_table(const MethodsResult& result);
// What the columns are, and who was measured: a few sentences.
[[nodiscard]] std::string explanation(const MethodsResult& result);

// Trains what is missing, unlearns and audits what is missing, writes methods.json to the folder.
// Every process of a job calls it; the main one gets the result.
[[nodiscard]] std::optional<MethodsResult> run_methods(Scheduler& scheduler,
                                                       const std::filesystem::path& folder,
                                                       const MethodsPlan& plan,
                                                       const std::stop_token& stop);

}  // namespace oubli
