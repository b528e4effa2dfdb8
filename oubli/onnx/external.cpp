#include "oubli/onnx/external.h"

#include <algorithm>
#include <array>
#include <set>

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

// Calls `visit` for the message of every tensor with external data.
template <typename Visit>
void for_each_external(std::span<const std::byte> bytes, Kind kind, int depth,
                       const std::string& what, const Visit& visit) {
  if (depth > kDeepest) fail(ErrorCode::bad_input, "{}: subgraphs nested more than 32 deep", what);
  Field field;
  FieldReader reader(bytes, what);
  if (kind != Kind::tensor) {
    while (reader.next(field))
      if (const Step* const step = step_from(kind, field))
        for_each_external(field.payload, step->to, depth + 1, what, visit);
    return;
  }
  std::uint64_t location = 0;
  while (reader.next(field))
    if (field.number == schema::tensor::kDataLocation) location = field.value;
  if (location == 1) visit(bytes);
}

bool has_external(std::span<const std::byte> bytes, Kind kind, const std::string& what) {
  bool found = false;
  for_each_external(bytes, kind, 0, what, [&](std::span<const std::byte>) { found = true; });
  return found;
}

using Names = std::map<std::string, std::string, std::less<>>;

void rename_in(Message& message, Kind kind, const Names& names, const std::string& what) {
  if (kind == Kind::tensor) {
    for (Field& field : message.fields) {
      if (field.number != schema::tensor::kExternalData || field.removed) continue;
      Message& entry = open(field, what);
      if (entry.text_or(schema::entry::kKey, "") != "location") continue;
      const auto found = names.find(entry.text_or(schema::entry::kValue, ""));
      if (found != names.end()) set_text(*entry.find(schema::entry::kValue), found->second);
    }
    return;
  }
  for (Field& field : message.fields) {
    const Step* const step = step_from(kind, field);
    // Opened only if there is something to rename.
    if (step != nullptr && (field.message || has_external(field.payload, step->to, what)))
      rename_in(open(field, what), step->to, names, what);
  }
}

}  // namespace

std::vector<TensorInfo> external_tensors(const Model& model) {
  std::vector<TensorInfo> tensors;
  for_each_external(
      model.bytes(), Kind::model, 0, model.what(),
      [&](std::span<const std::byte> tensor) { tensors.push_back(model.tensor_info(tensor, "")); });
  return tensors;
}

std::vector<std::string> external_locations(const Model& model) {
  std::vector<std::string> locations;
  std::set<std::string> seen;
  for (const TensorInfo& tensor : external_tensors(model))
    if (seen.insert(tensor.location).second) locations.push_back(tensor.location);
  return locations;
}

void rename_locations(Message& model, const Names& names, const std::string& what) {
  if (!names.empty()) rename_in(model, Kind::model, names, what);
}

}  // namespace oubli::onnx
