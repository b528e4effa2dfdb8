#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// The paper's numbers, read from published.json (which is built into the library). One table of the
// paper is one PublishedTable; where main text and appendix print the same quantity differently,
// both are there.
struct PublishedRow {
  std::string experiment;  // mnist, cifar10, faces
  std::string group;       // "unlearned", "remaining", or "" where the table does not split them
  std::string method;  // before, retrained, naive, normalization, randomization, zeroing, baseline
  std::size_t hidden = 0;                // p
  std::string samples;                   // s: "10", "100", "all"; "" where it plays no role
  std::map<std::string, double> values;  // NN RF AB | accuracy loss, with " sd" | all ... | ks
};

struct PublishedTable {
  std::string number;  // Roman, in the paper's order
  std::string label;   // the paper's own: tab:MLP50
  std::string place;   // "main text" or "appendix"
  std::string kind;    // advantage, accuracy, flips, ks
  std::string title;
  std::string note;
  std::string command;  // what fills it
  std::vector<PublishedRow> rows;
};

struct PublishedFigure {
  std::string number;
  std::string label;
  std::string title;
  std::string command;  // empty: a drawing, nothing to measure
};

struct Published {
  std::string source;
  std::size_t networks = 0;  // of each population, behind every figure
  std::vector<PublishedTable> tables;
  std::vector<PublishedFigure> figures;
};

[[nodiscard]] const Published& published();
// The file as it is.
[[nodiscard]] std::string_view published_json();

}  // namespace oubli
