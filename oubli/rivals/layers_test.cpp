#include "oubli/rivals/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oubli/base/error.h"
#include "oubli/nn/reference.h"
#include "oubli/rivals/dampening.h"
#include "oubli/rivals/test_request.h"

namespace oubli {
namespace {

using Eigen::Index;
namespace reference = nn::reference;

class Layers : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static const TestRequest& request() {
    return GetParam() ? convolution_request() : test_request();
  }
  // Loss of each image by the plain double-precision pass.
  [[nodiscard]] static Eigen::VectorXd losses(const reference::Weights& weights,
                                              std::span<const std::size_t> images) {
    const ImageSet& set = request().train;
    const reference::Forward forward(request().spec, weights, false);
    Eigen::VectorXd result(eigen_index(images.size()));
    for (std::size_t i = 0; i < images.size(); ++i) {
      reference::Images image(1, set.channels, set.height, set.width);
      for (std::size_t p = 0; p < set.image_size(); ++p)
        image.values[p] = static_cast<double>(set.image(images[i])[p]) / 255;
      result(eigen_index(i)) = forward.loss(image, {set.labels[images[i]]});
    }
    return result;
  }
  [[nodiscard]] static reference::Weights reference_weights() {
    reference::Weights weights;
    for (const nn::Parameter& p : request().network.parameters())
      weights[p.name] = std::vector<double>(p.values.begin(), p.values.end());
    return weights;
  }
  // Calls `compare` with the place of some weights of all layers, biases among them, and the slope
  // of each image's loss along them.
  template <typename Compare>
  static void along_weights(std::span<const std::size_t> images, const Compare& compare) {
    reference::Weights weights = reference_weights();
    const LayerWeights layers = layer_weights(request().network);
    const std::vector<nn::Parameter>& parameters = request().network.parameters();
    for (std::size_t l = 0; l < layers.size(); ++l)
      for (Index at = 0; at < layers[l].size(); at += 7) {
        const Index row = at / layers[l].cols(), column = at % layers[l].cols();
        const bool bias = column + 1 == layers[l].cols();
        double& value =
            weights.at(parameters[2 * l + (bias ? 1 : 0)].name)[static_cast<std::size_t>(
                bias ? row : row * (layers[l].cols() - 1) + column)];
        const double old = value;
        value = old + 1e-6;
        const Eigen::VectorXd up = losses(weights, images);
        value = old - 1e-6;
        compare(l, row, column, (up - losses(weights, images)) / 2e-6);
        value = old;
      }
  }
};
INSTANTIATE_TEST_SUITE_P(Networks, Layers, ::testing::Bool(), [](const auto& convolutions) {
  return convolutions.param ? "Convolutions" : "Dense";
});

const std::vector<std::size_t> kImages{0, 1, 2, 3, 4, 5, 6};

TEST_P(Layers, WeightsComeBackAsTheyWere) {
  const nn::Network& network = request().network;
  EXPECT_EQ(with_weights(network, layer_weights(network)).parameters(), network.parameters());
}

// Inputs times weights must be what the next layer starts from: the head's are the logits.
TEST_P(Layers, InputsOfTheHeadGiveTheLogits) {
  const nn::Network& network = request().network;
  const LayerWeights weights = layer_weights(network);
  const RowMajorMatrix wanted = to_double(network.logits(select_images(request().train, kImages)));
  visit_layers(network, request().train, kImages, {}, [&](const LayerBatch& batch) {
    EXPECT_EQ(batch.inputs.cols(), weights[batch.layer].cols());
    EXPECT_EQ(batch.inputs.rows(), 7 * batch.positions);
    EXPECT_EQ(batch.deltas.size(), 0);
    if (batch.layer + 1 < weights.size()) return;
    EXPECT_LT((batch.inputs * weights.back().transpose() - wanted).norm(), 1e-4);
  });
}

// In float, an image's gradients are exact to about 1e-6 of the largest; differences in double with
// a step of 1e-6 to 1e-9, and seldom cross the kink of a relu.
TEST_P(Layers, GradientsAndImportancesAgreeWithDifferences) {
  const nn::Network& network = request().network;
  const auto sums = layer_sums(network, request().train, kImages, loss_gradient(request().train));
  const auto squares = importances(network, request().train, kImages);
  std::size_t compared = 0;
  along_weights(
      kImages, [&](std::size_t l, Index row, Index column, const Eigen::VectorXd& slopes) {
        EXPECT_NEAR(sums[l].gradient(row, column), slopes.sum(), 2e-5) << l << ' ' << row << column;
        EXPECT_NEAR(eigen(squares[l].view())(row, column), slopes.squaredNorm() / 7, 2e-5)
            << l << ' ' << row << ' ' << column;
        ++compared;
      });
  EXPECT_GE(compared, 50U);
}

// A convolution of 3 x 3 images by 2 x 2, its four positions written out; relu; the head.
TEST(LayerSums, OfAConvolutionAreThoseOfItsPatches) {
  const nn::NetworkSpec spec{.name = "one",
                             .channels = 2,
                             .height = 3,
                             .width = 3,
                             .classes = 2,
                             .layers = {nn::conv(3, 2), nn::LayerSpec{}}};
  const nn::Network network(spec, 5, 1);
  ImageSet set{.name = "noise",
               .channels = 2,
               .height = 3,
               .width = 3,
               .pixels = {},
               .labels = {0, 1, 1, 0},
               .class_names = {"a", "b"}};
  RandomStream random(3, task_id("noise"));
  for (int i = 0; i < 4 * 18; ++i)
    set.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  const std::vector<std::size_t> images{2, 0, 3, 1};
  const auto sums = layer_sums(network, set, images, loss_gradient(set));
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].positions, 4);

  const LayerWeights weights = layer_weights(network);
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(9, 9), g = Eigen::MatrixXd::Zero(3, 3);
  for (const std::size_t image : images) {
    Eigen::MatrixXd patches(4, 9), features(4, 3);
    for (Index t = 0; t < 4; ++t) {
      for (Index i = 0; i < 8; ++i) {
        const Index channel = i / 4, y = t / 2 + i % 4 / 2, x = t % 2 + i % 2;
        patches(t, i) = static_cast<double>(
                            set.image(image)[static_cast<std::size_t>(channel * 9 + y * 3 + x)]) /
                        255;
      }
      patches(t, 8) = 1;
    }
    features = (patches * weights[0].transpose()).cwiseMax(0.0);
    Eigen::RowVectorXd input(13);  // the head's: filters, then positions, then 1
    for (Index f = 0; f < 3; ++f)
      for (Index t = 0; t < 4; ++t) input(f * 4 + t) = features(t, f);
    input(12) = 1;
    const RowMajorMatrix logits = input * weights[1].transpose();
    const std::vector<std::size_t> label{set.labels[image]};
    const Eigen::RowVectorXd back = loss_gradient(logits, label) * weights[1];
    Eigen::MatrixXd deltas(4, 3);
    for (Index f = 0; f < 3; ++f)
      for (Index t = 0; t < 4; ++t) deltas(t, f) = features(t, f) > 0 ? back(f * 4 + t) : 0;
    a += patches.transpose() * patches;
    g += deltas.transpose() * deltas;
  }
  EXPECT_LT((sums[0].inputs - a).norm(), 1e-5 * a.norm());
  EXPECT_LT((sums[0].deltas - g).norm(), 1e-5 * g.norm());
}

TEST(LayerSums, DoNotDependOnBatches) {
  const TestRequest& request = convolution_request();
  std::vector<std::size_t> images;
  for (std::size_t i = 0; i < 300; ++i) images.push_back(i);
  const auto all = layer_sums(request.network, request.train, images, {});
  Eigen::MatrixXd sum = Eigen::MatrixXd::Zero(all[1].inputs.rows(), all[1].inputs.cols());
  for (std::size_t i = 0; i < 300; i += 50)
    sum +=
        layer_sums(request.network, request.train, std::span(images).subspan(i, 50), {})[1].inputs;
  EXPECT_LT((all[1].inputs - sum).norm(), 1e-5 * sum.norm());
}

TEST(LayersOf, BatchNormalisationAreRefused) {
  const nn::Network network(nn::residual_network(), 1, 1);
  EXPECT_THROW((void)layer_weights(network), Error);
}

}  // namespace
}  // namespace oubli
