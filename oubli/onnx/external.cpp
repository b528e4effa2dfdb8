#include "oubli/onnx/external.h"

#include <algorithm>
#include <array>

#include "oubli/onnx/schema.h"

namespace oubli::onnx {

namespace {

enum class Kind { model, training, function, graph, node, attribute, sparse, tensor };

// Which fields of which messages lead to tensors.
struct Step {
  Kind from;
  std::uint32_t number;
  Kind to;
};
constexpr std::array<Step, 19> kSteps{{
    {Kind::model, schema::model::kGraph, Kind::graph},
    {Kind::model, schema::model::kTrainingInfo, Kind::training},
    {Kind::model, schema::model::kFunctions, Kind::function},
    {Kind::training, schema::training::kInitialization, Kind::graph},
    {Kind::training, schema::training::kAlgorithm, Kind::graph},
    {Kind::function, schema::function::kNode, Kind::node},
    {Kind::function, schema::function::kAttributeProto, Kind::attribute},
    {Kind::graph, schema::graph::kNode, Kind::node},
    {Kind::graph, schema::graph::kInitializer, Kind::tensor},
    {Kind::graph, schema::graph::kSparseInitializer, Kind::sparse},
    {Kind::node, schema::node::kAttribute, Kind::attribute},
    {Kind::attribute, schema::attribute::kTensor, Kind::tensor},
    {Kind::attribute, schema::attribute::kTensors, Kind::tensor},
    {Kind::attribute, schema::attribute::kGraph, Kind::graph},
    {Kind::attribute, schema::attribute::kGraphs, Kind::graph},
    {Kind::attribute, schema::attribute::kSparseTensor, Kind::sparse},
    {Kind::attribute, schema::attribute::kSparseTensors, Kind::sparse},
    {Kind::sparse, schema::sparse::kValues, Kind::tensor},
    {Kind::sparse, schema::sparse::kIndices, Kind::tensor},
}};

const Step* step_from(Kind kind, const Field& field) {
  if (field.type != WireType::bytes || field.removed) return nullptr;
  const auto found = std::ranges::find_if(
      kSteps, [&](const Step& step) { return step.from == kind && step.number == field.number; });
  return found == kSteps.end() ? nullptr : &*found;
}

// As deep as graphs may nest: node, attribute and graph on each level.
constexpr int kDeepest = 3 * 32 + 4;

void collect(std::span<const std::byte> bytes, Kind kind, int depth, const std::string& what,
             std::vector<std::string>& locations) {
  if (depth > kDeepest) fail(ErrorCode::bad_input, "{}: subgraphs nested more than 32 deep", what);
  const Message message = Message::parse(bytes, what);
  if (kind == Kind::tensor) {
    if (message.number_or(schema::tensor::kDataLocation, 0) != 1) return;
    for (const Field& field : message.fields) {
      if (field.number != schema::tensor::kExternalData || field.type != WireType::bytes) continue;
      const Message entry = Message::parse(field.payload, what);
      if (entry.text_or(schema::entry::kKey, "") != "location") continue;
      std::string location(entry.text_or(schema::entry::kValue, ""));
      if (std::ranges::find(locations, location) == locations.end())
        locations.push_back(std::move(location));
    }
    return;
  }
  for (const Field& field : message.fields)
    if (const Step* const step = step_from(kind, field))
      collect(field.payload, step->to, depth + 1, what, locations);
}

void rename_in(Message& message, Kind kind, const std::string& from, const std::string& to,
               const std::string& what) {
  if (kind == Kind::tensor) {
    for (Field& field : message.fields) {
      if (field.number != schema::tensor::kExternalData || field.removed) continue;
      Message& entry = open(field, what);
      if (entry.text_or(schema::entry::kKey, "") == "location" &&
          entry.text_or(schema::entry::kValue, "") == from)
        set_text(*entry.find(schema::entry::kValue), to);
    }
    return;
  }
  for (Field& field : message.fields) {
    const Step* const step = step_from(kind, field);
    if (step == nullptr) continue;
    if (!field.message) {  // opened only if there is something to rename
      std::vector<std::string> locations;
      collect(field.payload, step->to, 0, what, locations);
      if (std::ranges::find(locations, from) == locations.end()) continue;
    }
    rename_in(open(field, what), step->to, from, to, what);
  }
}

}  // namespace

std::vector<std::string> external_locations(std::span<const std::byte> model,
                                            const std::string& what) {
  std::vector<std::string> locations;
  collect(model, Kind::model, 0, what, locations);
  return locations;
}

void rename_location(Message& model, const std::string& from, const std::string& to,
                     const std::string& what) {
  rename_in(model, Kind::model, from, to, what);
}

}  // namespace oubli::onnx
