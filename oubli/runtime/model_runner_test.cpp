#include "oubli/runtime/model_runner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "oubli/base/random.h"
#include "oubli/data/load.h"
#include "oubli/filtration/filtration.h"
#include "tests/test_paths.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<fs::path> libraries() {
  std::vector<fs::path> found;
  for (const char* name : {"small", "full"}) {
    const fs::path path = data_folder() / "runtime" / name / "libonnxruntime.so.1";
    if (fs::exists(path)) found.push_back(path);
  }
  return found;
}

Sample random_sample(const json& expected, RandomStream& random) {
  Sample sample;
  sample.what = "random";
  if (expected["image"]) {
    sample.image = true;
    sample.height = sample.width = 4;
    sample.channels = 3;
    for (int i = 0; i < 48; ++i)
      sample.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
    return sample;
  }
  std::vector<double> values(6);
  for (double& value : values) value = std::round(4 * random.normal());
  sample.array = to_tensor(values, DType::f32);
  return sample;
}

// Every model form in every runtime version: W f + b is what the model computes, before and after
// an edit, and the retained logits of an edit that only drops a class are the old ones.
TEST(ModelRunner, TheLayerIsWhatTheModelComputes) {
  if (libraries().empty()) GTEST_SKIP() << "no ONNX Runtime; tools/get-runtime fetches one";
  if (std::system("/usr/bin/python3 -c 'import onnx, numpy' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3-onnx is not installed";
  }
  const fs::path folder = fs::temp_directory_path() / ("oubli_runner_" + std::to_string(getpid()));
  const std::string command = "/usr/bin/python3 " + testing::source_folder() +
                              "/tests/onnx/make_models.py " + folder.string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(folder / "manifest.json");
  const json manifest = json::parse(file);
  const std::vector<std::size_t> retained{0, 2, 3, 4};
  std::size_t ran = 0;
  for (const fs::path& library : libraries()) {
    const auto runtime = OnnxRuntime::open(library);
    for (const auto& [name, expected] : manifest.items()) {
      if (!expected["ok"] || !expected["run"]) continue;
      SCOPED_TRACE(name + " in " + runtime->version());
      const OnnxModel model(folder / (name + ".onnx"));
      RandomStream random(1, task_id("runner"));
      std::vector<Sample> samples;
      for (int i = 0; i < 3; ++i) samples.push_back(random_sample(expected, random));
      const auto engine = onnx_runtime_engine(runtime);
      const ModelRunner runner(*engine, model, {}, samples.front());
      EXPECT_EQ(runner.as_float(), expected["kind"] == "bf16");
      const ModelOutputs before = runner.run(samples);
      EXPECT_LE(head_mismatch(model.head(), before), 1);
      // A wrong layer would be noticed.
      HeadView wrong = model.head();
      wrong.weight_scale *= 1.05;
      EXPECT_GT(head_mismatch(wrong, before), 1);

      const FiltrationPlan naive = plan_filtration(
          model.head(), std::nullopt, std::vector<std::size_t>{1}, {.method = Method::naive});
      const fs::path path = folder / "new.onnx";
      StagedModel staged = model.stage(naive.filter.apply(model.head()), retained, path, true);
      // Run from the temporaries, before anything has its final name.
      const auto& written = dynamic_cast<const OnnxModel&>(*staged.written);
      const ModelRunner after_runner(*engine, written, {}, samples.front());
      const ModelOutputs after = after_runner.run(samples);
      EXPECT_LE(head_mismatch(written.head(), after), 1);
      ASSERT_EQ(after.logits.cols(), 4U);
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
          EXPECT_NEAR(after.logits(i, j), before.logits(i, retained[j]),
                      1e-3F * (1 + std::abs(before.logits(i, retained[j]))));
        }
      }
      ++ran;
    }
  }
  EXPECT_GE(ran, 50 * libraries().size());

  // Three rows for each sample: the first n of 3 n rows would not be those of n samples.
  const OnnxModel several(folder / "rows_for_positions.onnx");
  std::vector<Sample> samples(2);
  for (Sample& sample : samples) {
    sample.array = to_tensor(std::vector<double>(18, 1), DType::f32);
    sample.array.shape = {3, 6};
  }
  const auto engine = onnx_runtime_engine(OnnxRuntime::open(libraries().front()));
  const ModelRunner runner(*engine, several, {}, samples.front());
  try {
    (void)runner.run(samples);
    ADD_FAILURE() << "took some of the rows";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unfilterable);
    EXPECT_NE(std::string(error.what()).find("6 rows for 2 inputs"), std::string::npos)
        << error.what();
  }
  fs::remove_all(folder);
}

// The smallest float16 times 0.4 is 0 in float16: no sign of a wrong layer.
TEST(ModelRunner, RoundingNearZeroIsAbsolute) {
  const double smallest = 0x1p-24;
  Tensor weights = to_tensor(std::vector<double>{smallest, 3 * smallest}, DType::f16);
  weights.shape = {2, 1};
  HeadView head;
  head.weights = weights.view("W");
  const ModelOutputs batch{Matrix<float>(1, 1, {0.4F}),
                           Matrix<float>(1, 2, {0, static_cast<float>(smallest)})};
  EXPECT_LE(head_mismatch(head, batch), 1);
  head.weight_scale = 8;
  EXPECT_GT(head_mismatch(head, batch), 1);
}

}  // namespace
}  // namespace oubli
