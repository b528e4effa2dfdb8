#include "oubli/array/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "oubli/base/error.h"

namespace oubli {
namespace {

struct Facts {
  std::size_t size;
  std::string_view name;
  int significand_bits;  // with the hidden one; 0 for integers
};

constexpr std::array<Facts, 13> kFacts{{{2, "float16", 11},
                                        {2, "bfloat16", 8},
                                        {4, "float32", 24},
                                        {8, "float64", 53},
                                        {1, "int8", 0},
                                        {1, "uint8", 0},
                                        {2, "int16", 0},
                                        {2, "uint16", 0},
                                        {4, "int32", 0},
                                        {4, "uint32", 0},
                                        {8, "int64", 0},
                                        {8, "uint64", 0},
                                        {1, "bool", 0}}};

const Facts& facts(DType type) { return kFacts[static_cast<std::size_t>(type)]; }

// Rounds to `bits` significant bits, to nearest even, respecting the subnormal range below
// 2^min_exponent. The scaling is by powers of two and so exact; rint rounds to even.
double round_to(double value, int bits, int min_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const int shift = bits - 1 - exponent;
  return std::ldexp(std::rint(std::ldexp(value, shift)), -shift);
}

template <typename Stored, typename Value>
void copy_elements(std::span<const std::byte> bytes, std::span<Value> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored element;
    std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
    values[i] = static_cast<Value>(element);
  }
}

template <double (*convert)(std::uint16_t), typename Value>
void copy_halves(std::span<const std::byte> bytes, std::span<Value> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = static_cast<Value>(convert(bits));
  }
}

template <typename Value>
void decode_as(DType type, std::span<const std::byte> bytes, std::span<Value> values) {
  OUBLI_ASSERT(bytes.size() == values.size() * size_of(type));
  switch (type) {
    case DType::f16:
      return copy_halves<decode_f16>(bytes, values);
    case DType::bf16:
      return copy_halves<decode_bf16>(bytes, values);
    case DType::f32:
      return copy_elements<float>(bytes, values);
    case DType::f64:
      return copy_elements<double>(bytes, values);
    case DType::i8:
      return copy_elements<std::int8_t>(bytes, values);
    case DType::boolean:
    case DType::u8:
      return copy_elements<std::uint8_t>(bytes, values);
    case DType::i16:
      return copy_elements<std::int16_t>(bytes, values);
    case DType::u16:
      return copy_elements<std::uint16_t>(bytes, values);
    case DType::i32:
      return copy_elements<std::int32_t>(bytes, values);
    case DType::u32:
      return copy_elements<std::uint32_t>(bytes, values);
    case DType::i64:
      return copy_elements<std::int64_t>(bytes, values);
    case DType::u64:
      return copy_elements<std::uint64_t>(bytes, values);
  }
}

}  // namespace

std::size_t size_of(DType type) { return facts(type).size; }
std::string_view name_of(DType type) { return facts(type).name; }
bool is_float(DType type) { return facts(type).significand_bits > 0; }
double unit_roundoff(DType type) { return std::ldexp(1.0, -facts(type).significand_bits); }
double smallest_positive(DType type) {
  switch (type) {
    case DType::f16:
      return std::ldexp(1.0, -24);
    case DType::bf16:
      return std::ldexp(1.0, -133);
    case DType::f32:
      return static_cast<double>(std::numeric_limits<float>::denorm_min());
    default:
      return std::numeric_limits<double>::denorm_min();
  }
}

double decode_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int fraction = bits & 0x3FF;
  double magnitude = 0;
  if (exponent == 0x1F)
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(fraction, -24);
  else
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double decode_bf16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
}

std::uint16_t encode_f16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  const double magnitude = std::abs(round_to(value, 11, -14));
  if (magnitude > 65504) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x1.0p-14)
    return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
  const int exponent = std::ilogb(magnitude);
  const int fraction = static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | fraction);
}

std::uint16_t encode_bf16(double value) {
  if (std::isnan(value)) return std::signbit(value) ? 0xFFC0 : 0x7FC0;
  // After rounding to 8 bits the value is a float32 exactly, or overflows to infinity as it should.
  const auto rounded = static_cast<float>(round_to(value, 8, -126));
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16);
}

void decode(DType type, std::span<const std::byte> bytes, std::span<double> values) {
  decode_as(type, bytes, values);
}

void decode(DType type, std::span<const std::byte> bytes, std::span<float> values) {
  decode_as(type, bytes, values);
}

void encode(DType type, std::span<const double> values, std::span<std::byte> bytes) {
  OUBLI_ASSERT(is_float(type) && bytes.size() == values.size() * size_of(type));
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::byte* const out = bytes.data() + i * size;
    const auto put = [out](auto element) { std::memcpy(out, &element, sizeof element); };
    switch (type) {
      case DType::f16:
        put(encode_f16(values[i]));
        break;
      case DType::bf16:
        put(encode_bf16(values[i]));
        break;
      case DType::f32:
        put(static_cast<float>(values[i]));
        break;
      default:
        put(values[i]);
        break;
    }
  }
}

}  // namespace oubli
