#include "oubli/base/file_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "oubli/base/file.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using testing::TempFolder;

// Chunks of 8 MiB: nothing, one, and three with the last one short. Put together they are the
// file.
TEST(FileChunks, TogetherAreTheFile) {
  const TempFolder folder;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{8} << 20, (std::size_t{16} << 20) + 12345}) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 2654435761U) >> 13);
    write_file(folder / "file", text);
    for (const std::size_t overlap : {std::size_t{0}, std::size_t{1}, std::size_t{70000}}) {
      std::string read;
      for_each_chunk(folder / "file", overlap,
                     [&](std::uint64_t offset, std::span<const std::byte> bytes) {
                       EXPECT_EQ(offset, read.size() - std::min(read.size(), overlap));
                       read.resize(static_cast<std::size_t>(offset));
                       read += as_text(bytes);
                       return true;
                     });
      EXPECT_TRUE(read == text) << size << ", overlap " << overlap;
    }
  }
}

TEST(FileChunks, StopsWhenToldAndRefusesWhatIsNoFile) {
  const TempFolder folder;
  write_file(folder / "file", std::string(std::size_t{20} << 20, 'x'));
  std::size_t seen = 0;
  for_each_chunk(folder / "file", 0, [&](std::uint64_t, std::span<const std::byte>) {
    ++seen;
    return false;
  });
  EXPECT_EQ(seen, 1U);
  const auto nothing = [](std::uint64_t, std::span<const std::byte>) { return true; };
  EXPECT_EQ(error_of([&] { for_each_chunk(folder / "none", 0, nothing); }).code(), ErrorCode::io);
  wait_for_disk(folder / "file");
  EXPECT_EQ(error_of([&] { wait_for_disk(folder / "none"); }).code(), ErrorCode::io);
  EXPECT_EQ(error_of([&] { for_each_chunk(folder / "", 0, nothing); }).code(), ErrorCode::io);
}

}  // namespace
}  // namespace oubli
