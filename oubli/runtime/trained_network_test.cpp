// The networks that oubli trains, run by ONNX Runtime from the files it writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/random.h"
#include "oubli/data/load.h"
#include "oubli/nn/network_file.h"
#include "oubli/nn/noise_images.h"
#include "oubli/nn/train.h"
#include "oubli/runtime/model_runner.h"
#include "oubli/runtime/onnx_runtime.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

// The whole test set of `name`, or, where it is not installed, 40 images of noise.
ImageSet images_for(const std::string& name, const nn::NetworkSpec& spec) {
  if (fs::is_directory(data_folder() / name)) return load_data_set(name, Split::test);
  std::cout << name << " is not installed: compared on noise\n";
  return nn::noise_images(spec, 40);
}

// Logits of the file, `step` images at a time.
std::vector<float> logits_of(const OnnxSession& session, const ImageSet& set, std::size_t step) {
  std::vector<float> logits;
  for (std::size_t first = 0; first < set.size(); first += step) {
    const std::size_t count = std::min(step, set.size() - first);
    std::vector<float> images(count * set.image_size());
    for (std::size_t i = 0; i < images.size(); ++i)
      images[i] = static_cast<float>(set.pixels[first * set.image_size() + i]) / 255.0F;
    const std::vector<OnnxSession::Input> inputs = {{"image",
                                                     {DType::f32,
                                                      {count, set.channels, set.height, set.width},
                                                      std::as_bytes(std::span(images)),
                                                      "image"}}};
    const std::vector<std::string> outputs = {"logits"};
    const std::vector<Tensor> found = session.run(inputs, outputs);
    const std::size_t before = logits.size();
    logits.resize(before + found[0].bytes.size() / sizeof(float));
    decode(DType::f32, found[0].bytes, std::span(logits).subspan(before));
  }
  return logits;
}

// On every image of every test set: 10,000 of each but the faces, whose 400 are all there are.
TEST(TrainedNetwork, OnnxRuntimeAgreesOnTheWholeTestSet) {
  const fs::path path = fs::path(testing::TempDir()) / "trained-network.onnx";
  std::shared_ptr<const OnnxRuntime> runtime;
  try {
    runtime = OnnxRuntime::open();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  struct Case {
    nn::NetworkSpec spec;
    std::string data;
  };
  for (const Case& c :
       {Case{nn::mlp_network(), "mnist"}, Case{nn::mlp_network(), "fashion-mnist"},
        Case{nn::cnn_network(64), "cifar10"}, Case{nn::residual_network(), "faces"}}) {
    const ImageSet set = images_for(c.data, c.spec);
    // trained for one round, so that running statistics are not their starting values
    nn::TrainOptions options;
    options.epochs = 1;
    options.batch = 8;
    const nn::Network network = train(c.spec, set, options);
    nn::save_network(network, set.class_names, path);
    const Matrix<float> ours = network.logits(set);
    const std::string file = read_text_file(path);
    const OnnxSession session(runtime, as_bytes(file), path.parent_path(), path.string());
    const std::vector<float> theirs = logits_of(session, set, 100);
    ASSERT_EQ(theirs.size(), ours.flat().size());
    float worst = 0;
    for (std::size_t i = 0; i < theirs.size(); ++i)
      worst = std::max(worst, std::abs(ours.flat()[i] - theirs[i]));
    std::cout << c.data << ": " << set.size() << " images, largest difference " << worst << "\n";
    EXPECT_LE(worst, 1e-4F) << c.data;
  }
  fs::remove(path);
}

// Without ONNX Runtime: the same figures from oubli/nn, for the files that oubli writes.
TEST(TrainedNetwork, RunsWithoutOnnxRuntime) {
  const fs::path path = fs::path(testing::TempDir()) / "built-in-network.onnx";
  const nn::Network network(nn::mlp_network(), 3, 0);
  std::vector<std::string> names;
  for (std::size_t j = 0; j < network.classes(); ++j) names.push_back(std::to_string(j));
  nn::save_network(network, names, path);
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
  const ModelRunner runner(*built_in_engine(), model, {}, samples.front());
  const ModelOutputs batch = runner.run(samples);
  const Matrix<float> logits = network.logits(images);
  ASSERT_EQ(batch.logits.rows(), samples.size());
  for (std::size_t i = 0; i < logits.flat().size(); ++i)  // pixels / 255 against pixels x (1/255)
    EXPECT_NEAR(batch.logits.flat()[i], logits.flat()[i], 1e-4F);
  EXPECT_LE(head_mismatch(model.head(), batch), 1);
  EXPECT_EQ(built_in_engine()->describe(), "built in (oubli/nn)");
  // A runtime that was asked for is never passed over.
  EXPECT_THROW((void)engine_for(model, fs::path("/nonexistent/libonnxruntime.so")), Error);
}

}  // namespace
}  // namespace oubli
