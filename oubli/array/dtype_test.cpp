#include "oubli/array/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "oubli/base/random.h"

namespace oubli {
namespace {

TEST(Float16, EveryBitPatternRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = decode_f16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(decode_f16(encode_f16(value))));
    else
      EXPECT_EQ(encode_f16(value), bits);
  }
}

TEST(Float16, AgreesWithTheCompiler) {
  // _Float16 conversion from double rounds once, to nearest even.
  RandomStream random(1, 0);
  for (int i = 0; i < 200'000; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.below(44)) - 27);
    const auto expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    ASSERT_EQ(encode_f16(value), expected) << value;
  }
}

TEST(Float16, RoundsOnceNotThroughFloat32) {
  // Just above the midpoint of 1 and the next float16; in float32 it becomes the midpoint itself.
  const double value = 1 + 0x1.0p-11 + 0x1.0p-40;
  EXPECT_EQ(decode_f16(encode_f16(value)), 1 + 0x1.0p-10);
  EXPECT_EQ(decode_f16(encode_f16(static_cast<double>(static_cast<float>(value)))), 1);
}

TEST(BFloat16, EveryBitPatternRoundTrips) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = decode_bf16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(decode_bf16(encode_bf16(value))));
    else
      EXPECT_EQ(encode_bf16(value), bits);
  }
  EXPECT_TRUE(std::isinf(decode_bf16(encode_bf16(1e39))));
}

TEST(BFloat16, IsNearest) {
  RandomStream random(2, 0);
  for (int i = 0; i < 100'000; ++i) {
    const double value = std::ldexp(random.normal(), static_cast<int>(random.below(60)) - 30);
    const std::uint16_t bits = encode_bf16(value);
    const double error = std::abs(decode_bf16(bits) - value);
    const double below = decode_bf16(static_cast<std::uint16_t>(bits - 1));
    const double above = decode_bf16(static_cast<std::uint16_t>(bits + 1));
    ASSERT_LE(error, std::abs(below - value));
    ASSERT_LE(error, std::abs(above - value));
  }
}

TEST(Encode, DecodesBackToTheRoundedValue) {
  const std::array values{0.1, -2.5, 1e-6, 300.0};
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    std::array<std::byte, 32> bytes{};
    std::array<double, 4> back{};
    encode(type, values, std::span(bytes).first(4 * size_of(type)));
    decode(type, std::span(bytes).first(4 * size_of(type)), back);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(back[i], values[i], unit_roundoff(type) * std::abs(values[i]) + 0x1.0p-25);
  }
}

}  // namespace
}  // namespace oubli
