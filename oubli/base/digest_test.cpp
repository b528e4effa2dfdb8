#include "oubli/base/digest.h"

#include <gtest/gtest.h>

#include "oubli/base/file.h"
#include "oubli/base/file_chunks.h"

namespace oubli {
namespace {

TEST(Sha256, KnownAnswersAndPieces) {
  // FIPS 180-4 examples.
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 digest;
  digest.update(as_bytes("a"));
  digest.update(as_bytes("bc"));
  EXPECT_EQ(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Files that begin like others, part in every window, end with one, or are shorter.
TEST(Sha256, FromWhereTheFilesPart) {
  const auto path = std::filesystem::temp_directory_path() / "oubli_digest_test";
  std::vector<std::byte> known(3 * kChunkBytes + 1000);
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = static_cast<std::byte>(i * i >> 7);
  const auto known_path = path.string() + "_known";
  write_file(known_path, std::span<const std::byte>(known));
  const MappedFile mapped(known_path);
  DigestTrail trail;
  EXPECT_EQ(sha256_of_mapped(mapped.bytes(), trail), sha256_hex(known));
  EXPECT_EQ(trail.states.size(), 3U);
  const auto check = [&](const std::vector<std::byte>& bytes) {
    write_file(path, std::span<const std::byte>(bytes));
    EXPECT_EQ(sha256_file(path, mapped.bytes(), trail), sha256_hex(bytes)) << bytes.size();
  };
  check(known);
  check({});
  for (std::size_t window = 0; window <= 3; ++window) {
    check({known.begin(), known.begin() + static_cast<std::ptrdiff_t>(window * kChunkBytes)});
    auto changed = known;
    changed[window * kChunkBytes + 17] ^= std::byte{1};
    check(changed);
  }
  auto longer = known;
  longer.resize(known.size() + kChunkBytes);
  check(longer);
  DigestTrail none;
  write_file(path, std::span<const std::byte>(known));
  EXPECT_EQ(sha256_file(path, {}, none), sha256_hex(known));
  std::filesystem::remove(path);
  std::filesystem::remove(known_path);
}

}  // namespace
}  // namespace oubli
