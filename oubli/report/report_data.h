#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "oubli/report/charts.h"
#include "oubli/report/html.h"

// What a report is drawn from, whichever file it came from: a run folder, an audit, a receipt. What
// is empty is left out of the page.
namespace oubli::report {

// One attack by one observer on one method. Advantages 2 (accuracy - 1/2), 95 % intervals.
struct Leak {
  std::string method;        // "naive", "normalization", ...
  std::string observer;      // "logits", "probabilities", "label"
  std::string attack;        // "5 nearest neighbours"
  Measured forgotten;        // mean over the forgotten classes
  Measured forgotten_floor;  // retrained against retrained
  Measured retained;         // mean over the retained classes
  Measured retained_floor;
};

// Kolmogorov-Smirnov distance of the projected outputs, for one method.
struct KsDistance {
  std::string method;
  std::string observer;
  Measured random;  // mean over random directions
  Measured ones;    // along the all-ones direction
  Measured random_floor;
  Measured ones_floor;
  bool forgotten = true;  // on the forgotten class's inputs, or on the retained ones'
};

// Where one forgotten class's inputs go: mean and standard deviation over models.
struct Destinations {
  std::string method;  // "retrained" is the reference
  std::string forgotten_class;
  std::vector<std::string> classes;
  std::vector<Measured> shares;
};

struct NamedTable {
  std::string title;
  std::string note;
  Table table;
  std::vector<DotChart> charts = {};      // the same as pictures
  std::vector<std::string> reasons = {};  // why figures are missing, or not what they seem
};

// Measurements over populations of models: one configuration of an experiment, or one audit.
struct Audit {
  std::string title;                   // "MNIST, MLP of 50 units, 100 models each"
  std::string note;                    // how many models and images, which means were used
  std::vector<std::string> warnings;   // what makes figures mislead, or is not there at all
  std::vector<std::string> forgotten;  // class names
  std::vector<Leak> leaks;
  std::vector<KsDistance> ks;
  std::vector<Destinations> destinations;
  std::vector<NamedTable> tables;  // per class, accuracy and loss, labels changed, probe
  std::vector<DotChart> charts;    // further pictures
};

// The check of a single deletion: how well an input of the forgotten class is recognised.
struct LeakCheck {
  std::string observer;  // "logits"
  std::string read_out;  // "mean of the retained logits", "best linear read-out"
  Measured naive;        // AUC, 0.5 is chance
  Measured chosen;
};

struct Receipt {
  std::string method;
  std::vector<std::string> forgotten;
  std::size_t classes_before = 0;
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

struct ReportData {
  std::string title;  // "fashion-mnist", "model.onnx"
  std::string
      method;  // the method judged at the top; empty: normalization if there, else the first
  std::vector<Audit> audits;  // the first one is judged at the top
  std::optional<Receipt> receipt;
  std::vector<NamedTable> published;  // the paper's tables beside ours
  std::optional<Inversion> inversion;
  std::vector<std::string> not_tested;
  std::vector<std::string> limits;
  std::vector<std::pair<std::string, std::string>> provenance;  // files, seed, version
  std::vector<std::filesystem::path> files;                     // all that were read
};

}  // namespace oubli::report
