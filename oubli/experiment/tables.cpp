#include "oubli/experiment/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include "oubli/audit/bootstrap.h"
#include "oubli/experiment/published.h"

namespace oubli {
namespace {

using Cell = ResultTable::Cell;
using Row = ResultTable::Row;

struct AttackColumn {
  const char* measure;  // the paper's abbreviation
  Attack attack;
};
constexpr std::array kPaperAttacks = {AttackColumn{"NN", Attack::nearest_neighbours},
                                      AttackColumn{"RF", Attack::forest},
                                      AttackColumn{"AB", Attack::adaboost}};
constexpr std::array kAllColumns = {kPaperAttacks[0], kPaperAttacks[1], kPaperAttacks[2],
                                    AttackColumn{"LR", Attack::logistic}};

// Attackers who know the picture and may ask one network about several; the paper has none.
struct AnswersColumn {
  const char* measure;
  std::size_t answers;
};
constexpr std::array kAnswerColumns = {AnswersColumn{"per image", 1},
                                       AnswersColumn{"10 answers", 10},
                                       AnswersColumn{"100 answers", 100}};
const char* const kPerImageNote =
    "Ours, not the paper's: a likelihood ratio for each image, summed over the answers of one "
    "network; the worse of its two forms (one variance, own variances). All test images.";

const char* const kSoftmaxNote =
    "For observers of probabilities and labels normalization is naive deletion: it adds the same "
    "number to all logits of an input.";
const char* const kExplainedNote =
    "explained-RHO: ours, not the paper's; a target from what retained data explain of the "
    "forgotten mean (docs/method.md, section 8).";
const char* const kMeanNote =
    "Mean ± standard deviation over networks; the interval is that of the mean. A published mean "
    "lies in it if the two differ by no more than the 95 % interval of their difference, the "
    "paper's being a mean of 100 networks, too.";
const char* const kSplitsNote =
    "mean of splits: the networks are split into training and test again and again; its interval "
    "includes the variation from the networks that attacks learn from.";
const char* const kNoSplitsNote =
    "How the advantages vary with the networks that attacks learn from was not measured "
    "(--splits).";
const char* const kFloorNote = "floor: a second batch of retrained networks against the first.";

// One treatment of one part: what a row of a table is about.
struct Line {
  std::string method;  // or which networks
  std::optional<MeansOf> means;
  std::size_t hidden = 0;
  const AuditResult* audit = nullptr;  // null: not measured
  const AuditResult* floor = nullptr;
  std::size_t seen = 0, unseen = 0;  // networks

