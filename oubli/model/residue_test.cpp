#include "oubli/model/residue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/base/random.h"

namespace oubli {
namespace {

struct Head {
  std::vector<float> values;
  std::size_t classes, features;
  bool transposed;

  Head(std::size_t k, std::size_t p, bool t)
      : values(k * p), classes(k), features(p), transposed(t) {
    RandomStream random(1, task_id("residue"));
    for (float& value : values) value = static_cast<float>(random.normal());
  }
  float at(std::size_t k, std::size_t j) const {
    return transposed ? values[j * classes + k] : values[k * features + j];
  }
  HeadView view() const {
    HeadView head;
    head.transposed = transposed;
    head.weights = {DType::f32, {classes, features}, std::as_bytes(std::span(values)), "W"};
    if (transposed) head.weights.shape = {features, classes};
    return head;
  }
};

// At every place of bytes longer than a block, with few rows looked for and with many.
TEST(RowScan, FindsTheRowAtEveryPlace) {
  const Head head(40, 20, false);
  std::vector<std::size_t> many(39);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i + 1;
  for (const auto& forget : {std::vector<std::size_t>{3}, many}) {
    const RowScan scan(head.view(), forget);
    RandomStream random(3, task_id("noise"));
    std::vector<std::byte> noise(1400);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next_u32());
    ASSERT_TRUE(scan.scan(noise).empty());
    for (std::size_t to = 0; to + 80 <= noise.size(); ++to) {
      std::vector<std::byte> bytes = noise;
      std::memcpy(bytes.data() + to, head.values.data() + 3 * 20, 80);
      const auto found = scan.scan(bytes);
      ASSERT_EQ(found.size(), 1U) << to << " among " << forget.size();
      EXPECT_EQ(found[0].class_index, 3U);
      EXPECT_GE(found[0].offset, to);
      EXPECT_LT(found[0].offset, to + 80);
    }
  }
}

// The row hidden in noise: every type, both layouts, any alignment, from either stored layout.
TEST(RowScan, FindsTheRowInEveryDisguise) {
  for (const bool transposed : {false, true}) {
    const Head head(7, 40, transposed);
    const RowScan scan(head.view(), std::vector<std::size_t>{3});
    EXPECT_TRUE(scan.unrecognisable().empty());
    std::vector<double> row;
    for (std::size_t j = 0; j < 40; ++j) row.push_back(static_cast<double>(head.at(3, j)));
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      const std::size_t size = size_of(dtype);
      std::vector<std::byte> encoded(row.size() * size);
      encode(dtype, row, encoded);
      for (const bool column : {false, true}) {
        for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
          RandomStream random(2, task_id("noise", {shift}));
          std::vector<std::byte> noise(8000);
          for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next_u32());
          EXPECT_TRUE(scan.scan(noise).empty());
          for (std::size_t j = 0; j < row.size(); ++j) {
            const std::size_t to = 100 + shift + j * size * (column ? 7 : 1);
            std::memcpy(noise.data() + to, encoded.data() + j * size, size);
          }
          const auto found = scan.scan(noise);
          ASSERT_EQ(found.size(), 1U) << name_of(dtype) << column << shift;
          EXPECT_EQ(found[0].class_index, 3U);
          EXPECT_EQ(found[0].dtype, dtype);
          EXPECT_EQ(found[0].column, column);
        }
      }
    }
  }
}

