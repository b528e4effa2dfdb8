#include "oubli/nn/dense.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "oubli/base/random.h"
#include "oubli/nn/convolution.h"

namespace oubli::nn {
namespace {

constexpr float kUntouched = 12345.0F;

struct Problem {
  Problem(std::size_t in, std::size_t out, std::size_t images_in_batch)
      : inputs(in),
        units(out),
        count(images_in_batch),
        weight(units * inputs),
        images(count * inputs),
        bias(units) {
    RandomStream random(5, task_id("dense", {inputs, units, count}));
    for (auto* values : {&weight, &images, &bias})
      for (float& v : *values) v = static_cast<float>(random.normal());
  }

  // One element more than there should be, to see what is written behind the end.
  [[nodiscard]] std::vector<float> run(bool with_bias, bool relu) const {
    std::vector<float> output(count * units + 1, kUntouched);
    PackedDense(weight.data(), inputs, units)
        .forward(images.data(), count, with_bias ? bias.data() : nullptr, relu, output.data());
    EXPECT_EQ(output.back(), kUntouched);
    return output;
  }

  // In double; and how far a sum in single precision can be from it: every product passes through
  // at most `inputs` additions (and the bias), each of which rounds by at most 2^-24 of what it
  // gives.
  struct Exact {
    double value = 0;
    double bound = 0;
  };
  [[nodiscard]] Exact exact(std::size_t image, std::size_t unit, bool with_bias, bool relu) const {
    double sum = with_bias ? static_cast<double>(bias[unit]) : 0;
    double size = std::abs(sum);
    for (std::size_t k = 0; k < inputs; ++k) {
      const double product = static_cast<double>(weight[unit * inputs + k]) *
                             static_cast<double>(images[image * inputs + k]);
      sum += product;
      size += std::abs(product);
    }
    return {relu ? std::max(0.0, sum) : sum, static_cast<double>(inputs + 1) * 0x1p-24 * size};
  }

  std::size_t inputs;
  std::size_t units;
  std::size_t count;
  std::vector<float> weight;
  std::vector<float> images;
  std::vector<float> bias;
};

class PackedDenseTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_avx512()) GTEST_SKIP() << "oneDNN does not use AVX-512 here, nor does PackedDense";
  }
};

// Widths around whole vectors, groups of vectors and what is left over; images around whole tiles.
TEST_F(PackedDenseTest, AgreesWithDoublePrecision) {
  for (const std::size_t units : {1U,  4U,  5U,  10U, 16U, 17U,  20U,  21U,  33U,  48U,  50U,
                                  64U, 66U, 80U, 81U, 96U, 100U, 112U, 128U, 144U, 150U, 160U})
    for (const std::size_t inputs : {1U, 3U, 15U, 16U, 17U, 50U, 100U, 1025U})
      for (const std::size_t count : {1U, 2U, 3U, 5U, 6U, 7U, 8U, 9U, 15U, 23U}) {
        const Problem problem(inputs, units, count);
        const bool with_bias = (units + inputs + count) % 3 != 0;
        const bool relu = (inputs + count) % 2 == 0;
        const std::vector<float> output = problem.run(with_bias, relu);
        for (std::size_t i = 0; i < count; ++i)
          for (std::size_t u = 0; u < units; ++u) {
            const auto [value, bound] = problem.exact(i, u, with_bias, relu);
            ASSERT_NEAR(static_cast<double>(output[i * units + u]), value, bound)
                << inputs << " to " << units << ", image " << i << " of " << count << ", unit "
                << u;
          }
      }
}

TEST_F(PackedDenseTest, AnImageIsItsOwnWhateverTheBatch) {
  const Problem problem(784, 50, 23);
  const std::vector<float> together = problem.run(true, false);
  const PackedDense dense(problem.weight.data(), 784, 50);
  for (const std::size_t step : {1U, 2U, 3U, 7U, 8U, 11U})
    for (std::size_t first = 0; first < 23; first += step) {
      const std::size_t count = std::min<std::size_t>(step, 23 - first);
      std::vector<float> output(count * 50);
      dense.forward(problem.images.data() + first * 784, count, problem.bias.data(), false,
                    output.data());
      for (std::size_t i = 0; i < output.size(); ++i)
        ASSERT_EQ(output[i], together[first * 50 + i]) << step << ": " << first << ", " << i;
    }
}

// As the other kernels do: a relu hides no number that is not one.
TEST_F(PackedDenseTest, NotANumberStays) {
  Problem problem(20, 18, 9);
  problem.images[3 * 20 + 19] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> output = problem.run(true, true);
  for (std::size_t i = 0; i < 9; ++i)
    for (std::size_t u = 0; u < 18; ++u) EXPECT_EQ(std::isnan(output[i * 18 + u]), i == 3) << i;
}

}  // namespace
}  // namespace oubli::nn