  [[nodiscard]] std::string samples() const { return means ? to_text(means->samples) : ""; }
  [[nodiscard]] bool from_train() const { return means && means->source == MeansSource::train; }
};

const AuditResult* pointer_to(const std::optional<AuditResult>& audit) {
  return audit ? &*audit : nullptr;
}

const ObserverLeak* leak_of(const AuditResult* audit, const std::string& group, Observer observer) {
  if (audit == nullptr) return nullptr;
  return find(group == "unlearned" ? audit->leaks.forgotten : audit->leaks.retained, observer);
}

const QualityFigures* quality_of(const AuditResult* audit, std::string_view population) {
  if (audit == nullptr) return nullptr;
  const auto found = std::ranges::find(audit->quality, population, &QualityFigures::population);
  return found == audit->quality.end() ? nullptr : &*found;
}

// `ours` or `floor` may be null: not there.
Cell figure_cell(const char* measure, Observer observer, const Figure* ours, const Figure* floor) {
  Cell cell{.measure = measure, .observer = observer, .ours = Figure::missing("not measured")};
  if (ours != nullptr) cell.ours = *ours;
  if (floor != nullptr) cell.floor = floor->value;
  return cell;
}

// A figure of `Of`, or null where there is no `Of`.
template <typename Of>
const Figure* at(const Of* of, Figure Of::*figure) {
  return of == nullptr ? nullptr : &(of->*figure);
}

// A mean over `networks`, with the 95 % interval of Student's t.
Cell mean_cell(const char* measure, Observer observer, const std::optional<MeanStd>& mean,
               std::size_t networks, double scale, unsigned digits, const std::string& reason) {
  Cell cell{.measure = measure, .observer = observer, .digits = digits};
  if (mean) {
    cell.ours.value = scale * mean->mean;
    cell.ours_sd = scale * mean->std;
    if (networks >= 2) {
      const double n = static_cast<double>(networks);
      const double half = student_t_975(n - 1) * scale * mean->std / std::sqrt(n);
      cell.ours.low = *cell.ours.value - half;
      cell.ours.high = *cell.ours.value + half;
    }
  } else {
    cell.ours.reason = reason.empty() ? "not measured" : reason;
  }
  return cell;
}

void add_paper(Cell& cell, const PublishedRow* row, const std::string& value) {
  if (row == nullptr || !row->values.contains(value)) return;
  cell.paper = row->values.at(value);
  // As many digits as the paper prints.
  const bool percent =
      value == "accuracy" || value == "all" || value == "unlearned" || value == "correct";
  cell.paper_digits = percent ? 1 : value == "loss" ? 2 : 3;
  if (row->values.contains(value + " sd")) cell.paper_sd = row->values.at(value + " sd");
}

// A mean over `networks` beside the paper's, which is one, too: of a spread that is ours where the
// paper prints none.
void add_paper_mean(Cell& cell, const PublishedRow* row, std::size_t networks) {
  add_paper(cell, row, cell.measure);
  if (!cell.paper || !cell.ours_sd || networks < 2) return;
  const std::size_t theirs = published().networks;
  const double sd = *cell.ours_sd, paper_sd = cell.paper_sd.value_or(sd);
  const double v1 = sd * sd / static_cast<double>(networks);
  const double v2 = paper_sd * paper_sd / static_cast<double>(theirs);
  cell.within = welch_half_width(v1, networks, v2, theirs);
}

Row new_row(const Line& line, std::string group) {
  const std::string samples = !line.means         ? "-"
                              : line.from_train() ? line.samples() + ", training data"
                                                  : line.samples();
  return {std::move(group), {line.method, std::to_string(line.hidden), samples}, {}};
}

ResultTable new_table(std::string title, std::vector<std::string> columns,
                      std::vector<std::string> notes = {}) {
  ResultTable table;
  table.title = std::move(title);
  table.columns = std::move(columns);
  table.notes = std::move(notes);
  return table;
}

std::vector<std::string> advantage_columns(std::span<const AttackColumn> attacks) {
  std::vector<std::string> columns = {"method", "p", "s"};
  for (const Observer observer : all_values<Observer>())
    for (const AttackColumn& column : attacks)
      columns.push_back(observer == Observer::logits
                            ? column.measure
                            : fmt::format("{}, {}", column.measure, name_of(observer)));
  return columns;
}

Row advantage_row(const Line& line, const std::string& group, const PublishedRow* paper,
                  std::span<const AttackColumn> attacks) {
  Row row = new_row(line, group);
  for (const Observer observer : all_values<Observer>()) {
    const ObserverLeak* ours = leak_of(line.audit, group, observer);
    const ObserverLeak* floor = leak_of(line.floor, group, observer);
    for (const AttackColumn& column : attacks) {
      row.cells.push_back(figure_cell(column.measure, observer,
                                      at(find(ours, column.attack), &AttackLeak::advantage),
                                      at(find(floor, column.attack), &AttackLeak::advantage)));
      if (observer != Observer::logits) continue;
      add_paper(row.cells.back(), paper, column.measure);
      if (const AttackLeak* attack = find(ours, column.attack);
          attack != nullptr && paper != nullptr)
        row.cells.back().over_splits = attack->over_splits;
    }
  }
  return row;
}

// The attack per image with the larger advantage of its two forms, or null.
const AttackLeak* worse_form(const ObserverLeak* leak, std::size_t answers) {
  const AttackLeak* one = find(leak, Attack::per_image, answers);
  const AttackLeak* other = find(leak, Attack::per_image_spread, answers);
  if (one == nullptr || !one->advantage.value) return other != nullptr ? other : one;
  if (other == nullptr || !other->advantage.value) return one;
  return *other->advantage.value > *one->advantage.value ? other : one;
}

void add_answer_cells(Row& row, Observer observer, const ObserverLeak* ours,
                      const ObserverLeak* floor) {
  for (const AnswersColumn& column : kAnswerColumns)
    row.cells.push_back(figure_cell(column.measure, observer,
                                    at(worse_form(ours, column.answers), &AttackLeak::advantage),
                                    at(worse_form(floor, column.answers), &AttackLeak::advantage)));
}

std::vector<std::string> per_image_columns() {
  std::vector<std::string> columns = {"method", "p", "s"};
  for (const Observer observer : all_values<Observer>())
    for (const AnswersColumn& column : kAnswerColumns)
      columns.push_back(observer == Observer::logits
                            ? column.measure
                            : fmt::format("{}, {}", column.measure, name_of(observer)));
  return columns;
}

Row per_image_row(const Line& line, const std::string& group) {
  Row row = new_row(line, group);
  for (const Observer observer : all_values<Observer>())
    add_answer_cells(row, observer, leak_of(line.audit, group, observer),
                     leak_of(line.floor, group, observer));
  return row;
}

Row ks_row(const Line& line, const std::string& group, const PublishedRow* paper) {
  const ObserverLeak* ours = leak_of(line.audit, group, Observer::logits);
  const ObserverLeak* floor = leak_of(line.floor, group, Observer::logits);
  Row row = new_row(line, group);
  for (const auto& [measure, figure] :
       {std::pair{"KS", &ObserverLeak::ks}, std::pair{"KS along ones", &ObserverLeak::ks_ones}})
    row.cells.push_back(
        figure_cell(measure, Observer::logits, at(ours, figure), at(floor, figure)));
  add_paper(row.cells[0], paper, "ks");
  return row;
}

// `population`: which networks of the audit the row is about: before, unseen (retrained) or seen.
Row accuracy_row(const Line& line, const char* population, const PublishedRow* paper) {
  const QualityFigures none;
  const QualityFigures* found = quality_of(line.audit, population);
  const QualityFigures& quality = found != nullptr ? *found : none;
  Row row = new_row(line, "");
  const std::size_t networks = std::string_view(population) == "unseen" ? line.unseen : line.seen;
  row.cells = {
      mean_cell("accuracy", Observer::label, quality.accuracy, networks, 100, 2, quality.reason),
      mean_cell("loss", Observer::probabilities, quality.loss, networks, 1, 3, quality.reason)};
  for (Cell& cell : row.cells) add_paper_mean(cell, paper, networks);
  return row;
}

Row flips_row(const Line& line, const PublishedRow* paper) {
  const FlipFigures none;
  const FlipFigures& flips = line.audit != nullptr ? line.audit->flips : none;
  Row row = new_row(line, "");
  const std::array<std::pair<const char*, std::optional<MeanStd> FlipFigures::*>, 3> fields = {
      {{"all", &FlipFigures::all},
       {"unlearned", &FlipFigures::forgotten},
       {"correct", &FlipFigures::correct}}};
  for (const auto& [measure, field] : fields) {
    row.cells.push_back(
        mean_cell(measure, Observer::label, flips.*field, line.seen, 100, 2, flips.reason));
    if (line.method == "naive") {
      row.cells.back().ours = Figure::missing("the reference");
      row.cells.back().ours_sd.reset();
    }
  }
  const QualityFigures* seen = quality_of(line.audit, "seen");
  row.cells.push_back(mean_cell("accuracy", Observer::label,
                                seen != nullptr ? seen->accuracy : std::nullopt, line.seen, 100, 2,
                                ""));
  for (Cell& cell : row.cells) add_paper_mean(cell, paper, line.seen);
  return row;
}

const std::vector<std::string> kKsColumns = {"method", "p", "s", "KS", "KS along ones"};
const std::vector<std::string> kAccuracyColumns = {"method", "p", "s", "accuracy", "loss"};
const std::vector<std::string> kFlipColumns = {"method",    "p",       "s",       "all",
                                               "unlearned", "correct", "accuracy"};

bool has_splits(const ResultTable& table) {
  return std::ranges::any_of(table.rows, [](const Row& row) {
    return std::ranges::any_of(row.cells,
                               [](const Cell& cell) { return cell.over_splits.value.has_value(); });
  });
}

// Rows of the paper that are about networks, not about a method.
const char* population_of(const std::string& method) {
  return method == "before" ? "before" : method == "retrained" ? "unseen" : "seen";
}

class Tables {
 public:
  explicit Tables(const Results& results) : experiment_(results.experiment) {
    for (const PartResult& part : results.parts) {
      const AuditResult* floor = pointer_to(part.floor);
      for (const TreatmentResult& result : part.treatments)
        lines_.push_back({name_of(result.treatment), result.means, part.hidden,
                          pointer_to(result.audit), floor, part.seen, part.unseen});
      floors_.push_back({"baseline", {}, part.hidden, floor, floor, part.seen, part.unseen});
    }
  }

