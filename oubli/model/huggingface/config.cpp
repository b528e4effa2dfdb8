#include "oubli/model/huggingface/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/base/json_place.h"
#include "oubli/model/name_text.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;
using Path = std::vector<std::string>;

const Json* find(const Json& document, std::initializer_list<const char*> path) {
  const Json* at = &document;
  for (const char* const step : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(step);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

std::string text_at(const Json& document, std::initializer_list<const char*> path) {
  const Json* const found = find(document, path);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::size_t> count_at(const Json& document, std::initializer_list<const char*> path) {
  const Json* const found = find(document, path);
  if (found == nullptr || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::size_t>();
}

// Where lists of names may stand, and under which key their spelling is known.
struct Spelling {
  Path path;
  const char* key;
};
const Spelling kNames[] = {{{"id2label"}, "id2label"},
                           {{"label2id"}, "label2id"},
                           {{"label_names"}, "names"},
                           {{"pretrained_cfg", "label_names"}, "names"}};
const Path kCounts[] = {{"num_labels"}, {"num_classes"}, {"pretrained_cfg", "num_classes"}};
const Path kDescriptions[] = {{"label_descriptions"}, {"pretrained_cfg", "label_descriptions"}};

struct Edit {
  std::size_t begin, end;
  std::string text;
};

void apply(std::string& text, std::vector<Edit> edits) {
  std::ranges::sort(edits, std::greater<>{}, &Edit::begin);
  for (const Edit& edit : edits) text.replace(edit.begin, edit.end - edit.begin, edit.text);
}

// The lists of names that are there, with their places.
std::vector<std::pair<JsonPlace, NameText>> name_lists(const std::string& text,
                                                       const std::string& what) {
  std::vector<std::pair<JsonPlace, NameText>> found;
  for (const Spelling& spelling : kNames) {
    const auto place = place_in_json(text, spelling.path);
    if (!place || place->in(text) == "null") continue;
    auto names = NameText::parse(place->in(text), spelling.key);
    if (!names)
      fail(ErrorCode::bad_input, "{}: {} is no list of names in a known spelling", what,
           fmt::join(spelling.path, "."));
    found.emplace_back(*place, std::move(*names));
  }
  return found;
}

// Takes a member, with its key and one comma, out of the object at `path`.
std::optional<Edit> cut_member(const std::string& text, const Path& path, const std::string& key) {
  Path whole = path;
  whole.push_back(key);
  const auto value = place_in_json(text, whole);
  const auto object = place_in_json(text, path);
  if (!value || !object) return std::nullopt;
  // Back over the colon to the key's opening quote. Quotes inside of it are escaped.
  std::size_t colon = text.rfind(':', value->begin);
  std::size_t quote = text.rfind('"', colon) - 1;
  while (text[quote] != '"' || text[quote - 1] == '\\') --quote;
  const std::size_t before = text.find_last_not_of(" \t\r\n", quote - 1);
  const std::size_t after = text.find_first_not_of(" \t\r\n", value->end);
  if (text[before] == ',') return Edit{before, value->end, ""};
  if (text[after] == ',') return Edit{quote, text.find_first_not_of(" \t\r\n", after + 1), ""};
  return Edit{quote, value->end, ""};
}

}  // namespace

FolderConfig::FolderConfig(std::string text, std::string what)
    : text_(std::move(text)), what_(std::move(what)) {
  const Json document = parse_json(text_, what_);
  if (!document.is_object()) fail(ErrorCode::bad_input, "{}: no configuration", what_);
  for (const auto& [place, list] : name_lists(text_, what_)) {
    if (names_.empty()) {
      names_ = list.names();
    } else if (names_ != list.names()) {
      fail(ErrorCode::bad_input,
           "{}: its lists of class names do not agree with each other: which class is which cannot "
           "be told",
           what_);
    }
  }
  if (!names_.empty()) classes_ = names_.size();
  for (const auto& count : {count_at(document, {"num_labels"}), count_at(document, {"num_classes"}),
                            count_at(document, {"pretrained_cfg", "num_classes"})}) {
    if (!count) continue;
    if (classes_ && *classes_ != *count)
      fail(ErrorCode::bad_input, "{}: says that there are {} classes, and {}", what_, *classes_,
           *count);
    classes_ = count;
  }
  classifier_ = text_at(document, {"pretrained_cfg", "classifier"});
  if (classifier_.empty()) classifier_ = text_at(document, {"classifier"});
  multi_label_ = text_at(document, {"problem_type"}) == "multi_label_classification";
  if (const Json* const all = find(document, {"architectures"});
      all != nullptr && all->is_array() && !all->empty() && (*all)[0].is_string())
    architecture_ = (*all)[0].get<std::string>();
  else
    architecture_ = text_at(document, {"architecture"});
}

std::string FolderConfig::without(std::span<const std::size_t> retained) const {
  std::vector<std::size_t> forget;
  for (std::size_t j = 0; j < classes_.value_or(0); ++j)
    if (!std::ranges::binary_search(retained, j)) forget.push_back(j);
  std::string text = text_;
  // Descriptions go by name, one at a time: each cut moves what follows.
  for (const Path& path : kDescriptions)
    for (const std::size_t c : forget)
      if (!names_.empty())
        if (auto edit = cut_member(text, path, names_[c])) apply(text, {*edit});
  std::vector<Edit> edits;
  for (const auto& [place, list] : name_lists(text, what_))
    edits.push_back({place.begin, place.begin + list.size(), list.without(forget)});
  for (const Path& path : kCounts)
    if (const auto place = place_in_json(text, path);
        place && place->in(text) == std::to_string(*classes_))
      edits.push_back({place->begin, place->end, std::to_string(retained.size())});
  apply(text, std::move(edits));
  return text;
}

std::string shrunk_index(const std::string& text, std::size_t bytes, std::size_t parameters,
                         const std::string& what) {
  const Json document = parse_json(text, what);
  std::vector<Edit> edits;
  for (const auto& [key, less] :
       {std::pair("total_size", bytes), std::pair("total_parameters", parameters)}) {
    const auto count = count_at(document, {"metadata", key});
    const Path path{"metadata", key};
    const auto place = place_in_json(text, path);
    if (!count || !place) continue;
    if (*count < less)
      fail(ErrorCode::bad_input, "{}: {} is {}, less than what is taken out ({})", what, key,
           *count, less);
    edits.push_back({place->begin, place->end, std::to_string(*count - less)});
  }
  std::string result = text;
  apply(result, std::move(edits));
  return result;
}

}  // namespace oubli
