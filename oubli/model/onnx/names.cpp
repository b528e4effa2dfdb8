#include "oubli/model/onnx/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/model/mentions.h"
#include "oubli/onnx/schema.h"
#include "oubli/onnx/wire.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Field;
using onnx::Message;
using onnx::WireType;

// Messages whose fields are known here; what else there is, is read as text and as a message.
enum class Kind { model, graph, node, attribute, tensor, other };

struct Step {
  Kind from;
  std::uint32_t number;
  Kind to;
};
constexpr std::array<Step, 8> kSteps{{
    {Kind::model, schema::model::kGraph, Kind::graph},
    {Kind::graph, schema::graph::kNode, Kind::node},
    {Kind::graph, schema::graph::kInitializer, Kind::tensor},
    {Kind::node, schema::node::kAttribute, Kind::attribute},
    {Kind::attribute, schema::attribute::kTensor, Kind::tensor},
    {Kind::attribute, schema::attribute::kTensors, Kind::tensor},
    {Kind::attribute, schema::attribute::kGraph, Kind::graph},
    {Kind::attribute, schema::attribute::kGraphs, Kind::graph},
}};

Kind kind_of(Kind parent, std::uint32_t number) {
  const auto step = std::ranges::find_if(
      kSteps, [&](const Step& s) { return s.from == parent && s.number == number; });
  return step == kSteps.end() ? Kind::other : step->to;
}

// Numbers, not text. Of bytes (UINT8, INT8) nobody knows.
bool is_numbers(const Message& message, Kind parent, std::uint32_t number) {
  using namespace schema;
  constexpr std::uint64_t kUint8 = 2, kInt8 = 3;
  if (parent == Kind::attribute) return number == attribute::kFloats || number == attribute::kInts;
  if (parent != Kind::tensor) return false;
  const std::uint64_t type = message.number_or(tensor::kDataType, 0);
  if ((number == tensor::kRawData || number == tensor::kInt32Data) &&
      (type == kUint8 || type == kInt8))
    return false;
  return number == tensor::kDims || number == tensor::kRawData || number == tensor::kFloatData ||
         number == tensor::kInt32Data || number == tensor::kInt64Data ||
         number == tensor::kDoubleData || number == tensor::kUint64Data;
}

// Subgraphs nest to 32 levels of three messages each.
constexpr std::size_t kDeepest = 3 * 32 + 4;
constexpr std::size_t kDeepestGuess = 8;

// What a path of field numbers stands for, in words.
std::string words_for(std::span<const std::uint32_t> path, std::string_view owner) {
  if (path.empty()) return "the model";
  if (path[0] == schema::model::kMetadata) return fmt::format("metadata '{}'", owner);
  if (path[0] == schema::model::kDocString) return "the model's doc_string";
  if (path[0] != schema::model::kGraph) return fmt::format("field {} of the model", path[0]);
  if (path.size() == 1) return "the graph";
  if (path[1] == schema::graph::kName) return "the graph's name";
  if (path[1] == schema::graph::kDocString) return "the graph's doc_string";
  switch (path[1]) {
    case schema::graph::kNode:
      return fmt::format("node '{}'", owner);
    case schema::graph::kInitializer:
      return fmt::format("tensor '{}'", owner);
    case schema::graph::kInput:
      return fmt::format("input '{}'", owner);
    case schema::graph::kOutput:
      return fmt::format("output '{}'", owner);
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

  void search(const Message& message, Kind kind, std::vector<std::uint32_t>& path,
              const std::string& owner, std::size_t guessed = 0) {
    // Operators of the standard are words like any other: a class may be called Add.
    const bool standard = kind == Kind::node && message.text_or(schema::node::kDomain, "").empty();
    for (const Field& field : message.fields) {
      if (field.type != WireType::bytes || field.payload.empty() ||
          is_numbers(message, kind, field.number) ||
          (standard && field.number == schema::node::kOpType))
        continue;
      path.push_back(field.number);
      const Kind inner = kind_of(kind, field.number);
      // Text can happen to parse as a message; then it is looked at as text as well.
      const bool known = descend(field, inner, path, owner, guessed);
      if (!known && mentions_name(as_text(field.payload), name_)) {
        const std::string place = words_for(path, owner);
        if (seen_.insert(place).second) places_.push_back(place);
      }
      path.pop_back();
    }
  }

 private:
  // Whether that was all: the field is a known message, or the name was found in what could be one.
  bool descend(const Field& field, Kind kind, std::vector<std::uint32_t>& path,
               const std::string& owner, std::size_t guessed) {
    if (path.size() > kDeepest || guessed > kDeepestGuess) return false;
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
    search(inner, kind, path, name, kind == Kind::other ? guessed + 1 : 0);
    return kind != Kind::other || places_.size() != before;
  }

  std::string_view name_;
  std::vector<std::string>& places_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<std::string> places_with_name(std::span<const std::byte> model, const std::string& what,
                                          std::string_view name) {
  std::vector<std::string> places;
  std::vector<std::uint32_t> path;
  NameSearch(name, places).search(Message::parse(model, what), Kind::model, path, "");
  return places;
}

}  // namespace oubli
