// The networks that oubli trains, run by ONNX Runtime from the files it writes.
#include <gtest/gtest.h>

#include <filesystem>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/random.h"
#include "oubli/data/load.h"
#include "oubli/nn/network_file.h"
#include "oubli/nn/train.h"
#include "oubli/runtime/model_runner.h"
#include "oubli/runtime/onnx_runtime.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

TEST(TrainedNetwork, OnnxRuntimeAgrees) {
  const fs::path path = fs::path(testing::TempDir()) / "trained-network.onnx";
  std::shared_ptr<const OnnxRuntime> runtime;
  try {
    runtime = OnnxRuntime::open();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  struct Case {
    NetworkSpec spec;
    std::string data;
    std::size_t images;
  };
  for (const Case& c :
       {Case{mlp_network(), "fashion-mnist", 10000}, Case{cnn_network(64), "cifar10", 500},
        Case{residual_network(), "att-faces", 40}}) {
    // trained a little on noise, so that running statistics are not their starting values
    RandomStream random(1, task_id("noise"));
    ImageSet set{.name = "noise",
                 .channels = c.spec.channels,
                 .height = c.spec.height,
                 .width = c.spec.width,
                 .pixels = {},
                 .labels = {},
                 .class_names = {}};
    const bool real = fs::is_directory(data_folder() / c.data);
    if (real) set = load_data_set(c.data, Split::test);
    std::vector<std::size_t> some;
    for (std::size_t i = 0; i < std::min(c.images, set.size()); ++i) some.push_back(i);
    if (real) set = select_images(set, some);
    if (!real) {
      for (std::size_t i = 0; i < c.spec.classes; ++i) set.class_names.push_back(std::to_string(i));
      for (std::size_t i = 0; i < 40; ++i)
        set.labels.push_back(static_cast<std::uint32_t>(i % c.spec.classes));
      for (std::size_t i = 0; i < 40 * set.image_size(); ++i)
        set.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
    }
    TrainOptions options;
    options.epochs = 1;
    options.batch = 8;
    const Network network = train(c.spec, set, options);
    save_network(network, set.class_names, path);
    const Matrix<float> ours = network.logits(set);
    std::vector<float> images(set.pixels.size());
    for (std::size_t i = 0; i < images.size(); ++i)
      images[i] = static_cast<float>(set.pixels[i]) / 255.0F;
    const std::string file = read_text_file(path);
    const OnnxSession session(runtime, as_bytes(file), path.parent_path(), path.string());
    const std::vector<OnnxSession::Input> inputs = {
        {"image",
         {DType::f32,
          {set.size(), c.spec.channels, c.spec.height, c.spec.width},
          std::as_bytes(std::span(images)),
          "image"}}};
    const std::vector<std::string> outputs = {"logits"};
    const std::vector<Tensor> theirs = session.run(inputs, outputs);
    std::vector<float> values(ours.flat().size());
    decode(DType::f32, theirs[0].bytes, std::span(values));
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(ours.flat()[i], values[i], 1e-4F) << c.spec.name << " " << i;
  }
  fs::remove(path);
}

// Without ONNX Runtime: the same figures from oubli/nn, for the files that oubli writes.
TEST(TrainedNetwork, RunsWithoutOnnxRuntime) {
  const fs::path path = fs::path(testing::TempDir()) / "built-in-network.onnx";
  const Network network(mlp_network(), 3, 0);
  std::vector<std::string> names;
  for (std::size_t j = 0; j < network.classes(); ++j) names.push_back(std::to_string(j));
  save_network(network, names, path);
  const OnnxModel model(path);
  RandomStream random(2, task_id("pixels"));
  std::vector<Sample> samples(70);  // more than one batch
  Matrix<float> images(samples.size(), network.image_size());
  for (std::size_t n = 0; n < samples.size(); ++n) {
    samples[n] = {.image = true,
                  .height = 28,
                  .width = 28,
                  .channels = 1,
                  .pixels = {},
                  .array = {},
                  .what = "noise"};
    for (float& pixel : images.row(n)) {
      samples[n].pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
      pixel = static_cast<float>(samples[n].pixels.back()) / 255.0F;
    }
  }
  const ModelRunner runner(nullptr, model, {}, samples.front());
  const ModelRunner::Batch batch = runner.run(samples);
  const Matrix<float> logits = network.logits(images);
  ASSERT_EQ(batch.logits.rows(), samples.size());
  for (std::size_t i = 0; i < logits.flat().size(); ++i)  // pixels / 255 against pixels x (1/255)
    EXPECT_NEAR(batch.logits.flat()[i], logits.flat()[i], 1e-4F);
  EXPECT_LE(head_mismatch(model.head(), batch), 1);
  EXPECT_EQ(describe_runtime(nullptr), "built in (oubli/nn)");
  // A runtime that was asked for is never passed over.
  EXPECT_THROW((void)runtime_for(model, fs::path("/nonexistent/libonnxruntime.so")), Error);
}

}  // namespace
}  // namespace oubli
