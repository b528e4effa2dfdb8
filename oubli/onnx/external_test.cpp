#include "oubli/onnx/external.h"

#include <gtest/gtest.h>

#include "oubli/onnx/builder.h"
#include "oubli/onnx/schema.h"

namespace oubli::onnx {
namespace {

// Names are given once in a graph.
std::string fresh() {
  static int count = 0;
  return fmt::format("v{}", count++);
}

Message external_tensor(const std::string& location) {
  Message tensor;
  tensor.add(bytes_field(schema::tensor::kName, fresh()));
  tensor.add(varint_field(schema::tensor::kDims, 2));
  Message entry;
  entry.add(bytes_field(schema::entry::kKey, "location"));
  entry.add(bytes_field(schema::entry::kValue, location));
  tensor.add(message_field(schema::tensor::kExternalData, std::move(entry)));
  tensor.add(varint_field(schema::tensor::kDataLocation, 1));
  return tensor;
}

Message wrap(std::uint32_t number, Message inner) {
  Message outer;
  outer.add(message_field(number, std::move(inner)));
  return outer;
}

Message node_with(std::uint32_t number, Message value) {
  Message node = node_message("If", {"c"}, {fresh()}, {}, "");
  node.add(message_field(schema::node::kAttribute, wrap(number, std::move(value))));
  return node;
}

// A tensor in every place that can hold one.
std::vector<std::byte> model_with_all_places() {
  namespace g = schema::graph;
  namespace a = schema::attribute;
  Message graph;
  graph.add(message_field(g::kInitializer, external_tensor("initializer")));
  graph.add(message_field(g::kInitializer, external_tensor("initializer")));
  graph.add(message_field(g::kSparseInitializer,
                          wrap(schema::sparse::kValues, external_tensor("sparse values"))));
  graph.add(message_field(g::kSparseInitializer,
                          wrap(schema::sparse::kIndices, external_tensor("sparse indices"))));
  graph.add(message_field(g::kNode, node_with(a::kTensor, external_tensor("attribute"))));
  graph.add(message_field(g::kNode, node_with(a::kTensors, external_tensor("attributes"))));
  graph.add(message_field(
      g::kNode, node_with(a::kSparseTensor,
                          wrap(schema::sparse::kValues, external_tensor("sparse attribute")))));
  // A branch, with an initializer, and a branch of a branch.
  Message branch = wrap(g::kInitializer, external_tensor("branch"));
  branch.add(message_field(
      g::kNode, node_with(a::kGraphs, wrap(g::kInitializer, external_tensor("inner branch")))));
  graph.add(message_field(g::kNode, node_with(a::kGraph, std::move(branch))));
  Message model;
  model.add(message_field(schema::model::kGraph, std::move(graph)));
  model.add(message_field(
      schema::model::kFunctions,
      wrap(schema::function::kNode, node_with(a::kTensor, external_tensor("function")))));
  model.add(message_field(
      schema::model::kTrainingInfo,
      wrap(schema::training::kAlgorithm, wrap(g::kInitializer, external_tensor("training")))));
  return model.encode();
}

const std::vector<std::string> kPlaces{
    "initializer",      "sparse values", "sparse indices", "attribute", "attributes",
    "sparse attribute", "branch",        "inner branch",   "function",  "training"};

TEST(ExternalData, IsFoundWhereverItIs) {
  const auto bytes = model_with_all_places();
  EXPECT_EQ(external_locations(Model(bytes, "test")), kPlaces);
}

TEST(ExternalData, OfTensorsThatHoldTheirNumbersIsNone) {
  Message tensor = external_tensor("stale");
  set_varint(*tensor.find(schema::tensor::kDataLocation), 0);
  const auto bytes =
      wrap(schema::model::kGraph, wrap(schema::graph::kInitializer, std::move(tensor))).encode();
  EXPECT_TRUE(external_locations(Model(bytes, "test")).empty());
}

TEST(ExternalData, IsRenamedWhereverItIs) {
  const auto bytes = model_with_all_places();
  for (std::size_t i = 0; i < kPlaces.size(); ++i) {
    Message model = Message::parse(bytes, "test");
    rename_locations(model, {{kPlaces[i], "new"}}, "test");
    std::vector<std::string> wanted = kPlaces;
    wanted[i] = "new";
    const auto renamed = model.encode();
    EXPECT_EQ(external_locations(Model(renamed, "test")), wanted);
    // Through messages that are open by now.
    rename_locations(model, {{"new", kPlaces[i]}}, "test");
    EXPECT_EQ(model.encode(), bytes) << kPlaces[i];
  }
}

TEST(ExternalData, NestingHasAnEnd) {
  Message graph = wrap(schema::graph::kInitializer, external_tensor("deep"));
  for (int depth = 0; depth < 200; ++depth)
    graph = wrap(schema::graph::kNode, node_with(schema::attribute::kGraph, std::move(graph)));
  Message message =
      wrap(schema::model::kFunctions,
           wrap(schema::function::kNode, node_with(schema::attribute::kGraph, std::move(graph))));
  message.add(message_field(schema::model::kGraph, {}));
  const auto bytes = message.encode();
  const Model model(bytes, "test");
  EXPECT_THROW((void)external_locations(model), Error);
}

}  // namespace
}  // namespace oubli::onnx
