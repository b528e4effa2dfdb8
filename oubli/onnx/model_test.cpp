#include "oubli/onnx/model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "oubli/onnx/builder.h"
#include "oubli/onnx/constants.h"
#include "oubli/onnx/schema.h"

namespace oubli::onnx {
namespace {

namespace fs = std::filesystem;

// A model of one initializer, given as a TensorProto.
std::vector<std::byte> model_with(Message tensor) {
  Message graph;
  graph.add(message_field(schema::graph::kInitializer, std::move(tensor)));
  Message model;
  model.add(varint_field(schema::model::kIrVersion, 8));
  model.add(message_field(schema::model::kGraph, std::move(graph)));
  return model.encode();
}

Message tensor(std::uint64_t data_type, std::vector<std::int64_t> dims) {
  Message message;
  for (const std::int64_t dim : dims) {
    message.add(varint_field(schema::tensor::kDims, static_cast<std::uint64_t>(dim)));
  }
  message.add(varint_field(schema::tensor::kDataType, data_type));
  message.add(bytes_field(schema::tensor::kName, "t"));
  return message;
}

std::vector<double> values_of(const std::vector<std::byte>& bytes, const fs::path& folder = {}) {
  const Model model(bytes, "test.onnx", folder);
  return to_vector(model.load(model.graph().initializers.at(0)));
}

TEST(OnnxModel, TypedDataOfEveryFloatType) {
  Message f32 = tensor(1, {3});
  f32.add(packed_field(schema::tensor::kFloatData, std::vector<float>{1, -2, 0.5F}));
  EXPECT_EQ(values_of(model_with(std::move(f32))), (std::vector<double>{1, -2, 0.5}));

  Message unpacked = tensor(1, {2});
  unpacked.add(float_field(schema::tensor::kFloatData, 3));
  unpacked.add(float_field(schema::tensor::kFloatData, 4));
  EXPECT_EQ(values_of(model_with(std::move(unpacked))), (std::vector<double>{3, 4}));

  // float16 and bfloat16 as bit patterns in int32_data [onnx.proto3]; 0xc000 is -2 in either.
  Message f16 = tensor(10, {2});
  f16.add(packed_field(schema::tensor::kInt32Data, std::vector<std::int64_t>{0x3c00, 0xc000}));
  EXPECT_EQ(values_of(model_with(std::move(f16))), (std::vector<double>{1, -2}));
  Message bf16 = tensor(16, {2});
  bf16.add(packed_field(schema::tensor::kInt32Data, std::vector<std::int64_t>{0x3f80, 0xc000}));
  EXPECT_EQ(values_of(model_with(std::move(bf16))), (std::vector<double>{1, -2}));

  Message f64 = tensor(11, {1});
  const double pi = 3.14159;
  std::vector<std::byte> raw(8);
  std::memcpy(raw.data(), &pi, 8);
  f64.add(bytes_field(schema::tensor::kDoubleData, raw));
  EXPECT_EQ(values_of(model_with(std::move(f64))), std::vector<double>{pi});
}

TEST(OnnxModel, SizesThatDisagreeAreRefused) {
  Message few = tensor(1, {3});
  few.add(packed_field(schema::tensor::kFloatData, std::vector<float>{1, 2}));
  EXPECT_THROW((void)values_of(model_with(std::move(few))), Error);
  Message negative = tensor(1, {-1});
  EXPECT_THROW((void)values_of(model_with(std::move(negative))), Error);
  Message huge = tensor(1, {INT64_MAX, INT64_MAX});
  EXPECT_THROW((void)values_of(model_with(std::move(huge))), Error);
}

Message external(const std::string& location, const std::string& offset,
                 const std::string& length) {
  Message message = tensor(1, {2});
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", location},
                                   {"offset", offset},
                                   {"length", length}}) {
    Message entry;
    entry.add(bytes_field(schema::entry::kKey, key));
    entry.add(bytes_field(schema::entry::kValue, value));
    message.add(message_field(schema::tensor::kExternalData, std::move(entry)));
  }
  message.add(varint_field(schema::tensor::kDataLocation, 1));
  return message;
}

