// Steps of the optimizers, and of batch normalisation's running statistics, against their formulas
// in double precision.
#include "oubli/nn/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "oubli/base/random.h"
#include "oubli/nn/kernels.h"

namespace oubli::nn {
namespace {

constexpr std::size_t kSteps = 40;

// A head of 3 x 5 weights and 3 biases, and gradients for it.
class Steps : public testing::Test {
 protected:
  Steps() {
    for (const Parameter& p : graph.parameters) {
      std::size_t count = 1;
      for (const std::size_t size : p.shape) count *= size;
      store.emplace_back(count);
      for (float& v : store.back().span()) v = static_cast<float>(random.normal());
      values.emplace_back(store.back().span().begin(), store.back().span().end());
    }
  }

  // Takes steps with gradients of those sizes, per parameter; rule(parameter, element, gradient,
  // step) does the same to `values`.
  template <typename Rule>
  void compare(const Optimizer& optimizer, const std::vector<double>& sizes, const Rule& rule) {
    Updater updater(optimizer, graph, store);
    for (std::size_t step = 1; step <= kSteps; ++step) {
      updater.begin_step();
      for (std::size_t p = 0; p < store.size(); ++p) {
        std::vector<float> gradient(store[p].size());
        for (float& g : gradient) g = static_cast<float>(sizes[p] * random.normal());
        // in two pieces, as dense layers hand them over
        const std::size_t half = gradient.size() / 2;
        updater.take(p, 0, std::span(gradient).first(half));
        updater.take(p, half, std::span(gradient).subspan(half));
        for (std::size_t i = 0; i < gradient.size(); ++i)
          rule(p, i, static_cast<double>(gradient[i]), step);
      }
    }
    EXPECT_EQ(updater.steps(), kSteps);
    // values are of order 1 and every step rounds a few times
    for (std::size_t p = 0; p < store.size(); ++p)
      for (std::size_t i = 0; i < values[p].size(); ++i)
        EXPECT_NEAR(static_cast<double>(store[p].data()[i]), values[p][i], kSteps * 4 * 0x1p-24 * 4)
            << p << ", " << i;
  }

  RandomStream random{3, task_id("optimizer test")};
  Graph graph = compile({.name = "head", .channels = 5, .classes = 3, .layers = {}});
  ParameterStore store;
  std::vector<std::vector<double>> values;
};

// [Kingma, Ba 2015], end of section 2, which is Keras' form: epsilon beside the uncorrected root.
TEST_F(Steps, AdamIsKeras) {
  const Optimizer optimizer;
  EXPECT_EQ(optimizer.learning_rate, 1e-3);
  EXPECT_EQ(optimizer.epsilon, 1e-7);
  std::vector<std::vector<double>> first{std::vector<double>(15), std::vector<double>(3)};
  std::vector<std::vector<double>> second = first;
  // so small for the biases that epsilon matters
  compare(optimizer, {1, 1e-6}, [&](std::size_t p, std::size_t i, double g, std::size_t step) {
    double& m = first[p][i];
    double& v = second[p][i];
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const auto t = static_cast<double>(step);
    values[p][i] -= 1e-3 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)) * m /
                    (std::sqrt(v) + 1e-7);
  });
}

TEST_F(Steps, SgdDecaysWeightsAndNotBiases) {
  Optimizer optimizer;
  optimizer.kind = Optimizer::Kind::sgd;
  optimizer.learning_rate = 0.02;
  optimizer.momentum = 0.8;
  optimizer.weight_decay = 0.3;
  std::vector<std::vector<double>> velocity{std::vector<double>(15), std::vector<double>(3)};
  compare(optimizer, {1, 1}, [&](std::size_t p, std::size_t i, double g, std::size_t) {
    double& m = velocity[p][i];
    m = 0.8 * m - 0.02 * (g + (p == 0 ? 0.3 * values[p][i] : 0.0));
    values[p][i] += m;
  });
}

TEST(BatchNorm, RunningStatisticsFollowAsInKeras) {
  constexpr std::size_t kRows = 24;
  constexpr std::size_t kChannels = 5;
  RandomStream random(4, task_id("running statistics"));
  const std::vector<float> ones(kChannels, 1.0F);
  const std::vector<float> zeros(kChannels, 0.0F);
  std::vector<float> mean(kChannels, 0.0F);
  std::vector<float> variance(kChannels, 1.0F);
  std::vector<double> expected_mean(kChannels, 0.0);
  std::vector<double> expected_variance(kChannels, 1.0);
  for (std::size_t step = 0; step < kSteps; ++step) {
    std::vector<float> input(kRows * kChannels);
    for (std::size_t i = 0; i < input.size(); ++i)
      input[i] = static_cast<float>(2 * random.normal() + static_cast<double>(i % kChannels));
    std::vector<float> batch_mean(kChannels);
    std::vector<float> inverse(kChannels);
    std::vector<float> output(input.size());
    kernels::batch_norm({.rows = kRows, .channels = kChannels}, input.data(), ones.data(),
                        zeros.data(), mean.data(), variance.data(), batch_mean.data(),
                        inverse.data(), output.data());
    for (std::size_t c = 0; c < kChannels; ++c) {
      double sum = 0;
      for (std::size_t r = 0; r < kRows; ++r) sum += static_cast<double>(input[r * kChannels + c]);
      double squares = 0;
      for (std::size_t r = 0; r < kRows; ++r)
        squares += std::pow(static_cast<double>(input[r * kChannels + c]) - sum / kRows, 2);
      expected_mean[c] = 0.99 * expected_mean[c] + 0.01 * sum / kRows;
      expected_variance[c] = 0.99 * expected_variance[c] + 0.01 * squares / (kRows - 1);
    }
  }
  for (std::size_t c = 0; c < kChannels; ++c) {
    EXPECT_NEAR(static_cast<double>(mean[c]), expected_mean[c], 1e-5);
    EXPECT_NEAR(static_cast<double>(variance[c]), expected_variance[c], 1e-5);
  }
}

}  // namespace
}  // namespace oubli::nn