  // A table of the paper; without rows if this experiment has no part in it.
  [[nodiscard]] ResultTable published(const PublishedTable& source) const {
    ResultTable table = new_table(source.title, columns_of(source.kind));
    table.published = source.label;
    table.number = source.number;
    table.place = source.place;
    std::set<std::size_t> not_run;
    for (const PublishedRow& row : source.rows) {
      if (row.experiment != experiment_) continue;
      if (const Line* line = find_line(row)) {
        table.rows.push_back(row_of(source.kind, *line, row));
      } else {
        not_run.insert(row.hidden);
      }
    }
    if (const std::string agreement = agreement_of(table); !agreement.empty())
      table.notes.push_back(agreement);
    if (!source.note.empty()) table.notes.push_back("Paper: " + source.note + ".");
    for (const std::size_t hidden : not_run)
      table.notes.push_back(fmt::format("Not all rows with p = {} were run.", hidden));
    if (source.kind == "advantage" || source.kind == "ks") table.notes.emplace_back(kFloorNote);
    if (source.kind == "advantage") {
      table.notes.emplace_back(has_splits(table) ? kSplitsNote : kNoSplitsNote);
      table.notes.emplace_back(kSoftmaxNote);
    }
    if (source.kind == "accuracy" || source.kind == "flips") table.notes.emplace_back(kMeanNote);
    return table;
  }

