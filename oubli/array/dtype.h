#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace oubli {

// Element types of arrays in files. Little-endian throughout.
enum class DType { f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

[[nodiscard]] std::size_t size_of(DType type);
// "float32", "bfloat16", "int64", ...
[[nodiscard]] std::string_view name_of(DType type);
[[nodiscard]] bool is_float(DType type);
// Unit roundoff: half the distance from 1 to the next number (2^-24 for float32).
[[nodiscard]] double unit_roundoff(DType type);
// The distance between numbers near 0: below 2^-14 half floats do not get closer (2^-24 apart).
[[nodiscard]] double smallest_positive(DType type);

// Exact decodings, and encodings that round once, to nearest even, from double. Overflow gives
// infinity, NaN stays NaN. (float16 through float32 would round twice.)
[[nodiscard]] double decode_f16(std::uint16_t bits);
[[nodiscard]] double decode_bf16(std::uint16_t bits);
[[nodiscard]] std::uint16_t encode_f16(double value);
[[nodiscard]] std::uint16_t encode_bf16(double value);

// values[i] = element i of `bytes`, which holds values.size() elements of `type`.
void decode(DType type, std::span<const std::byte> bytes, std::span<double> values);
void decode(DType type, std::span<const std::byte> bytes, std::span<float> values);
// The inverse; `type` must be a float type.
void encode(DType type, std::span<const double> values, std::span<std::byte> bytes);

}  // namespace oubli
