#include "oubli/onnx/builder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "oubli/base/file.h"
#include "oubli/onnx/model.h"

namespace oubli::onnx {
namespace {

ModelBuilder small_network() {
  const std::vector<double> weights{1, 2, 3, 4, 5, 6};
  const std::vector<double> bias{0.5, -0.5, 0};
  Tensor w = to_tensor(weights, DType::f32);
  w.shape = {3, 2};
  ModelBuilder builder("small");
  builder.input("x", DType::f32, {"batch", 2});
  builder.initializer("fc.weight", w.view("w"));
  builder.initializer("fc.bias", to_tensor(bias, DType::f32).view("b"));
  builder.node("Gemm", {"x", "fc.weight", "fc.bias"}, {"logits"},
               {{"transB", std::int64_t{1}}, {"alpha", 0.5F}}, "fc");
  builder.node("Softmax", {"logits"}, {"p"}, {{"axis", std::int64_t{-1}}});
  builder.output("p", DType::f32, {"batch", 3});
  builder.metadata("class_names", R"(["a","b","c"])");
  return builder;
}

TEST(Builder, ReadsBackWhatWasWritten) {
  ModelBuilder builder = small_network();
  const std::vector<std::byte> bytes = builder.encode();
  EXPECT_EQ(builder.encode(), bytes);
  Model model(bytes, "small.onnx");
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_EQ(model.opset(), 17);
  const Graph& graph = model.graph();
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].describe(), "Gemm node 'fc'");
  EXPECT_EQ(graph.nodes[0].int_or("transB", 0), 1);
  EXPECT_EQ(graph.nodes[0].int_or("transA", 0), 0);
  EXPECT_EQ(graph.nodes[0].float_or("alpha", 1), 0.5F);
  EXPECT_EQ(graph.nodes[1].int_or("axis", 1), -1);
  EXPECT_EQ(graph.producer("p"), &graph.nodes[1]);
  ASSERT_EQ(graph.inputs.size(), 1U);
  ASSERT_TRUE(graph.inputs[0].shape.has_value());
  EXPECT_EQ(graph.inputs[0].shape->at(0).symbol, "batch");
  EXPECT_EQ(graph.inputs[0].shape->at(1).value, 2);
  const SharedTensor w = model.load(*graph.initializer("fc.weight"));
  EXPECT_EQ(to_matrix(w)(2, 1), 6);
  ASSERT_NE(model.metadata("class_names"), nullptr);
  EXPECT_EQ(model.metadata("class_names")->value, R"(["a","b","c"])");
  EXPECT_EQ(Message::parse(bytes, "test").encode(), bytes);
}

// The ONNX project's own checker is the oracle.
TEST(Builder, PassesTheCheckerOfOnnx) {
  if (std::system("/usr/bin/python3 -c 'import onnx' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3-onnx is not installed";
  }
  const auto path = std::filesystem::temp_directory_path() / "oubli_builder_test.onnx";
  small_network().save(path);
  const std::string command =
      "/usr/bin/python3 -c \"import onnx, onnx.numpy_helper, sys; m = onnx.load(sys.argv[1]); "
      "onnx.checker.check_model(m, full_check=True); "
      "assert onnx.numpy_helper.to_array(m.graph.initializer[0]).tolist() == "
      "[[1,2],[3,4],[5,6]]\" " +
      path.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace oubli::onnx