  // What the paper does not have.
  [[nodiscard]] std::vector<ResultTable> own() const {
    ResultTable all = new_table("Every method, attack and observer", advantage_columns(kAllColumns),
                                {kFloorNote, kSoftmaxNote, kExplainedNote,
                                 "LR: logistic regression, which the paper does not have."});
    ResultTable per_image =
        new_table("Attackers who know the picture, every method and observer", per_image_columns(),
                  {kPerImageNote, kFloorNote, kSoftmaxNote, kExplainedNote});
    ResultTable ks = new_table("KS statistic of every method", kKsColumns, {kFloorNote});
    ResultTable accuracy =
        new_table("Accuracy and loss on retained classes", kAccuracyColumns, {kMeanNote});
    ResultTable flips =
        new_table("Labels changed against naive deletion, in percent", kFlipColumns);
    for (const std::string group : {"unlearned", "remaining"}) {
      for (const Line& line : lines_) {
        all.rows.push_back(advantage_row(line, group, nullptr, kAllColumns));
        per_image.rows.push_back(per_image_row(line, group));
        ks.rows.push_back(ks_row(line, group, nullptr));
      }
      for (const Line& line : floors_) ks.rows.push_back(ks_row(line, group, nullptr));
    }
    for (const Line& line : lines_) {
      if (line.method == "naive") {
        for (const char* method : {"before", "retrained"}) {
          Line other = line;
          other.method = method;
          accuracy.rows.push_back(accuracy_row(other, population_of(method), nullptr));
        }
      }
      accuracy.rows.push_back(accuracy_row(line, "seen", nullptr));
      flips.rows.push_back(flips_row(line, nullptr));
    }
    return {std::move(all), std::move(per_image), std::move(ks), std::move(accuracy),
            std::move(flips)};
  }

 private:
  static std::vector<std::string> columns_of(const std::string& kind) {
    if (kind == "advantage") return advantage_columns(kPaperAttacks);
    if (kind == "ks") return kKsColumns;
    return kind == "accuracy" ? kAccuracyColumns : kFlipColumns;
  }

