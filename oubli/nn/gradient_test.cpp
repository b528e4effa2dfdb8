// Every layer, and networks of them, against a plain double-precision forward pass: logits
// directly, gradients by central differences of its loss.
#include <gtest/gtest.h>

#include <cmath>

#include "oubli/base/random.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/gradient_collector.h"
#include "oubli/nn/images.h"
#include "oubli/nn/kernels.h"
#include "oubli/nn/reference.h"

namespace oubli::nn {
namespace {

LayerSpec plain(LayerKind kind) {
  LayerSpec layer;
  layer.kind = kind;
  return layer;
}

const LayerSpec kRelu = plain(LayerKind::relu);
const LayerSpec kSigmoid = plain(LayerKind::sigmoid);
const LayerSpec kNorm = plain(LayerKind::batch_norm);

const LayerSpec kOverlapping = [] {
  LayerSpec layer = max_pool(3);
  layer.stride = 2;
  return layer;
}();

LayerSpec residual(std::vector<LayerSpec> branch, std::vector<LayerSpec> shortcut) {
  LayerSpec layer = plain(LayerKind::residual);
  layer.branch = std::move(branch);
  layer.shortcut = std::move(shortcut);
  return layer;
}

struct Case {
  std::string name;
  std::size_t channels, height, width, batch;
  std::vector<LayerSpec> layers;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

// A network with all parameters away from their special starting values, images and labels.
struct Problem {
  explicit Problem(const Case& c)
      : spec{.name = c.name,
             .channels = c.channels,
             .height = c.height,
             .width = c.width,
             .classes = 5,
             .layers = c.layers},
        parameters(Network(spec, 7, 1).parameters()),
        images(c.batch, c.channels * c.height * c.width) {
    RandomStream random(7, task_id("gradient test"));
    for (Parameter& p : parameters)
      for (float& v : p.values) {
        if (p.role == Parameter::Role::running_variance)
          v = static_cast<float>(0.5 + random.uniform());
        else if (p.role != Parameter::Role::weight)
          v += static_cast<float>(0.3 * random.normal());
      }
    for (float& v : images.flat()) v = static_cast<float>(random.uniform());
    for (std::size_t i = 0; i < c.batch; ++i)
      labels.push_back(static_cast<std::uint32_t>(random.below(spec.classes)));
  }

  [[nodiscard]] reference::Weights weights() const {
    reference::Weights result;
    for (const Parameter& p : parameters)
      result[p.name] = std::vector<double>(p.values.begin(), p.values.end());
    return result;
  }
  [[nodiscard]] reference::Images reference_images() const {
    reference::Images result(images.rows(), spec.channels, spec.height, spec.width);
    std::ranges::copy(images.flat(), result.values.begin());
    return result;
  }

