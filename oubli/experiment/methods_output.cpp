#include <fmt/format.h>
#include <fmt/ranges.h>

#include "oubli/base/error.h"
#include "oubli/base/json_fields.h"
#include "oubli/experiment/methods.h"

namespace oubli {
namespace {

using nlohmann::json;

std::string cell(const Figure& figure, int digits) {
  if (!figure.value) return "-";
  if (!figure.low) return fmt::format("{:.{}f}", *figure.value, digits);
  return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", *figure.value, digits, *figure.low, digits,
                     *figure.high, digits);
}

std::string percent(double share) {
  return fmt::format("{:.{}f}", 100 * share, share < 0.1 ? 1 : 0);
}

// Of leaks, which the floor has, too.
std::vector<std::string> leak_cells(const MethodRow& row) {
  return {cell(row.ten_answers, 2), cell(row.one_answer, 2), cell(row.hundred_answers, 2),
          cell(row.logistic, 2), cell(row.nearest_neighbours, 2)};
}

}  // namespace

template <typename Fields>
void members(Fields& fields, MethodRow& row) {
  fields.required("name", row.name);
  fields("networks", row.networks);
  fields("failed", row.failed);
  fields("gradients", row.gradients);
  fields("seconds", row.seconds);
  fields("ten_answers", row.ten_answers);
  fields("one_answer", row.one_answer);
  fields("hundred_answers", row.hundred_answers);
  fields("ten_logits", row.ten_logits);
  fields("logistic", row.logistic);
  fields("nearest_neighbours", row.nearest_neighbours);
  fields("accuracy", row.accuracy);
  fields("by_class", row.by_class);
}

template <typename Fields>
void members(Fields& fields, MethodsResult& result) {
  fields.required("experiment", result.experiment);
  fields("seed", result.seed);
  fields("epochs", result.epochs);
  fields("hidden", result.hidden);
  fields("classes", result.classes);
  fields("class_names", result.class_names);
  fields("tuning_classes", result.tuning_classes);
  fields.object("models", [&](auto& models) {
    models("seen", result.seen);
    models("unseen", result.unseen);
  });
  fields.object("retraining", [&](auto& retraining) {
    retraining("gradients", result.retraining_gradients);
    retraining("seconds", result.retraining_seconds);
  });
  fields.required("methods", result.methods);
  fields.required("floor", result.floor);
}

void to_json(json& out, const MethodsResult& result) {
  to_json<MethodsResult>(out, result);
  out["format"] = "oubli-methods";
  out["version"] = 1;
}

void from_json(const json& in, MethodsResult& result) { from_json<MethodsResult>(in, result); }

TextTable to_table(const MethodsResult& result) {
  using enum TextTable::Align;
  TextTable table({{"method"},
                   {"gradients %", right},
                   {"time %", right},
                   {"10 answers", right},
                   {"1 answer", right},
                   {"100 answers", right},
                   {"logistic", right},
                   {"5-NN", right},
                   {"accuracy, points", right}});
  for (const MethodRow& row : result.methods) {
    std::vector<std::string> cells{row.name, percent(row.gradients),
                                   result.retraining_seconds > 0 ? percent(row.seconds) : "-"};
    for (std::string& leak : leak_cells(row)) cells.push_back(std::move(leak));
    cells.push_back(cell(row.accuracy, 2));
    table.add_row(std::move(cells));
  }
  std::vector<std::string> cells{"retrained (floor)", "100", "100"};
  for (std::string& leak : leak_cells(result.floor)) cells.push_back(std::move(leak));
  table.add_row(std::move(cells));
  return table;
}

std::string explanation(const MethodsResult& result) {
  return fmt::format(
      "{}, {} {} forgotten in turn: {} networks trained on everything and unlearned, {}\n"
      "retrained without each class. Constants of the methods were chosen on classes {}.\n"
      "Leaks: advantage (0 guessing, 1 certain) of an attacker who sees probabilities of the\n"
      "forgotten class's test images and must tell unlearned from retrained networks, mean over\n"
      "classes with its 95 % interval over networks. 1, 10 and 100 answers: the attacker knows\n"
      "the pictures and gets that many answers of one network; the worse of two forms. Logistic,\n"
      "5-NN: one answer, one rule for all pictures. Cost: share of a retraining ({:.0f}\n"
      "sample-gradients{}). Accuracy: on retained classes, minus\n"
      "naive's. Floor: half of the retrained networks against the other half.\n",
      result.experiment, result.classes.size() == 1 ? "class" : "classes",
      fmt::join(result.classes, ", "), result.seen, result.unseen,
      fmt::join(result.tuning_classes, ", "), result.retraining_gradients,
      // Told from retraining for some epochs, which --methods may leave out.
      result.retraining_seconds > 0
          ? fmt::format(", {:.2f} s of processor time", result.retraining_seconds)
          : "");
}

}  // namespace oubli
