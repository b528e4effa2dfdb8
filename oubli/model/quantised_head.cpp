#include "oubli/model/quantised_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oubli/base/error.h"

namespace oubli {

namespace {

// Beyond this a float32 would not tell neighbours apart, and the numbers would not come again.
constexpr double kLargestBias = 0x1p22;
constexpr std::int32_t kBiasLevels = 127;

// The smallest number of 16 significant bits that is not below `value`.
float of_16_bits(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return static_cast<float>(std::ldexp(std::ceil(std::ldexp(mantissa, 16)), exponent - 16));
}

// The largest number of each class in scales; a class of zeros has any.
std::vector<float> scales_of(std::vector<double> largest, const HeadGrid& grid) {
  const double most = std::ranges::max(largest);
  const double otherwise = most > 0 ? most : 1;
  std::vector<float> scales;
  for (const double value : largest)
    scales.push_back(
        of_16_bits((grid.scale_per_class && value > 0 ? value : otherwise) / grid.levels));
  return scales;
}

std::int32_t nearest(double value, double scale) {
  return static_cast<std::int32_t>(std::nearbyint(value / scale));
}

void quantise_bias(const Tensor& bias, const HeadGrid& grid, const std::string& what,
                   QuantisedHead& result) {
  const std::vector<double> values = to_vector(bias.view(what));
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  const float own = of_16_bits((most > 0 ? most : 1) / kBiasLevels);
  std::vector<double> rounded;
  for (std::size_t j = 0; j < values.size(); ++j) {
    const double scale = grid.bias == HeadGrid::Bias::own_scale
                             ? static_cast<double>(own)
                             : bias_step(grid.bias_factor, static_cast<double>(result.scales[j]));
    if (!(std::abs(values[j] / scale) <= kLargestBias))
      fail(ErrorCode::unfilterable,
           "{}: the new bias of class {} is {:.3g}, more than {:.3g} steps of the grid that it is "
           "stored on; use --float-head, or filter the float model and quantise the result again",
           what, j, values[j], kLargestBias);
    result.bias_scales.push_back(scale);
    result.bias.push_back(nearest(values[j], scale));
    rounded.push_back(scale * result.bias.back());
  }
  result.stands_for.bias = to_tensor(rounded, DType::f32);
}

}  // namespace

double bias_step(double bias_factor, double weight_scale) {
  return static_cast<double>(static_cast<float>(bias_factor * weight_scale));
}

QuantisedHead quantise(const NewHead& head, bool transposed, const HeadGrid& grid,
                       const std::string& what) {
  const Matrix<double> weights = to_matrix(head.weights.view(what));
  const auto class_of = [&](std::size_t row, std::size_t column) {
    return transposed ? column : row;
  };
  std::vector<double> largest(head.weights.shape[transposed ? 1 : 0]);
  for (std::size_t row = 0; row < weights.rows(); ++row)
    for (std::size_t column = 0; column < weights.cols(); ++column) {
      double& most = largest[class_of(row, column)];
      most = std::max(most, std::abs(weights(row, column)));
    }
  QuantisedHead result;
  result.scales = scales_of(std::move(largest), grid);
  std::vector<double> rounded;
  for (std::size_t row = 0; row < weights.rows(); ++row)
    for (std::size_t column = 0; column < weights.cols(); ++column) {
      const auto scale = static_cast<double>(result.scales[class_of(row, column)]);
      result.weights.push_back(nearest(weights(row, column), scale));
      rounded.push_back(scale * result.weights.back());
    }
  result.stands_for.weights = to_tensor(rounded, DType::f32);
  result.stands_for.weights.shape = head.weights.shape;
  result.stands_for.bias_added = head.bias_added;
  if (!head.bias) return result;
  if (grid.bias == HeadGrid::Bias::floats)
    result.stands_for.bias = head.bias;
  else
    quantise_bias(*head.bias, grid, what, result);
  return result;
}

StoredHead as_stored(QuantisedHead head, double weight_scale, const HeadGrid& grid) {
  StoredHead stored{std::move(head.stands_for)};
  HeadRounding& rounding = stored.rounding;
  for (const float scale : head.scales) rounding.weight_steps.push_back(static_cast<double>(scale));
  rounding.coarser = std::ranges::max(rounding.weight_steps) / grid.old_step;
  for (double& step : rounding.weight_steps) step *= std::abs(weight_scale);
  rounding.bias_steps = std::move(head.bias_scales);
  return stored;
}

bool keeps_rows(const HeadView& old_head, const NewHead& head,
                std::span<const std::size_t> retained) {
  const std::size_t classes = old_head.classes();
  const auto same = [&](const TensorView& old, const Tensor& made, bool by_turns) {
    const std::size_t size = size_of(old.dtype);
    // Turns: one number of each class after another; else all of a class at once.
    const std::size_t run = by_turns ? size : old.bytes.size() / classes;
    const std::size_t turns = old.bytes.size() / classes / run;
    if (made.dtype != old.dtype || made.bytes.size() != run * retained.size() * turns) return false;
    for (std::size_t turn = 0; turn < turns; ++turn)
      for (std::size_t i = 0; i < retained.size(); ++i)
        if (!std::ranges::equal(
                old.bytes.subspan((turn * classes + retained[i]) * run, run),
                std::span(made.bytes).subspan((turn * retained.size() + i) * run, run)))
          return false;
    return true;
  };
  return same(old_head.weights, head.weights, old_head.transposed) &&
         old_head.bias.has_value() == head.bias.has_value() &&
         (!head.bias || same(*old_head.bias, *head.bias, false));
}

}  // namespace oubli