  static Row row_of(const std::string& kind, const Line& line, const PublishedRow& row) {
    if (kind == "advantage") return advantage_row(line, row.group, &row, kPaperAttacks);
    if (kind == "ks") return ks_row(line, row.group, &row);
    Line named = line;
    named.method = row.method;
    if (kind == "accuracy") return accuracy_row(named, population_of(row.method), &row);
    return flips_row(named, &row);
  }

  // Ours of the paper's row. Networks as such are those of naive deletion's audit.
  [[nodiscard]] const Line* find_line(const PublishedRow& row) const {
    const bool networks = row.method == "before" || row.method == "retrained";
    const auto& from = row.method == "baseline" ? floors_ : lines_;
    const std::string method = networks ? "naive" : row.method;
    const auto found = std::ranges::find_if(from, [&](const Line& line) {
      return line.method == method && line.hidden == row.hidden && line.samples() == row.samples &&
             !line.from_train();
    });
    return found == from.end() ? nullptr : &*found;
  }

  std::string experiment_;
  std::vector<Line> lines_, floors_;
};

// The mean of one column over the classes of a method; without an interval, because every class has
// the same seen networks.
struct MeanOfClasses {
  std::string method;
  std::vector<std::vector<double>> values = {};  // by column, those that are there
  std::size_t classes = 0;

  void add(const Row& row) {
    values.resize(row.cells.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      if (row.cells[i].ours.value) values[i].push_back(*row.cells[i].ours.value);
    ++classes;
  }
  [[nodiscard]] Row row(const Row& like) const {
    Row mean = like;
    mean.keys = {"mean", method, like.keys[2]};
    for (std::size_t i = 0; i < values.size(); ++i)
      mean.cells[i].ours = values[i].size() == classes
                               ? Figure::of(mean_std(values[i]).mean)
                               : Figure::missing("not measured for every class");
    return mean;
  }
};

ResultTable each_class_table(const Results& results) {
  std::vector<std::string> columns = advantage_columns(kAllColumns), more = per_image_columns();
  columns.insert(columns.end(), more.begin() + 3, more.end());
  std::ranges::copy(std::array{"class", "method", "models"}, columns.begin());
  ResultTable table = new_table("Each class forgotten in turn, inputs of that class", columns,
                                {kPerImageNote, kSoftmaxNote, kExplainedNote});
  std::vector<MeanOfClasses> means;
  for (const PartResult& part : results.each_class) {
    const std::size_t label = part.forgotten.at(0);
    const std::string name =
        label < results.class_names.size() ? results.class_names[label] : std::to_string(label);
    for (const TreatmentResult& result : part.treatments) {
      const bool from_train = result.means && result.means->source == MeansSource::train;
      const Line line{name_of(result.treatment) + (from_train ? ", training data" : ""),
                      {},
                      part.hidden,
                      pointer_to(result.audit),
                      nullptr,
                      part.seen,
                      part.unseen};
      Row row = advantage_row(line, "unlearned", nullptr, kAllColumns);
      std::ranges::move(per_image_row(line, "unlearned").cells, std::back_inserter(row.cells));
      row.keys = {name, line.method, std::to_string(part.seen)};
      auto mean = std::ranges::find(means, line.method, &MeanOfClasses::method);
      if (mean == means.end()) mean = means.insert(mean, {.method = line.method});
      mean->add(row);
      table.rows.push_back(std::move(row));
    }
  }
  if (results.each_class.size() < 2) return table;
  for (const MeanOfClasses& mean : means) table.rows.push_back(mean.row(table.rows.front()));
  return table;
}

}  // namespace

std::vector<ResultTable> make_tables(const Results& results) {
  const Tables maker(results);
  std::vector<ResultTable> tables;
  for (const PublishedTable& source : published().tables) tables.push_back(maker.published(source));
  for (ResultTable& table : maker.own()) tables.push_back(std::move(table));
  tables.push_back(each_class_table(results));
  std::erase_if(tables, [](const ResultTable& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace oubli
