#include "oubli/runtime/onnx_runtime.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "oubli/base/error.h"
#include "oubli/data/load.h"
#include "oubli/onnx/builder.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> libraries() {
  std::vector<fs::path> found;
  for (const char* name : {"small", "full"}) {
    const fs::path path = data_folder() / "runtime" / name / "libonnxruntime.so.1";
    if (fs::exists(path)) found.push_back(path);
  }
  return found;
}

std::vector<std::byte> layer() {
  onnx::ModelBuilder builder("layer");
  const std::vector<double> weights{1, 2, 3, 4, 5, 6};
  Tensor w = to_tensor(weights, DType::f32);
  w.shape = {3, 2};
  builder.input("x", DType::f32, {"n", 2});
  builder.initializer("w", w.view("w"));
  builder.node("Gemm", {"x", "w"}, {"y"}, {{"transB", std::int64_t{1}}});
  builder.output("y", DType::f32, {"n", 3});
  return builder.encode();
}

// Every version that tools/get-runtime knows and that is there: the positions in the table are
// right.
TEST(OnnxRuntime, RunsALayerInEveryVersion) {
  if (libraries().empty()) GTEST_SKIP() << "no ONNX Runtime; tools/get-runtime fetches one";
  for (const fs::path& library : libraries()) {
    const auto runtime = OnnxRuntime::open(library);
    EXPECT_GE(std::stoi(runtime->version().substr(2)), 21) << runtime->version();
    const OnnxSession session(runtime, layer(), {}, "layer");
    const std::vector<float> x{1, 10, 2, 20};
    const OnnxSession::Input input{"x", {DType::f32, {2, 2}, std::as_bytes(std::span(x)), "x"}};
    const auto results = session.run(std::span(&input, 1), std::vector<std::string>{"y"});
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].shape, (std::vector<std::size_t>{2, 3}));
    EXPECT_EQ(to_matrix(results[0].view("y")), Matrix<double>(2, 3, {21, 43, 65, 42, 86, 130}));
  }
}

TEST(OnnxRuntime, DamagedModelsAndWrongInputsAreErrors) {
  if (libraries().empty()) GTEST_SKIP() << "no ONNX Runtime; tools/get-runtime fetches one";
  const auto runtime = OnnxRuntime::open(libraries().front());
  std::vector<std::byte> bytes = layer();
  bytes.resize(bytes.size() / 2);
  EXPECT_THROW(OnnxSession(runtime, bytes, {}, "half"), Error);
  const OnnxSession session(runtime, layer(), {}, "layer");
  const std::vector<float> x{1, 2, 3};
  const OnnxSession::Input input{"x", {DType::f32, {1, 3}, std::as_bytes(std::span(x)), "x"}};
  EXPECT_THROW((void)session.run(std::span(&input, 1), std::vector<std::string>{"y"}), Error);
}

TEST(OnnxRuntime, SaysHowToGetIt) {
  try {
    (void)OnnxRuntime::open("/nonexistent/libonnxruntime.so");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing);
    EXPECT_NE(std::string(error.what()).find("oubli get-runtime"), std::string::npos);
  }
}

}  // namespace
}  // namespace oubli
