#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oubli/audit/audit.h"
#include "oubli/base/text_table.h"
#include "oubli/report/charts.h"
#include "oubli/report/frontier.h"

// What a report is drawn from, whichever file it came from: a run folder, an audit, a receipt. What
// is empty is left out of the page.
namespace oubli::report {

struct NamedTable {
  std::string title;
  std::string note;
  TextTable table;
  std::vector<DotChart> charts = {};      // the same as pictures
  std::vector<std::string> reasons = {};  // why figures are missing, or not what they seem
};

// One way of forgetting, and its audit.
struct AuditedMethod {
  std::string name;  // "naive", "normalization", ...
  AuditResult audit;
};

// Methods measured on the same populations of models: one configuration of an experiment, or one
// audit.
struct Comparison {
  std::string title;                   // "MNIST, MLP of 50 units, 100 models each"
  std::string note;                    // how many models and images, which means were used
  std::vector<std::string> warnings;   // what makes figures mislead, or is not there at all
  std::vector<std::string> forgotten;  // class names
  std::vector<AuditedMethod> methods;
  std::optional<Leaks> floor;      // retrained against retrained
  std::string no_floor;            // why there is none
  std::vector<NamedTable> tables;  // per class, accuracy and loss, labels changed, probe
  std::vector<DotChart> charts;    // further pictures

  [[nodiscard]] bool measured() const;  // whether there is any attack at all
};

// The check of a single deletion: how well an input of the forgotten class is recognised.
struct LeakCheck {
  Observer observer = Observer::logits;
  std::string read_out;  // "mean of the retained logits", "best linear read-out"
  Figure naive;          // AUC, 0.5 is chance
  Figure chosen;
};

struct Receipt {
  std::string method;
  std::vector<std::string> forgotten;
  std::vector<LeakCheck> leak_checks;
  std::vector<std::pair<std::string, std::string>> facts;  // name, value: solver, condition, seed
  std::vector<std::pair<std::string, std::string>> digests;
  std::vector<NamedTable> tables;  // old index, new index, name, samples; what else was found
};

struct Picture {
  std::string title;
  std::string description;  // the text alternative: what rows and columns are
  std::string png;          // the file's bytes
};

struct Inversion {
  std::string sentence;  // the answer, if nothing else was measured; may be empty
  std::string caption;
  std::vector<Picture> sheets;
  std::vector<NamedTable> tables;
};

// Every way to forget in one table, and leak against cost.
struct Methods {
  std::string sentence;  // the answer, if nothing else was measured
  std::string note;
  TextTable table;
  FrontierChart chart;
};

struct ReportData {
  std::string title;  // "fashion-mnist", "model.onnx"
  std::string
      method;         // the method judged at the top; empty: normalization if there, else the first
  bool full = false;  // nothing is folded away, on the screen or on paper
  std::vector<Comparison> comparisons;  // the first one is judged at the top
  std::optional<Receipt> receipt;
  std::vector<NamedTable> published;  // the paper's tables beside ours
  std::optional<Inversion> inversion;
  std::optional<Methods> methods;
  std::string markdown;  // the tables of runs and methods, for documents
  std::vector<std::string> not_tested;
  std::vector<std::string> limits;
  std::vector<std::pair<std::string, std::string>> provenance;  // files, seed, version
  std::vector<std::filesystem::path> files;                     // all that were read
};

}  // namespace oubli::report
