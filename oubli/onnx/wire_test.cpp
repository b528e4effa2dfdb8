#include "oubli/onnx/wire.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "oubli/base/file.h"
#include "oubli/base/random.h"

namespace oubli::onnx {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Wire, KnownEncoding) {
  // The example of the protobuf documentation: field 1, varint 150; field 2, text "testing".
  const auto bytes = bytes_of({0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g'});
  const Message message = Message::parse(bytes, "test");
  ASSERT_EQ(message.fields.size(), 2U);
  EXPECT_EQ(message.number_or(1, 0), 150U);
  EXPECT_EQ(message.text_or(2, ""), "testing");
  EXPECT_EQ(message.encode(), bytes);

  Message made;
  made.add(varint_field(1, 150));
  made.add(bytes_field(2, "testing"));
  EXPECT_EQ(made.encode(), bytes);
  EXPECT_EQ(made.encoded_size(), bytes.size());
}

TEST(Wire, UnusualEncodingsSurviveBeingOpened) {
  // Overlong tag, overlong length, overlong varint inside: legal, and no encoder would write them.
  const auto bytes =
      bytes_of({0x92, 0x80, 0x00, 0x85, 0x80, 0x00, 0x08, 0x96, 0x81, 0x80, 0x00, 0x9d, 0x06, 1,
                2,    3,    4,    0x99, 0x06, 1,    2,    3,    4,    5,    6,    7,    8});
  Message message = Message::parse(bytes, "test");
  ASSERT_EQ(message.fields.size(), 3U);
  Message& inner = open(message.fields[0], "test");
  ASSERT_EQ(inner.fields.size(), 1U);
  EXPECT_EQ(inner.fields[0].value, 150U);
  EXPECT_EQ(message.fields[1].value, 0x04030201U);
  EXPECT_EQ(message.encode(), bytes);
}

TEST(Wire, EditChangesOnlyTheEditedField) {
  const auto bytes = bytes_of({0x08, 1, 0x12, 4, 0x08, 7, 0x10, 9, 0x9a, 0x80, 0x00, 1, 'x'});
  Message message = Message::parse(bytes, "test");
  set_varint(open(message.fields[1], "test").fields[0], 300);
  EXPECT_EQ(message.encode(),
            bytes_of({0x08, 1, 0x12, 5, 0x08, 0xac, 0x02, 0x10, 9, 0x9a, 0x80, 0x00, 1, 'x'}));
  message.fields[1].removed = true;
  EXPECT_EQ(message.encode(), bytes_of({0x08, 1, 0x9a, 0x80, 0x00, 1, 'x'}));
}

TEST(Wire, DamageIsRefused) {
  const std::vector<std::vector<std::byte>> damaged = {
      bytes_of({0x08}),                       // number missing
      bytes_of({0x80}),                       // tag cut
      bytes_of({0x00, 1}),                    // field number 0
      bytes_of({0x12, 5, 1}),                 // length beyond the end
      bytes_of({0x0d, 1, 2, 3}),              // fixed32 cut
      bytes_of({0x09, 1, 2, 3, 4, 5, 6, 7}),  // fixed64 cut
      bytes_of({0x0b, 1}),                    // a group
      bytes_of({0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}),  // 65 bits
      bytes_of({0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}),  // 2^64-1 bytes
  };
  for (const auto& bytes : damaged) {
    try {
      (void)Message::parse(bytes, "broken.onnx");
      FAIL() << "accepted " << bytes.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      EXPECT_NE(std::string(error.what()).find("broken.onnx"), std::string::npos);
    }
  }
}

TEST(Wire, RepeatedNumbersPackedOrNot) {
  Message message;
  message.add(varint_field(8, 1));
  message.add(packed_field(8, std::vector<std::int64_t>{-1, 1LL << 40}));
  message.add(float_field(7, 1.5F));
  message.add(packed_field(7, std::vector<float>{-2.0F, 0.25F}));
  const auto bytes = message.encode();
  const Message read = Message::parse(bytes, "test");
  EXPECT_EQ(repeated_ints(read, 8, "test"), (std::vector<std::int64_t>{1, -1, 1LL << 40}));
  EXPECT_EQ(repeated_floats(read, 7, "test"), (std::vector<float>{1.5F, -2.0F, 0.25F}));
}

// A sparse file with a field of 3 GiB: neither read nor copied, only measured and passed on.
TEST(Wire, MessagesBeyondTwoGibibytes) {
  const auto path =
      std::filesystem::temp_directory_path() / ("oubli_wire_" + std::to_string(getpid()));
  const std::uint64_t large = std::uint64_t{3} << 30;
  std::vector<std::byte> head = bytes_of({0x08, 8, 0x12});
  append_varint(head, large);
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(head.data()),
               static_cast<std::streamsize>(head.size()));
    file.seekp(static_cast<std::streamoff>(head.size() + large));
    file.write("\x18\x05", 2);
  }
  const MappedFile mapped(path);
  Message message = Message::parse(mapped.bytes(), "large");
  ASSERT_EQ(message.fields.size(), 3U);
  EXPECT_EQ(message.fields[1].payload.size(), large);
  EXPECT_EQ(message.number_or(3, 0), 5U);
  set_varint(message.fields[2], 300);
  std::uint64_t written = 0;
  message.write([&](std::span<const std::byte> piece) { written += piece.size(); });
  EXPECT_EQ(written, mapped.bytes().size() + 1);
  EXPECT_EQ(message.encoded_size(), written);
  std::filesystem::remove(path);
}

// Whatever parses is written back as it was, opened or not.
TEST(Wire, RandomBytesRoundTripOrAreRefused) {
  RandomStream random(1, task_id("wire test"));
  std::size_t parsed = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random.below(24));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(32));
    try {
      Message message = Message::parse(bytes, "random");
      for (Field& field : message.fields) {
        if (field.type != WireType::bytes) continue;
        try {
          (void)open(field, "random");
        } catch (const Error&) {
        }
      }
      ASSERT_EQ(message.encode(), bytes);
      ASSERT_EQ(message.encoded_size(), bytes.size());
      ++parsed;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
    }
  }
  EXPECT_GT(parsed, 1000U);
}

}  // namespace
}  // namespace oubli::onnx
