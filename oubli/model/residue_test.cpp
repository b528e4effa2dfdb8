#include "oubli/model/residue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

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

TEST(RowScan, ConstantRowsAreSaidToBeUnrecognisable) {
  Head head(4, 20, false);
  std::fill(head.values.begin() + 20, head.values.begin() + 40, 0.5F);
  EXPECT_EQ(RowScan(head.view(), std::vector<std::size_t>{1}).unrecognisable(),
            std::vector<std::size_t>{1});
}

TEST(Residue, NamesAsWords) {
  EXPECT_TRUE(mentions_name("model of alice and bob", "alice"));
  EXPECT_TRUE(mentions_name("score/alice", "alice"));
  EXPECT_TRUE(mentions_name("alice", "alice"));
  EXPECT_FALSE(mentions_name("malice", "alice"));
  EXPECT_FALSE(mentions_name("alices", "alice"));
  EXPECT_TRUE(mentions_name("malice, alice", "alice"));
  EXPECT_FALSE(mentions_name("layer 3", "3"));
  EXPECT_FALSE(mentions_name("an ox", "ox"));
  EXPECT_TRUE(mentions_name("ox", "ox"));
  EXPECT_TRUE(mentions_name("ALICE and bob", "Alice"));
  EXPECT_FALSE(mentions_name("MALICE", "Alice"));
}

// What json.dumps, repr and ascii of Python make of names.
TEST(Residue, NamesInEscapes) {
  for (const char* text :
       {R"({"people": ["Jos\u00e9"]})", R"(["Jos\u00E9"])", R"({"a": "[\"Jos\\u00e9\"]"})",
        R"(['Jos\xe9'])", R"(['Jos\U000000e9'])", "[\"José\"]"})
    EXPECT_TRUE(mentions_name(text, "José")) << text;
  EXPECT_FALSE(mentions_name(R"(["Jos\u00e9e"])", "José"));
  const char* bob = "O'Neil \"Bob\"";
  for (const char* text :
       {R"(["O'Neil \"Bob\""])", R"(['O\'Neil "Bob"'])", R"({"a": "[\"O'Neil \\\"Bob\\\"\"]"})"})
    EXPECT_TRUE(mentions_name(text, bob)) << text;
  EXPECT_TRUE(mentions_name(R"(["\ud83d\udc1d"])", "\U0001f41d"));
  EXPECT_FALSE(mentions_name("C:\\", "alice"));  // no escape at all
  EXPECT_TRUE(mentions_name("C:\\u12 alice \\", "alice"));
}

TEST(Residue, NamesAreMasked) {
  EXPECT_EQ(without_name("node 'ALICE_alice'", "Alice"), "node '..._...'");
  EXPECT_EQ(without_name("tensor 'W'", "Alice"), "tensor 'W'");
  EXPECT_EQ(without_name(R"(metadata 'Jos\u00e9')", "José"), "...");
  EXPECT_EQ(without_name("layer 3", "3"), "layer 3");
}

}  // namespace
}  // namespace oubli