TEST(OnnxModel, ExternalDataStaysInItsFolder) {
  const fs::path folder = fs::temp_directory_path() / "oubli_onnx_model_test";
  fs::create_directories(folder);
  const std::vector<float> stored{9, 7, 8};
  write_file(folder / "w.bin", std::as_bytes(std::span(stored)));
  EXPECT_EQ(values_of(model_with(external("w.bin", "4", "8")), folder),
            (std::vector<double>{7, 8}));
  const auto code_of = [&](Message message) {
    try {
      (void)values_of(model_with(std::move(message)), folder);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::bug;
  };
  EXPECT_EQ(code_of(external("../w.bin", "0", "8")), ErrorCode::bad_input);
  EXPECT_EQ(code_of(external("/etc/passwd", "0", "8")), ErrorCode::bad_input);
  EXPECT_EQ(code_of(external("sub/../../w.bin", "0", "8")), ErrorCode::bad_input);
  // Links: to a file elsewhere, to a folder elsewhere, and one that stays.
  const fs::path elsewhere = folder.string() + "_elsewhere";
  fs::create_directories(elsewhere);
  fs::copy_file(folder / "w.bin", elsewhere / "w.bin", fs::copy_options::overwrite_existing);
  for (const char* name : {"file", "folder", "inside"}) fs::remove(folder / name);
  fs::create_symlink(elsewhere / "w.bin", folder / "file");
  fs::create_directory_symlink(elsewhere, folder / "folder");
  fs::create_symlink("w.bin", folder / "inside");
  for (const char* location : {"file", "folder/w.bin", "inside"})
    EXPECT_EQ(code_of(external(location, "0", "8")), ErrorCode::bad_input) << location;
  fs::remove_all(elsewhere);
  EXPECT_EQ(code_of(external("w.bin", "8", "8")), ErrorCode::bad_input);
  EXPECT_EQ(code_of(external("w.bin", "18446744073709551615", "8")), ErrorCode::bad_input);
  EXPECT_EQ(code_of(external("gone.bin", "0", "8")), ErrorCode::missing);
  fs::remove_all(folder);
}

// A graph of one node whose attribute is a graph of one node whose ...
TEST(OnnxModel, DeepNestingIsRefused) {
  std::vector<std::byte> graph;
  for (int depth = 0; depth < 1000; ++depth) {
    Message attribute;
    attribute.add(bytes_field(schema::attribute::kGraph, graph));
    Message node;
    node.add(message_field(schema::node::kAttribute, std::move(attribute)));
    Message outer;
    outer.add(message_field(schema::graph::kNode, std::move(node)));
    graph = outer.encode();
  }
  Message message;
  message.add(bytes_field(schema::model::kGraph, graph));
  const auto bytes = message.encode();
  try {
    const Model model(bytes, "test");
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string_view(error.what()).find("nested"), std::string_view::npos);
  }
}

TEST(OnnxModel, NamesUsedInsideSubgraphsAreSeen) {
  Message inner;
  inner.add(message_field(schema::graph::kNode, node_message("Mul", {"x", "W"}, {"y"}, {}, "")));
  Message attribute;
  attribute.add(bytes_field(schema::attribute::kName, "then_branch"));
  attribute.add(message_field(schema::attribute::kGraph, std::move(inner)));
  Message node = node_message("If", {"c"}, {"out"}, {}, "");
  node.add(message_field(schema::node::kAttribute, std::move(attribute)));
  Message graph;
  graph.add(message_field(schema::graph::kNode, std::move(node)));
  Message message;
  message.add(message_field(schema::model::kGraph, std::move(graph)));
  const auto bytes = message.encode();
  const Model model(bytes, "test");
  EXPECT_TRUE(model.graph().nodes[0].has_subgraph);
  EXPECT_EQ(model.graph().nodes[0].outer_names, (std::vector<std::string>{"x", "W"}));
}

// Shapes that stand behind a Reshape of themselves once took exponential time.
TEST(OnnxModel, ConstantsThatReferToThemselvesEnd) {
  Message graph;
  graph.add(message_field(schema::graph::kInitializer, tensor(1, {0})));
  std::string before = "t";
  for (int i = 0; i < 12; ++i) {
    const std::string value = fmt::format("v{}", i);
    graph.add(message_field(schema::graph::kNode,
                            node_message("Reshape", {before, "v11"}, {value}, {}, "")));
    before = value;
  }
  Message message;
  message.add(message_field(schema::model::kGraph, std::move(graph)));
  const auto bytes = message.encode();
  EXPECT_FALSE(constant_value(Model(bytes, "test"), "v11").has_value());
}

TEST(OnnxModel, WantsExactlyOneGraph) { EXPECT_THROW(Model({}, "empty.onnx"), Error); }

}  // namespace
}  // namespace oubli::onnx
