#include "oubli/nn/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/random.h"
#include "oubli/base/workers.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/network_file.h"
#include "oubli/nn/train.h"
#include "oubli/onnx/builder.h"

namespace oubli::nn {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Three classes of small images, each brightest in its own rows; far apart but for noise.
ImageSet striped_images(std::size_t count, std::size_t channels = 1) {
  ImageSet set{.name = "stripes",
               .channels = channels,
               .height = 12,
               .width = 10,
               .pixels = {},
               .labels = {},
               .class_names = {"top", "middle", "bottom"}};
  RandomStream random(3, task_id("stripes", {channels}));
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint32_t>(i % 3);
    set.labels.push_back(label);
    for (std::size_t p = 0; p < set.image_size(); ++p) {
      const std::size_t row = p % (set.height * set.width) / set.width;
      set.pixels.push_back(
          static_cast<std::uint8_t>(random.below(100) + (row / 4 == label ? 120 : 0)));
    }
  }
  return set;
}

NetworkSpec small_cnn(std::size_t channels, std::size_t classes) {
  LayerSpec relu;
  LayerSpec norm;
  norm.kind = LayerKind::batch_norm;
  return {
      .name = "small",
      .channels = channels,
      .height = 12,
      .width = 10,
      .classes = classes,
      .layers = {conv(8, 3, 1, Padding::same, false), norm, relu, max_pool(2), dense(16), relu}};
}

TEST(NetworkSpec, JsonRoundTrip) {
  for (const NetworkSpec& spec :
       {mlp_network(9), cnn_network(64), residual_network(), inversion_network()})
    EXPECT_EQ(network_from_json(to_json(spec), "test"), spec);
}