// Typed data of ONNX, as protobuf writes it.
TEST(RowScan, FindsTheRowInTypedData) {
  for (const bool transposed : {false, true}) {
    const Head head(7, 40, transposed);
    const RowScan scan(head.view(), std::vector<std::size_t>{3});
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      const std::size_t size = size_of(dtype);
      for (const bool packed : {false, true})
        for (const bool column : {false, true}) {
          if (column && size == 2) continue;  // of varying length: no columns
          SCOPED_TRACE(fmt::format("{} {} {}", name_of(dtype), packed, column));
          std::vector<std::byte> bytes(50, std::byte{7});
          for (std::size_t i = 0; i < 7 * 40; ++i) {
            const double value =
                static_cast<double>(column ? head.at(i % 7, i / 7) : head.at(i / 40, i % 40));
            std::vector<std::byte> element(size);
            encode(dtype, std::span(&value, 1), element);
            if (!packed) bytes.push_back(std::byte{0x28});
            if (!packed && size > 2) bytes.back() = std::byte{0x25};
            if (size > 2) {
              bytes.insert(bytes.end(), element.begin(), element.end());
              continue;
            }
            unsigned number =
                std::to_integer<unsigned>(element[0]) | std::to_integer<unsigned>(element[1]) << 8;
            while (number > 127) {
              bytes.push_back(static_cast<std::byte>((number & 127) + 128));
              number /= 128;
            }
            bytes.push_back(static_cast<std::byte>(number));
          }
          const auto found = scan.scan(bytes);
          ASSERT_EQ(found.size(), 1U);
          EXPECT_EQ(found[0].class_index, 3U);
          EXPECT_EQ(found[0].dtype, dtype);
          EXPECT_EQ(found[0].column, column);
          bytes.resize(static_cast<std::size_t>(found[0].offset) + 4);
          EXPECT_TRUE(scan.scan(bytes).empty());
        }
    }
  }
}

TEST(RowScan, OtherRowsAreNotTheRow) {
  const Head head(5, 30, false);
  const RowScan scan(head.view(), std::vector<std::size_t>{2});
  EXPECT_EQ(scan.scan(head.view().weights.bytes).size(), 1U);
  const RowScan other(Head(5, 31, false).view(), std::vector<std::size_t>{0});
  EXPECT_TRUE(other.scan(std::as_bytes(std::span(head.values)).subspan(200)).empty());
}

// What an adversary tried: the row as another tensor, in a form that no search for its bytes finds.
struct Hidden {
  Hidden() : head(40, 64, false), scan(head.view(), std::vector<std::size_t>{7}), bytes(20000) {
    RandomStream random(3, task_id("noise"));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next_u32());
    for (std::size_t j = 0; j < 64; ++j) row.push_back(head.at(7, j));
  }
  template <typename T>
  void hide(std::size_t at, std::size_t apart, const std::vector<T>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      std::memcpy(bytes.data() + at + i * apart, &values[i], sizeof(T));
  }
  void expect(RowResidue::Form form, bool column) {
    const auto found = scan.scan(bytes);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].class_index, 7U);
    EXPECT_EQ(found[0].form, form) << describe(found[0]);
    EXPECT_EQ(found[0].column, column);
  }
  Head head;
  RowScan scan;
  std::vector<std::byte> bytes;
  std::vector<float> row;
};

TEST(RowScan, NothingIsFoundWhereNothingIs) {
  const Hidden hidden;
  EXPECT_TRUE(hidden.scan.scan(hidden.bytes).empty());
}

TEST(RowScan, FindsNegatedRows) {
  Hidden hidden;
  for (float& value : hidden.row) value = -value;
  hidden.hide(101, 4, hidden.row);
  hidden.expect(RowResidue::Form::negated, false);
}

TEST(RowScan, FindsColumnsAmongAnyNumberOfOthers) {
  for (const std::size_t columns : {2U, 17U, 41U, 70U}) {
    Hidden other;
    other.hide(33, 4 * columns, other.row);
    other.expect(RowResidue::Form::plain, true);
  }
  Hidden hidden;
  hidden.hide(50, 8 * 13, std::vector<double>(hidden.row.begin(), hidden.row.end()));
  hidden.expect(RowResidue::Form::plain, true);
}

TEST(RowScan, FindsRowsRoundedToEightBits) {
  for (const double scale : {20.0, 31.7})
    for (const int zero : {-9, 0, 128})  // signed, symmetric, unsigned
      for (const std::size_t apart : {1U, 40U}) {
        Hidden other;
        std::vector<std::uint8_t> rounded;
        for (const float value : other.row)
          rounded.push_back(static_cast<std::uint8_t>(
              static_cast<int>(std::lround(static_cast<double>(value) * scale)) + zero));
        other.hide(77, apart, rounded);
        other.expect(RowResidue::Form::quantised, apart != 1);
      }
}

