#include "oubli/base/digest.h"

#include <gtest/gtest.h>

#include "oubli/base/file.h"

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

}  // namespace
}  // namespace oubli