TEST(NetworkSpec, RefusesWhatDoesNotFit) {
  const auto message_of = [](const nlohmann::json& document) {
    try {
      (void)network_from_json(document, "net.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  nlohmann::json document = to_json(mlp_network());
  document["layers"] = {{{"kind", "conv"}, {"units", 4}, {"kernel", 29}}};
  EXPECT_THAT(message_of(document), HasSubstr("layers.0: the window is larger"));
  document["layers"] = {{{"kind", "dense"}, {"units", 4}}, {{"kind", "max_pool"}, {"kernel", 1}}};
  EXPECT_THAT(message_of(document), HasSubstr("layers.1"));
  document["layers"] = {{{"kind", "dens"}, {"units", 4}}};
  EXPECT_THAT(message_of(document), HasSubstr("'dens'"));
  document["layers"] = {{{"kind", "dense"}, {"unit", 4}}};
  EXPECT_THAT(message_of(document), HasSubstr("'unit'"));
  document["layers"] = {{{"kind", "residual"}, {"branch", {{{"kind", "dense"}, {"units", 3}}}}}};
  EXPECT_THAT(message_of(document), HasSubstr("the shortcut 1 x 28 x 28"));
  for (const double wrong : {2.5, -1.0, 1e30}) {
    document["layers"] = {{{"kind", "dense"}, {"units", wrong}}};
    EXPECT_THAT(message_of(document), HasSubstr("where a whole number from 0"));
    nlohmann::json input = to_json(mlp_network());
    input["input"][1] = wrong;
    EXPECT_THAT(message_of(input), HasSubstr("where a whole number from 0"));
  }
  document["version"] = 2;
  EXPECT_THAT(message_of(document), HasSubstr("version 2"));
}

TEST(Network, HasTheNetworksOfThePaper) {
  const auto count = [](const NetworkSpec& spec) {
    std::size_t sum = 0;
    const Network network(spec, 0, 0);
    for (const Parameter& p : network.parameters())
      if (p.trained()) sum += p.values.size();
    return sum;
  };
  EXPECT_EQ(count(mlp_network()), 784U * 50 + 50 + 50 * 10 + 10);
  // 32 -> 30 -> 15 -> 13 -> 6: 6 * 6 * 32 inputs of the dense layer
  EXPECT_EQ(count(cnn_network(64)), 16U * 27 + 16 + 32 * 144 + 32 + 1152 * 64 + 64 + 64 * 10 + 10);
  EXPECT_EQ(Network(residual_network(), 0, 0).feature_count(), 256U);
  EXPECT_EQ(Network(inversion_network(), 0, 0).image_size(), 56U * 46);
}

// No convolution may fall back to oneDNN's reference implementation, at any batch size in use:
// whole batches, what is left of 50,000, 45,000 and 360 images, inference, gradients of the input.
TEST(Network, UsesNoReferenceKernels) {
  const SingleThread single;
  using enum Executor::Mode;
  struct Use {
    std::size_t batch;
    Executor::Mode mode;
  };
  for (const NetworkSpec& spec : {cnn_network(64), residual_network()})
    for (const Use& use : {Use{32, training}, Use{16, training}, Use{8, training},
                           Use{24, inference}, Use{100, inference}, Use{8, inference},
                           Use{1, inference}, Use{1, input_gradient}, Use{8, input_gradient}})
      for (const std::string& kernel : Executor(compile(spec), use.batch, use.mode).kernels())
        EXPECT_EQ(kernel.find("ref"), std::string::npos)
            << spec.name << " batch " << use.batch << ": " << kernel;
}

TEST(Train, LearnsAndIsTheSameForAnyNumberOfWorkers) {
  const ImageSet set = striped_images(100, 2);  // not a multiple of the batch
  const NetworkSpec spec = small_cnn(2, 3);
  TrainOptions options{
      .epochs = 8, .batch = 16, .optimizer = {}, .seed = 5, .model = 0, .without = {}};
  options.optimizer.learning_rate = 0.01;
  const auto train_three = [&](unsigned workers) {
    std::vector<std::vector<Parameter>> result(3);
    run_tasks(3, workers, [&](std::size_t i, unsigned) {
      TrainOptions mine = options;
      mine.model = i;
      result[i] = train(spec, set, mine).parameters();
    });
    return result;
  };
  const auto one = train_three(1);
  EXPECT_EQ(one, train_three(3));
  EXPECT_NE(one[0], one[1]);
  const Network network(spec, one[0]);
  EXPECT_GE(score(network.logits(set), set.labels).accuracy, 0.97);
}

TEST(Train, SgdLearnsToo) {
  const ImageSet set = striped_images(99);
  TrainOptions options;
  options.epochs = 30;
  options.optimizer = {.kind = Optimizer::Kind::sgd, .learning_rate = 0.05, .weight_decay = 1e-3};
  const Network network = train(small_cnn(1, 3), set, options);
  EXPECT_GE(score(network.logits(set), set.labels).accuracy, 0.97);
}

TEST(Train, WithoutAClassNumbersTheRestAnew) {
  const ImageSet set = striped_images(120);
  TrainOptions options;
  options.epochs = 15;
  options.without = {1};
  const Network network = train(small_cnn(1, 2), set, options);
  const ImageSet rest = without_classes(set, options.without);
  EXPECT_GE(score(network.logits(rest), rest.labels).accuracy, 0.97);
  // exactly as if the images had been taken out beforehand
  TrainOptions plain = options;
  plain.without.clear();
  EXPECT_EQ(network.parameters(), train(small_cnn(1, 2), rest, plain).parameters());
  EXPECT_THROW((void)train(small_cnn(1, 3), set, options), Error);
}

TEST(Train, RefitKeepsTheFeatures) {
  const ImageSet set = striped_images(120);
  TrainOptions options;
  options.epochs = 15;
  const Network network = train(small_cnn(1, 3), set, options);
  options.without = {0};
  options.epochs = 60;
  options.optimizer.learning_rate = 0.01;
  const Network refit = refit_head(network, set, options);
  EXPECT_EQ(refit.classes(), 2U);
  EXPECT_EQ(refit.features(set), network.features(set));
  const ImageSet rest = without_classes(set, options.without);
  EXPECT_GE(score(refit.logits(rest), rest.labels).accuracy, 0.97);
}

TEST(Train, StopsWhenAsked) {
  std::stop_source source;
  TrainOptions options;
  options.epochs = 1000000;
  const ImageSet set = striped_images(33);
  try {
    (void)train(small_cnn(1, 3), set, options, source.get_token(), [&](const EpochReport& report) {
      if (report.epoch == 2) source.request_stop();
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::interrupted);
  }
}

TEST(Network, HeadCanBeReplaced) {
  const ImageSet set = striped_images(30);
  Network network(small_cnn(1, 3), 1, 1);
  const Matrix<float> before = network.logits(set);
  const auto head = network.head_weights();
  // without the second class
  Matrix<float> weights(2, head.cols());
  std::ranges::copy(head.row(0), weights.row(0).begin());
  std::ranges::copy(head.row(2), weights.row(1).begin());
  const std::vector<float> bias = {network.head_bias()[0], network.head_bias()[2]};
  network.set_head(weights, bias);
  const Matrix<float> after = network.logits(set);
  for (std::size_t i = 0; i < set.size(); ++i) {
    EXPECT_NEAR(after(i, 0), before(i, 0), 1e-6);
    EXPECT_NEAR(after(i, 1), before(i, 2), 1e-6);
  }
}

class NetworkFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(testing::TempDir()) /
            (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".onnx");
    fs::remove(path_);
  }
  void TearDown() override { fs::remove(path_); }
  fs::path path_;
};

TEST_F(NetworkFileTest, RoundTrip) {
  const std::vector<std::string> names = {"top", "mid\"dle", "bottom"};
  const Network network(small_cnn(2, 3), 4, 2);
  save_network(network, names, path_);
  const NamedNetwork read = load_network(path_);
  EXPECT_EQ(read.network.spec(), network.spec());
  EXPECT_EQ(read.network.parameters(), network.parameters());
  EXPECT_EQ(read.class_names, names);
  EXPECT_THROW(save_network(network, names, path_, false), Error);
}

TEST_F(NetworkFileTest, RefusesAChangedGraphAndForeignModels) {
  const Network network(small_cnn(2, 3), 4, 2);
  save_network(network, {"a", "b", "c"}, path_);
  std::string bytes = read_text_file(path_);
  const std::size_t at = bytes.find("Relu");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 4, "Tanh");
  write_file(path_, bytes);
  try {
    (void)load_network(path_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("changed since it was written"));
  }
  onnx::ModelBuilder builder("other");
  builder.save(path_);
  EXPECT_THROW((void)load_network(path_), Error);
}

}  // namespace
}  // namespace oubli::nn