// Places are looked at in blocks: the first and the last of them, and every end of the bytes.
TEST(RowScan, RowsInEightBitsAreFoundAtEveryPlace) {
  for (const std::size_t apart : {1U, 40U}) {
    const std::size_t last = 20000 - 63 * apart - 1;
    for (const std::size_t at :
         std::vector<std::size_t>{0, 1, 1007, 1008, 1022, 1023, 1024, 1025, 2047, last - 1, last}) {
      Hidden hidden;
      std::vector<std::int8_t> rounded;
      for (const float value : hidden.row)
        rounded.push_back(static_cast<std::int8_t>(std::lround(value * 25.0F)));
      hidden.hide(at, apart, rounded);
      hidden.expect(RowResidue::Form::quantised, apart != 1);
    }
  }
}

// Zeros and one number, in bytes: nearly every file has that.
TEST(RowScan, SparseRowsAreNotFoundInPadding) {
  Head head(40, 64, false);
  std::fill(head.values.begin() + 7 * 64, head.values.begin() + 8 * 64, 0.0F);
  for (const std::size_t j : {5U, 6U, 9U, 40U}) head.values[7 * 64 + j] = static_cast<float>(j);
  const RowScan scan(head.view(), std::vector<std::size_t>{7});
  EXPECT_TRUE(scan.unrecognisable().empty());
  std::vector<std::byte> bytes(4000);
  for (std::size_t at = 90; at + 1 < bytes.size(); at += 71) bytes[at] = std::byte{200};
  EXPECT_TRUE(scan.scan(bytes).empty());
  std::memcpy(bytes.data() + 1000, head.values.data() + 7 * 64, 256);
  EXPECT_EQ(scan.scan(bytes).size(), 1U);
}

TEST(RowScan, FindsRowsInBase64) {
  for (std::size_t before = 0; before < 3; ++before) {
    Hidden other;
    const auto raw = std::as_bytes(std::span(other.row));
    std::vector<std::byte> shifted(before);
    shifted.insert(shifted.end(), raw.begin(), raw.end());
    std::string text;
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (std::size_t i = 0; i + 3 <= shifted.size(); i += 3) {
      const unsigned bits = std::to_integer<unsigned>(shifted[i]) << 16 |
                            std::to_integer<unsigned>(shifted[i + 1]) << 8 |
                            std::to_integer<unsigned>(shifted[i + 2]);
      for (const unsigned shift : {18U, 12U, 6U, 0U}) text += kDigits[bits >> shift & 63U];
    }
    std::memcpy(other.bytes.data() + 500, text.data(), text.size());
    ASSERT_FALSE(other.scan.scan(other.bytes).empty()) << before;
    EXPECT_EQ(other.scan.scan(other.bytes)[0].form, RowResidue::Form::base64);
  }
}

TEST(RowScan, FindsRowsInDecimal) {
  for (const char* const spelling : {"{:.17g}", "{:.9g}", "{:.7g}", "{:.9f}"}) {
    Hidden other;
    std::string text = "[";
    for (const float value : other.row)
      text += fmt::format(fmt::runtime(spelling), static_cast<double>(value)) + ", ";
    std::memcpy(other.bytes.data() + 1000, text.data(), text.size());
    other.expect(RowResidue::Form::decimal, false);
  }
}

TEST(RowScan, ConstantRowsAreSaidToBeUnrecognisable) {
  Head head(4, 20, false);
  std::fill(head.values.begin() + 20, head.values.begin() + 40, 0.5F);
  EXPECT_EQ(RowScan(head.view(), std::vector<std::size_t>{1}).unrecognisable(),
            std::vector<std::size_t>{1});
}

}  // namespace
}  // namespace oubli
