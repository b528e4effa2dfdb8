#include "oubli/array/zip.h"

#include <array>
#include <cstring>

#include "oubli/array/zip_writer.h"
#include "oubli/base/random.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

std::string archive_of(const TempFolder& folder, bool deflate) {
  AtomicFile file(folder / "a.zip");
  ZipWriter writer(file);
  const std::string long_text(100'000, 'x');
  const std::array first{as_bytes("hello "), as_bytes("world")};
  const std::array second{as_bytes(long_text)};
  writer.add("first", first, deflate);
  writer.add("second", second, deflate);
  writer.finish("a comment");
  file.commit();
  return read_text_file(folder / "a.zip");
}

std::string content(const ZipArchive& archive, std::string_view name) {
  return std::string(as_text(unpack(*archive.find(name), std::string(name)).bytes));
}

std::string refusal(const std::string& bytes) {
  const Error error = error_of([&] {
    const ZipArchive archive(as_bytes(bytes), "a.zip");
    for (const ZipEntry& entry : archive.entries()) (void)content(archive, entry.name);
  });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  return error.what();
}

template <typename T>
std::string patched(std::string bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

TEST(Zip, RoundTrip) {
  const TempFolder folder;
  for (const bool deflate : {false, true}) {
    const std::string bytes = archive_of(folder, deflate);
    EXPECT_EQ(bytes, archive_of(folder, deflate));
    const ZipArchive archive(as_bytes(bytes), "a.zip");
    EXPECT_EQ(archive.comment(), "a comment");
    EXPECT_EQ(content(archive, "first"), "hello world");
    EXPECT_EQ(content(archive, "second"), std::string(100'000, 'x'));
    EXPECT_EQ(archive.find("third"), nullptr);
    EXPECT_EQ(unpack_beginning(archive.entries()[1], 10, "").size(), 10U);
  }
}

// Nothing is ever unpacked to a path: a name is what an entry is asked for by.
TEST(Zip, NamesArePlainKeys) {
  const TempFolder folder;
  const std::array<std::string, 4> names{"../up.npy", "/etc/passwd", "a/../../b", "C:\\x"};
  {
    AtomicFile file(folder / "a.npz");
    ZipWriter writer(file);
    for (const std::string& name : names) {
      const std::array piece{as_bytes(name)};
      writer.add(name, piece, false);
    }
    writer.finish("");
    file.commit();
  }
  const std::string bytes = read_text_file(folder / "a.npz");
  const ZipArchive archive(as_bytes(bytes), "a.npz");
  for (const std::string& name : names) EXPECT_EQ(content(archive, name), name);
}

TEST(Zip, LiesAreRefused) {
  const TempFolder folder;
  const std::string good = archive_of(folder, false);
  const std::size_t end = good.rfind("PK\5\6");
  const std::size_t directory = good.find("PK\1\2");
  const std::size_t second = good.rfind("PK\1\2");
  ASSERT_LT(second, end);
  EXPECT_THAT(refusal(""), HasSubstr("too short"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("no zip end record"));
  EXPECT_THAT(refusal(good.substr(1)), HasSubstr("truncated or damaged"));
  EXPECT_THAT(refusal(patched(good, end + 10, std::uint16_t{3})), HasSubstr("cannot fit"));
  EXPECT_THAT(refusal(patched(good, end + 10, std::uint16_t{60000})), HasSubstr("cannot fit"));
  EXPECT_THAT(refusal(patched(good, end + 10, std::uint16_t{1})), HasSubstr("left over"));
  EXPECT_THAT(refusal(patched(good, end + 16, std::uint32_t{7})),
              HasSubstr("truncated or damaged"));
  EXPECT_THAT(refusal(patched(good, end + 4, std::uint16_t{1})), HasSubstr("multi-disk"));
  EXPECT_THAT(refusal(patched(good, directory + 8, std::uint16_t{1})), HasSubstr("encrypted"));
  EXPECT_THAT(refusal(patched(good, directory + 10, std::uint16_t{99})),
              HasSubstr("compression 99"));
  EXPECT_THAT(refusal(patched(good, directory + 16, std::uint32_t{0})), HasSubstr("check sum"));
  EXPECT_THAT(refusal(patched(good, directory + 24, std::uint32_t{12})), HasSubstr("said to hold"));
  EXPECT_THAT(
      refusal(patched(patched(good, directory + 24, 0x7FFFFFFFU), directory + 20, 0x7FFFFFFFU)),
      HasSubstr("truncated"));
  EXPECT_THAT(refusal(patched(good, directory + 42, 0x7FFFFFFFU)), HasSubstr("beyond"));
  EXPECT_THAT(refusal(patched(good, directory + 42, 1U)), HasSubstr("no zip entry"));
  EXPECT_THAT(refusal(patched(good, directory + 46, 'F')), HasSubstr("disagree"));
  // The first entry, grown so that it swallows the beginning of the second.
  EXPECT_THAT(refusal(patched(patched(good, directory + 20, 50U), directory + 24, 50U)),
              HasSubstr("overlap"));
  // Two names alike: "second" cut to a copy of the first entry's record.
  std::string twins = good;
  const std::size_t record = second - directory;
  twins.replace(second, end - second, good.substr(directory, record));
  const std::size_t new_end = twins.rfind("PK\5\6");
  EXPECT_THAT(refusal(patched(twins, new_end + 12, static_cast<std::uint32_t>(2 * record))),
              HasSubstr("two entries"));
  // All ones in the end record and a zip64 locator that points outside.
  std::string locator = "PK\6\7";
  locator.resize(20, '\x7F');
  std::string wide = good;
  wide.insert(end, locator);
  EXPECT_THAT(refusal(patched(wide, end + 20 + 16, 0xFFFFFFFFU)), HasSubstr("zip64 end record"));
}

TEST(Zip, ABombIsRefusedBeforeAnyMemoryIsTaken) {
  const TempFolder folder;
  const std::string good = archive_of(folder, true);
  const std::size_t second = good.rfind("PK\1\2");
  EXPECT_THAT(refusal(patched(good, second + 24, 0xF0000000U)), HasSubstr("suspiciously"));
  EXPECT_THAT(refusal(patched(good, second + 24, 200'000U)), HasSubstr("does not unpack"));
  EXPECT_THAT(refusal(patched(good, second + 24, 99'999U)), HasSubstr("does not unpack"));
}

// Above kUnpackInMemory: the same content and the same refusals, from a file.
TEST(Zip, WhatIsLargeIsUnpackedToAFile) {
  const TempFolder folder;
  std::string large(kUnpackInMemory + 12'345, '\0');
  RandomStream random(1, task_id("large entry"));
  for (std::size_t i = 0; i < large.size(); i += 1 + random.below(64))
    large[i] = static_cast<char>(random.below(256));
  {
    AtomicFile file(folder / "a.zip");
    ZipWriter writer(file);
    const std::array piece{as_bytes(large)};
    writer.add("large", piece, true);
    writer.finish();
    file.commit();
  }
  const MappedFile file(folder / "a.zip");
  const ZipArchive archive(file.bytes(), "a.zip");
  const SharedTensor unpacked = unpack(archive.entries()[0], "large", true);
  EXPECT_TRUE(unpacked.mapped);  // not in memory
  EXPECT_TRUE(as_text(unpacked.bytes) == large);

  const std::string good = read_text_file(folder / "a.zip");
  const std::size_t record = good.rfind("PK\1\2");
  const auto size = static_cast<std::uint32_t>(large.size());
  EXPECT_THAT(refusal(patched(good, record + 24, size + 1)), HasSubstr("does not unpack"));
  EXPECT_THAT(refusal(patched(good, record + 24, size - 1)), HasSubstr("does not unpack"));
  EXPECT_THAT(refusal(patched(good, record + 16, 0U)), HasSubstr("check sum"));
  std::string damaged = good;
  damaged.replace(good.size() / 2, 100, std::string(100, '\xFF'));
  EXPECT_THAT(refusal(damaged), HasSubstr("damaged"));
}

TEST(Zip, EveryTruncationAndEveryFlippedByteIsReadOrRefused) {
  const TempFolder folder;
  for (const bool deflate : {false, true}) {
    std::string bytes;
    {
      AtomicFile file(folder / "b.zip");
      ZipWriter writer(file);
      const std::array piece{as_bytes("hello hello hello")};
      writer.add("first", piece, deflate);
      writer.finish();
      file.commit();
      bytes = read_text_file(folder / "b.zip");
    }
    for (std::size_t length = 0; length < bytes.size(); ++length)
      (void)refusal(bytes.substr(0, length));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      for (const int mask : {0x01, 0x80, 0xFF}) {
        std::string damaged = bytes;
        damaged[i] = static_cast<char>(damaged[i] ^ mask);
        try {
          const ZipArchive archive(as_bytes(damaged), "b.zip");
          for (const ZipEntry& entry : archive.entries())
            EXPECT_EQ(content(archive, entry.name), "hello hello hello");
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::bad_input);
        }
      }
  }
}

}  // namespace
}  // namespace oubli
