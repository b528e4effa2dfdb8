#include "oubli/model/onnx/model.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "oubli/model/mentions.h"
#include "oubli/model/name_agreement.h"
#include "oubli/model/name_text.h"
#include "oubli/model/onnx/classifier.h"
#include "oubli/model/onnx/labels.h"
#include "oubli/model/onnx/names.h"
#include "oubli/model/onnx/rewrite.h"
#include "oubli/onnx/external.h"
#include "oubli/onnx/schema.h"
#include "oubli/onnx/side_files.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

std::vector<std::size_t> forgotten_of(std::size_t classes, std::span<const std::size_t> retained) {
  std::vector<bool> stays(classes);
  for (const std::size_t i : retained) stays[i] = true;
  std::vector<std::size_t> forget;
  for (std::size_t i = 0; i < classes; ++i)
    if (!stays[i]) forget.push_back(i);
  return forget;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

constexpr std::string_view kNoClassifier =
    "nothing says that this is a classifier: no softmax, no arg max and no names of classes follow "
    "its last layer. A regression, an autoencoder or a policy would lose an output";

bool is_one_each(const std::vector<std::string>& names) {
  return std::set<std::string_view>(names.begin(), names.end()).size() == names.size();
}

OnnxHeadChoice onnx_choice(const fs::path& path, const HeadChoice& choice) {
  if (choice.bias || choice.transposed)
    fail(ErrorCode::usage,
         "{}: --bias, --no-bias, --transposed and --rows-are-classes are for files of arrays; the "
         "graph of an .onnx file says these",
         path.string());
  return {.head = choice.head, .weights = choice.weights, .as_floats = choice.float_head};
}

}  // namespace

OnnxModel::OnnxModel(const fs::path& path, const HeadChoice& choice)
    : OnnxModel(path, std::map<std::string, fs::path>(), onnx_choice(path, choice)) {}

OnnxModel::OnnxModel(const fs::path& path, std::map<std::string, fs::path> side_files,
                     OnnxHeadChoice choice)
    : ModelFile(path),
      model_(path, std::move(side_files)),
      choice_(std::move(choice)),
      head_(find_onnx_head(model_, choice_)),
      head_view_(head_.view()) {
  validate(head_view_);
  check_locations();
}

void OnnxModel::check_locations() {
  locations_ = onnx::external_locations(model_);
  for (const std::string& location : locations_) (void)model_.side_path(location);
}

std::vector<OnnxModel::NameList> OnnxModel::name_lists() const {
  std::vector<NameList> lists;
  const std::size_t classes = head_view_.classes();
  for (const onnx::MetadataEntry& entry : model_.metadata())
    for (const NameEntry& found : names_in_entry(entry.key, entry.value))
      if (found.names.names().size() == classes)
        lists.push_back({fmt::format("metadata '{}'", entry.key), found.names.names()});
  for (const onnx::ValueInfo& output : model_.graph().outputs)
    if (const auto names = NameText::parse(output.name); names && names->names().size() == classes)
      lists.push_back({fmt::format("output name '{}'", output.name), names->names()});
  // Texts first: numbers are names where there is nothing else.
  const auto add = [&](const OnnxLabels& labels, bool texts, const std::string& where) {
    if (std::vector<std::string> names = names_in(labels);
        !names.empty() && labels.texts.empty() != texts && is_one_each(names))
      lists.push_back({where, std::move(names)});
  };
  for (const bool texts : {true, false}) {
    for (const std::string& value : head_.tail.label_constants)
      add(stored_labels(model_, value, classes), texts, fmt::format("labels '{}'", value));
    for (const OnnxTail::LabelTable& table : head_.tail.label_tables)
      add(table.labels, texts, fmt::format("labels of the {}", table.node->describe()));
  }
  return lists;
}

std::optional<std::vector<std::string>> OnnxModel::class_names() const {
  const std::vector<NameList> lists = name_lists();
  if (lists.empty()) return std::nullopt;
  for (const NameList& list : lists)
    if (in_another_order(lists.front().names, list.names)) return std::nullopt;
  return lists.front().names;
}

std::vector<Finding> OnnxModel::places_of_other_names(const ModelFile& written,
                                                      std::span<const std::size_t> forget) const {
  std::vector<Finding> findings;
  const std::vector<NameList> lists = name_lists();
  const auto known = class_names();
  for (const std::size_t c : forget) {
    std::set<std::string> names;
    for (const NameList& list : lists) names.insert(list.names[c]);
    if (known) names.erase((*known)[c]);
    for (const std::string& name : names)
      for (const std::string& place : written.places_with_name(name))
        findings.push_back({place, fmt::format("still says a name of forgotten class {}", c)});
  }
  return findings;
}