  NetworkSpec spec;
  std::vector<Parameter> parameters;
  Matrix<float> images;
  std::vector<std::uint32_t> labels;
};

class LayerGradient : public testing::TestWithParam<Case> {};

TEST_P(LayerGradient, AgreesWithDifferences) {
  const Problem problem(GetParam());
  const NetworkSpec& spec = problem.spec;
  const SingleThread single;
  const Graph graph = compile(spec);
  const std::size_t batch = problem.images.rows();
  Executor executor(graph, batch, Executor::Mode::training_inputs);
  for (const std::string& kernel : executor.kernels()) EXPECT_EQ(kernel.find("ref"), kernel.npos);
  ParameterStore store = executor.import_parameters(problem.parameters);
  const Shape shape{spec.channels, spec.height, spec.width, false};
  for (std::size_t i = 0; i < batch; ++i)
    to_channels_last(shape, problem.images.row(i), executor.input().data() + i * shape.size());
  executor.prepare(store);
  executor.forward(store);

  reference::Weights weights = problem.weights();
  reference::Images images = problem.reference_images();
  const reference::Forward forward(spec, weights, true);
  const reference::Images expected = forward.logits(images);
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    ASSERT_NEAR(static_cast<double>(executor.logits()[i]), expected.values[i], 2e-5) << i;

  const double loss = kernels::cross_entropy(executor.logits(), spec.classes, problem.labels,
                                             executor.logits_gradient().data());
  EXPECT_NEAR(loss, forward.loss(images, problem.labels), 1e-5);
  GradientCollector collector(store);
  executor.backward(store, &collector);
  const std::vector<Parameter> gradients = executor.export_parameters(collector.gradients());
  Matrix<float> image_gradient(batch, shape.size());
  to_channels_first(shape, batch, executor.input_gradient().data(), image_gradient.data());

  // Difference of the reference's loss along random elements, far more precise than a float pass
  // could give: step 1e-6 leaves about 1e-10 of rounding, and seldom crosses the kink of a relu.
  RandomStream random(8, task_id("elements"));
  constexpr double kStep = 1e-6;
  const auto check = [&](std::vector<double>& values, std::span<const float> gradient,
                         const std::string& name) {
    double scale = 0;
    for (const float g : gradient) scale = std::max(scale, std::abs(static_cast<double>(g)));
    for (int trial = 0; trial < 6; ++trial) {
      const std::size_t i = random.below(values.size());
      const double value = values[i];
      values[i] = value + kStep;
      const double up = forward.loss(images, problem.labels);
      values[i] = value - kStep;
      const double down = forward.loss(images, problem.labels);
      values[i] = value;
      EXPECT_NEAR(static_cast<double>(gradient[i]), (up - down) / (2 * kStep), 1e-4 * scale + 2e-6)
          << name << " element " << i;
    }
  };
  for (std::size_t p = 0; p < gradients.size(); ++p)
    if (gradients[p].trained())
      check(weights[gradients[p].name], gradients[p].values, gradients[p].name);
  check(images.values, image_gradient.flat(), "images");
}

// Network runs batch normalisation folded into the layer before it, or by running statistics.
TEST_P(LayerGradient, InferenceAgreesWithReference) {
  const Problem problem(GetParam());
  const Network network(problem.spec, problem.parameters);
  reference::Weights weights = problem.weights();
  reference::Images images = problem.reference_images();
  const reference::Forward forward(problem.spec, weights, false);
  const Matrix<float> logits = network.logits(problem.images);
  const reference::Images expected = forward.logits(images);
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    ASSERT_NEAR(static_cast<double>(logits.flat()[i]), expected.values[i], 2e-5) << i;
  const Matrix<float> features = network.features(problem.images);
  const reference::Images expected_features = forward.features(images);
  for (std::size_t i = 0; i < expected_features.values.size(); ++i)
    ASSERT_NEAR(static_cast<double>(features.flat()[i]), expected_features.values[i], 2e-5) << i;

  RandomStream random(9, task_id("dlogits"));
  Matrix<float> dlogits(logits.rows(), logits.cols());
  for (float& d : dlogits.flat()) d = static_cast<float>(random.normal());
  const Matrix<float> gradient = network.input_gradient(problem.images, dlogits);
  const auto objective = [&] {
    const reference::Images z = forward.logits(images);
    double sum = 0;
    for (std::size_t i = 0; i < z.values.size(); ++i)
      sum += z.values[i] * static_cast<double>(dlogits.flat()[i]);
    return sum;
  };
  double scale = 0;
  for (const float g : gradient.flat()) scale = std::max(scale, std::abs(static_cast<double>(g)));
  for (int trial = 0; trial < 6; ++trial) {
    const std::size_t i = random.below(images.values.size());
    const double value = images.values[i];
    images.values[i] = value + 1e-6;
    const double up = objective();
    images.values[i] = value - 1e-6;
    const double down = objective();
    images.values[i] = value;
    EXPECT_NEAR(static_cast<double>(gradient.flat()[i]), (up - down) / 2e-6, 1e-4 * scale + 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, LayerGradient,
    testing::Values(
        Case{"HeadOnly", 3, 1, 1, 4, {}}, Case{"HeadOnImage", 3, 4, 5, 3, {}},
        Case{"Dense", 7, 1, 1, 4, {dense(9)}}, Case{"DenseRelu", 2, 3, 3, 5, {dense(20), kRelu}},
        Case{"LargePanels", 3, 24, 24, 2, {dense(45), kRelu, dense(33)}},
        Case{"Sigmoid", 5, 1, 1, 4, {dense(8), kSigmoid, dense(6), kSigmoid}},
        Case{"SigmoidFirst", 5, 2, 1, 4, {kSigmoid}}, Case{"ReluFirst", 5, 2, 1, 4, {kRelu, kRelu}},
        Case{"ConvValid", 3, 8, 7, 4, {conv(6, 3)}},
        Case{"ConvSame", 2, 7, 6, 3, {conv(16, 3, 1, Padding::same), kRelu}},
        Case{"ConvEvenKernel", 3, 7, 6, 3, {conv(8, 4, 1, Padding::same)}},
        Case{"ConvStrideSame", 3, 9, 8, 3, {conv(16, 3, 2, Padding::same), kRelu}},
        Case{"ConvStrideWide", 1, 9, 8, 3, {conv(16, 2, 3, Padding::same), kRelu}},
        Case{"ConvStrideValid", 3, 9, 8, 3, {conv(16, 3, 2)}},
        Case{"ConvNoBias", 3, 6, 6, 2, {conv(8, 5, 1, Padding::same, false)}},
        Case{"MaxPool", 3, 8, 6, 3, {max_pool(2)}},
        Case{"MaxPoolRest", 3, 7, 9, 3, {conv(16, 3), kRelu, max_pool(2)}},
        Case{"MaxPoolLanesAndRest", 3, 8, 9, 3, {conv(19, 3), max_pool(2)}},
        Case{"MaxPoolWide", 3, 9, 8, 3, {conv(8, 3), kRelu, max_pool(3)}},
        Case{"MaxPoolAdded", 3, 6, 7, 3, {conv(16, 3), residual({max_pool(2)}, {conv(16, 2, 2)})}},
        Case{"MaxPoolOverlapping", 4, 7, 9, 3, {conv(8, 3), kRelu, kOverlapping}},
        Case{"GlobalMax", 3, 6, 5, 4, {conv(8, 3), plain(LayerKind::global_max_pool)}},
        Case{"GlobalAverage", 3, 6, 5, 4, {conv(8, 3), plain(LayerKind::global_average_pool)}},
        Case{"NormFirst", 3, 5, 4, 6, {kNorm}},
        Case{"NormDense", 6, 1, 1, 8, {dense(7), kNorm, kRelu}},
        Case{"NormConv", 3, 6, 6, 4, {conv(8, 3, 1, Padding::same, false), kNorm, kRelu, kNorm}},
        Case{"ResidualIdentity",
             8,
             5,
             5,
             3,
             {residual({conv(8, 3, 1, Padding::same), kRelu}, {}), kRelu}},
        Case{"ResidualReluFirst",
             8,
             5,
             5,
             3,
             {conv(8, 3, 1, Padding::same), residual({kRelu, conv(8, 1)}, {}), kSigmoid}},
        Case{"ResidualProjection",
             2,
             9,
             7,
             4,
             {conv(8, 5, 1, Padding::same, false), kNorm, kRelu,
              residual({conv(16, 3, 2, Padding::same, false), kNorm, kRelu,
                        conv(16, 3, 1, Padding::same, false), kNorm, kRelu},
                       {conv(16, 3, 2, Padding::same, false), kNorm}),
              kRelu,
              residual({conv(32, 3, 2, Padding::same, false), kNorm, kRelu,
                        conv(32, 3, 1, Padding::same, false), kNorm, kRelu},
                       {conv(32, 3, 2, Padding::same, false), kNorm}),
              kRelu, plain(LayerKind::global_max_pool)}},
        Case{"Blocks",
             3,
             11,
             9,
             3,
             {conv(16, 3, 1, Padding::same), kRelu, conv(32, 3, 1, Padding::same), kRelu,
              conv(48, 2, 1), kRelu, max_pool(2), conv(32, 3, 1, Padding::same), kSigmoid,
              plain(LayerKind::global_average_pool)}},
        Case{"BlocksToDense",
             16,
             6,
             5,
             3,
             {conv(32, 3, 1, Padding::same), kRelu, conv(64, 3, 1), kRelu, dense(7)}},
        Case{"BlocksToImage",
             16,
             6,
             5,
             3,
             {conv(32, 3), residual({conv(32, 3, 1, Padding::same)}, {})}},
        Case{"BlocksToNorm",
             16,
             9,
             10,
             3,
             {conv(32, 3, 1, Padding::same), kRelu,
              residual({conv(32, 3, 1, Padding::same), kRelu}, {conv(32, 1)}), kNorm, kRelu,
              conv(16, 3, 1, Padding::same), plain(LayerKind::global_max_pool)}},
        Case{"BlocksTwice",
             16,
             9,
             10,
             3,
             {conv(32, 3, 1, Padding::same), kRelu,
              residual({residual({conv(32, 3, 1, Padding::same), kRelu}, {}), kRelu,
                        conv(32, 3, 1, Padding::same)},
                       {}),
              residual({kRelu, conv(64, 3, 2, Padding::same)}, {conv(64, 1, 2, Padding::same)}),
              kRelu, conv(64, 3, 1, Padding::same), plain(LayerKind::global_max_pool)}},
        Case{"SmallCnn",
             3,
             18,
             18,
             4,
             {conv(16, 3), kRelu, max_pool(2), conv(32, 3), kRelu, max_pool(2), dense(24), kRelu}}),
    [](const auto& test) { return test.param.name; });

// Whole networks as they are trained: the loss falls along the gradient as fast as the gradient
// says. In single precision, hence the coarse tolerance; torch_test.cpp compares every element.
class WholeNetwork : public testing::TestWithParam<NetworkSpec> {};

TEST_P(WholeNetwork, LossFollowsTheGradient) {
  const NetworkSpec& spec = GetParam();
  const SingleThread single;
  const std::size_t batch = spec.name == "residual" ? 8 : 32;
  const Network network(spec, 3, 1);
  Executor executor(compile(spec), batch, Executor::Mode::training);
  ParameterStore store = executor.import_parameters(network.parameters());
  RandomStream random(4, task_id("whole network"));
  for (float& v : executor.input()) v = static_cast<float>(random.uniform());
  std::vector<std::uint32_t> labels(batch);
  for (std::uint32_t& label : labels)
    label = static_cast<std::uint32_t>(random.below(spec.classes));
  const auto loss = [&] {
    executor.prepare(store);
    executor.forward(store);
    return kernels::cross_entropy(executor.logits(), spec.classes, labels,
                                  executor.logits_gradient().data());
  };
  (void)loss();
  GradientCollector collector(store);
  executor.backward(store, &collector);
  for (std::size_t p = 0; p < store.size(); ++p) {
    if (!network.parameters()[p].trained()) continue;
    const Buffer& gradient = collector.gradients()[p];
    double square = 0;
    for (const float g : gradient.span()) square += static_cast<double>(g) * static_cast<double>(g);
    if (square < 1e-12) continue;
    // A step that changes the loss by about 5e-4, to first order: single precision gives three of
    // its digits, and few units are near enough to their kink to reach it.
    const double step = 2.5e-4 / square;
    const std::vector<float> before(store[p].span().begin(), store[p].span().end());
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < before.size(); ++i)
        store[p].data()[i] = static_cast<float>(static_cast<double>(before[i]) +
                                                by * static_cast<double>(gradient.data()[i]));
      return loss();
    };
    const double slope = (moved(step) - moved(-step)) / (2 * step);
    EXPECT_NEAR(slope / square, 1.0, 0.02) << network.parameters()[p].name;
    std::ranges::copy(before, store[p].data());
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, WholeNetwork,
                         testing::Values(mlp_network(), cnn_network(64), residual_network(),
                                         inversion_network()),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace oubli::nn
