#include <algorithm>

#include "oubli/model/onnx_rewrite.h"
#include "oubli/model/residue.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Field;
using onnx::Message;
using onnx::WireType;

constexpr std::size_t kLongestText = std::size_t{1} << 20;
constexpr int kDeepest = 12;

// What a path of field numbers stands for, in words.
std::string words_for(std::span<const std::uint32_t> path, std::string_view owner) {
  if (path.empty()) return "the model";
  if (path[0] == schema::model::kMetadata) return fmt::format("metadata '{}'", owner);
  if (path[0] != schema::model::kGraph) return fmt::format("field {} of the model", path[0]);
  if (path.size() == 1) return "the graph";
  switch (path[1]) {
    case schema::graph::kNode:
      return fmt::format("node '{}'", owner);
    case schema::graph::kInitializer:
      return fmt::format("tensor '{}'", owner);
    case schema::graph::kInput:
    case schema::graph::kOutput:
    case schema::graph::kValueInfo:
      return fmt::format("value '{}'", owner);
    default:
      return fmt::format("field {} of the graph", path[1]);
  }
}

class NameSearch {
 public:
  NameSearch(std::string_view name, std::vector<std::string>& places)
      : name_(name), places_(places) {}

  void search(const Message& message, std::vector<std::uint32_t>& path, const std::string& owner) {
    for (const Field& field : message.fields) {
      if (field.type != WireType::bytes || field.payload.empty()) continue;
      path.push_back(field.number);
      const bool is_message = descend(field, path, owner);
      if (!is_message && field.payload.size() <= kLongestText &&
          mentions_name(as_text(field.payload), name_)) {
        const std::string place = words_for(path, owner);
        if (std::ranges::find(places_, place) == places_.end()) places_.push_back(place);
      }
      path.pop_back();
    }
  }

 private:
  // Whether the field is a message of the model's known levels. Unknown fields are read as text.
  bool descend(const Field& field, std::vector<std::uint32_t>& path, const std::string& owner) {
    if (path.size() > kDeepest) return false;
    const bool raw = path.size() >= 3 && path.back() == schema::tensor::kRawData;
    const bool large = field.payload.size() > kLongestText && path.size() > 1;
    if (raw || (large && path.size() > 2)) return raw;
    Message inner;
    try {
      inner = Message::parse(field.payload, "");
    } catch (const Error&) {
      return false;
    }
    std::string name = owner;
    if (path.size() == 2 && path[0] == schema::model::kGraph) {
      const std::uint32_t number = path[1] == schema::graph::kNode ? schema::node::kName
                                   : path[1] == schema::graph::kInitializer
                                       ? schema::tensor::kName
                                       : schema::value_info::kName;
      name = inner.text_or(number, "");
      if (name.empty() && path[1] == schema::graph::kNode)
        name = inner.text_or(schema::node::kOutput, "");
    } else if (path.size() == 1 && path[0] == schema::model::kMetadata) {
      name = inner.text_or(schema::entry::kKey, "");
    }
    const std::size_t before = places_.size();
    search(inner, path, name);
    // Text can happen to parse as a message; then it is looked at as text as well.
    return places_.size() != before || path == std::vector<std::uint32_t>{schema::model::kGraph};
  }

  std::string_view name_;
  std::vector<std::string>& places_;
};

}  // namespace

std::vector<std::string> places_with_name(std::span<const std::byte> model, const std::string& what,
                                          std::string_view name) {
  std::vector<std::string> places;
  std::vector<std::uint32_t> path;
  NameSearch(name, places).search(Message::parse(model, what), path, "");
  return places;
}

}  // namespace oubli