std::vector<Finding> OnnxModel::findings() const {
  head_.require_enough_classes(model_);
  std::vector<Finding> findings;
  for (const std::string& step : head_.tail.nonlinear) {
    findings.push_back(
        {step,
         "is a non-linear step behind the logits, so that a common shift of all of them shows in "
         "the output: normalization needs --allow-nonlinear-tail; naive works as it is"});
  }
  if (head_.per_position)
    findings.push_back({head_name(),
                        "answers once per position (of a sequence or a map), and forgets at every "
                        "one: rows of --features and --logits are positions, and y of --data has "
                        "one label for each"});
  if (head_.integers)
    findings.push_back(
        {head_name(),
         head_.as_floats
             ? "is quantised, and will be a layer of floats that reads the same features"
             : "is quantised: --method naive keeps its whole numbers; other methods round to fresh "
               "ones, one scale per class where the file has room for it, or write floats "
               "(--float-head)"});
  const std::vector<NameList> lists = name_lists();
  for (const NameList& list : lists) {
    if (!in_another_order(lists.front().names, list.names)) continue;
    findings.push_back({list.where, fmt::format("has the names of classes in another order than "
                                                "{}: neither is used, give --class-names",
                                                lists.front().where)});
  }
  if (!head_.tail.decides && lists.empty() && head_.kind != OnnxHead::Kind::classifier)
    findings.push_back({"", std::string(kNoClassifier)});
  for (const std::string& other : head_.other_heads)
    findings.push_back(
        {other, "is another last layer and stays as it is: --head chooses; it may know the class"});
  for (const std::string& output : head_.tail.other_outputs) {
    findings.push_back({output, "is an output that is not made of the logits, and stays as it is"});
  }
  return findings;
}

std::optional<StoredHead> OnnxModel::stored_as(const NewHead& head,
                                               std::span<const std::size_t> retained) const {
  if (!head_.integers || head_.as_floats || keeps_rows(head_view_, head, retained))
    return std::nullopt;
  const HeadGrid& grid = head_.integers->grid;
  return as_stored(quantise(head, head_view_.transposed, grid, model_.what()),
                   head_view_.weight_scale, grid);
}

std::vector<fs::path> OnnxModel::files() const {
  std::vector<fs::path> files{path()};
  for (const std::string& location : locations_) files.push_back(model_.side_path(location));
  return files;
}

std::vector<fs::path> OnnxModel::files_beside(const fs::path& output) const {
  std::vector<fs::path> files;
  for (const std::string& location : possible_side_files(model_, output))
    files.push_back(output.parent_path() / location);
  return files;
}

std::vector<std::string> OnnxModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places;
  std::set<std::string> seen;
  for (const std::string& place : oubli::places_with_name(model_.bytes(), model_.what(), name))
    if (std::string masked = without_name(place, name); seen.insert(masked).second)
      places.push_back(std::move(masked));
  return places;
}

StagedModel OnnxModel::stage_in(const NewHead& head, std::span<const std::size_t> retained,
                                const fs::path& path, const fs::path& folder, bool replace) const {
  head_.require_enough_classes(model_);
  const std::vector<std::size_t> forget = forgotten_of(head_view_.classes(), retained);
  const OnnxRewrite rewrite = rewrite_onnx(model_, head_, head, forget, path);

  StagedModel staged;
  std::map<std::string, fs::path> side_files;
  for (const onnx::SideFile& side : rewrite.side_files) {
    const fs::path target = folder / side.new_location;
    if (target.has_parent_path()) fs::create_directories(target.parent_path());
    auto file = std::make_unique<AtomicFile>(target, replace);
    write_side_file(*file, model_.side_file(side.old_location)->bytes(), side.patches);
    side_files[side.new_location] = file->temporary_path();
    staged.files.push_back(std::move(file));
  }
  staged.files.push_back(std::make_unique<AtomicFile>(folder / path.filename(), replace));
  AtomicFile& file = *staged.files.back();
  rewrite.message.write([&](std::span<const std::byte> piece) { file.write(piece); });
  for (const std::string& text : rewrite.findings) staged.findings.push_back({"", text});

  for (const onnx::MetadataEntry& entry : model_.metadata())
    for (const std::string& key : unknown_spellings(entry.key, entry.value, head_view_.classes()))
      staged.findings.push_back(
          {fmt::format("metadata '{}'", entry.key),
           fmt::format("its '{}' does not hold {} class names in a spelling known here and is "
                       "unchanged: it may name forgotten classes",
                       key, head_view_.classes())});

  staged.old_rows_may_remain = rewrite.old_head_kept;
  try {
    OnnxHeadChoice same;  // its weights may have another name by now
    if (!choice_.empty()) same.value = head_.layer_output();
    staged.written = std::make_unique<OnnxModel>(file.temporary_path(), side_files, same);
  } catch (const Error& error) {
    // Under the names that a person knows.
    std::string message = error.what();
    for (const auto& part : staged.files)
      replace_all(message, part->temporary_path().string(), part->path().string());
    throw Error(error.code(), message);
  }
  std::ranges::move(places_of_other_names(*staged.written, forget),
                    std::back_inserter(staged.findings));
  return staged;
}

}  // namespace oubli
