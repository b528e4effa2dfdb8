#include "oubli/audit/population.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "oubli/audit/observer.h"
#include "oubli/base/error.h"

namespace oubli {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor tensor_of(DType dtype, std::vector<std::size_t> shape) {
  std::size_t count = 1;
  for (const std::size_t size : shape) count *= size;
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), 0.0);
  Tensor tensor = to_tensor(values, dtype);
  tensor.shape = std::move(shape);
  return tensor;
}

TEST(Population, ReadsRowsOfAnyFloatType) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor tensor = tensor_of(dtype, {3, 4, 2});
    const Population population = population_of(tensor.view("x"));
    EXPECT_EQ(population.models, 3U);
    EXPECT_EQ(population.samples, 4U);
    Matrix<float> out(2, 2);
    const std::uint32_t rows[] = {3, 1};
    population.read(2, rows, out);
    EXPECT_EQ(out, Matrix<float>(2, 2, {22, 23, 18, 19})) << name_of(dtype);
  }
}

TEST(Population, OneTensorPerModel) {
  const Tensor a = tensor_of(DType::f32, {4, 2}), b = tensor_of(DType::f32, {4, 2}),
               c = tensor_of(DType::f32, {5, 2});
  const Population population = population_of({a.view("a"), b.view("b")}, "both");
  Matrix<float> out(1, 2);
  const std::uint32_t rows[] = {2};
  population.read(1, rows, out);
  EXPECT_EQ(out, Matrix<float>(1, 2, {4, 5}));
  EXPECT_THAT(
      [&] {
        (void)population_of({a.view("a"), c.view("c")}, "x");
      },
      ThrowsMessage<Error>(HasSubstr("same samples")));
  EXPECT_THROW((void)population_of({}, "none"), Error);
}

TEST(Population, RefusesOtherShapesAndTypes) {
  const Tensor flat = tensor_of(DType::f32, {4, 2});
  EXPECT_THAT([&] { (void)population_of(flat.view("flat.npy")); },
              ThrowsMessage<Error>(HasSubstr("models x samples x classes")));
  Tensor integers{DType::i32, {1, 1, 1}, std::vector<std::byte>(4)};
  EXPECT_THAT([&] { (void)population_of(integers.view("i.npy")); },
              ThrowsMessage<Error>(HasSubstr("floating-point")));
}

TEST(Population, NamesTheFirstNumberThatIsNone) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    std::vector<double> values(2 * 3 * 2, 1.0);
    values[2 * 3 + 2 * 2 + 1] = bad;  // model 1, sample 2, column 1
    Tensor tensor = to_tensor(values, DType::f32);
    tensor.shape = {2, 3, 2};
    const Population population = population_of(tensor.view("x.npy"));
    Matrix<float> out(1, 2);
    const std::uint32_t rows[] = {2};
    read_finite(population, 0, rows, out);
    EXPECT_THAT([&] { read_finite(population, 1, rows, out); },
                ThrowsMessage<Error>(HasSubstr("model 1, sample 2, column 1")));
  }
}

// Beyond the bound numbers would hide all others, or overflow when squared or centred.
TEST(Population, RefusesNumbersThatHideAllOthers) {
  const auto read_with = [](float value) {
    std::vector<double> values(2 * 3, 1.0);
    values[2 * 2 + 1] = static_cast<double>(value);  // sample 2, column 1
    Tensor tensor = to_tensor(values, DType::f32);
    tensor.shape = {3, 2};
    const Population population = population_of({tensor.view("a.npy"), tensor.view("b.npy")}, "x");
    Matrix<float> out(1, 2);
    const std::uint32_t rows[] = {2};
    read_finite(population, 1, rows, out);
    observe(Observer::probabilities, out);
    return out(0, 1);
  };
  EXPECT_EQ(read_with(kLargestValue), kLargestValue / 2);
  const float beyond = std::nextafter(kLargestValue, std::numeric_limits<float>::infinity());
  for (const float value : {beyond, -beyond, std::numeric_limits<float>::max()})
    EXPECT_THAT([&] { (void)read_with(value); },
                ThrowsMessage<Error>(HasSubstr("b.npy, sample 2, column 1 is")));
}

TEST(Observer, SeesLogitsProbabilitiesOrTheLabel) {
  const Matrix<float> logits(2, 3, {1, 5, 3, 2, 2, -1});
  Matrix<float> seen = logits;
  observe(Observer::logits, seen);
  EXPECT_EQ(seen, logits);
  observe(Observer::probabilities, seen);
  EXPECT_EQ(seen, Matrix<float>(2, 3, {-2, 2, 0, 1, 1, -2}));
  seen = logits;
  observe(Observer::label, seen);
  EXPECT_EQ(seen, Matrix<float>(2, 3, {0, 1, 0, 1, 0, 0}));  // the first of equal ones
}

TEST(Observer, HasNames) {
  for (const Observer observer : all_values<Observer>())
    EXPECT_EQ(value_named<Observer>(name_of(observer)), observer);
  EXPECT_THAT([] { (void)value_named<Observer>("logit"); },
              ThrowsMessage<Error>(HasSubstr("did you mean logits?")));
}

}  // namespace
}  // namespace oubli
