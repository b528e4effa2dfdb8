#include "oubli/base/patches.h"

#include "oubli/base/random.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using testing::TempFolder;

// Through memory or a mapped file: the same.
std::string copy_with(const Patches& patches, const std::string& original, bool mapped = false) {
  const TempFolder folder;
  AtomicFile out(folder / "copy");
  write_file(folder / "original", original);
  if (mapped)
    patches.write_copy(MappedFile(folder / "original"), out);
  else
    patches.write_copy(as_bytes(original), out);
  out.commit();
  return read_text_file(folder / "copy");
}

TEST(Patches, ChangeWhatIsNamedAndNothingElse) {
  // Against the obvious way, over several pieces of a megabyte.
  std::string expected(3'500'000, '\0');
  RandomStream random(1, task_id("patches"));
  for (char& c : expected) c = static_cast<char>(random.below(256));
  const std::string original = expected;
  const std::string large(2'200'000, 'L');
  Patches patches;
  patches.put(3'000'000, as_bytes("tail"));
  patches.put(0, as_bytes("head"));
  patches.put_view(5, as_bytes(large));
  patches.zero(2'300'001, 77);
  patches.zero(10, 0);
  expected.replace(0, 4, "head");
  expected.replace(5, large.size(), large);
  expected.replace(2'300'001, 77, std::string(77, '\0'));
  expected.replace(3'000'000, 4, "tail");
  EXPECT_EQ(copy_with(patches, original), expected);
  EXPECT_EQ(copy_with(patches, original, true), expected);
  EXPECT_EQ(as_text(patches.read(as_bytes(original), 2'200'000, 800'002)),
            expected.substr(2'200'000, 800'002));
  EXPECT_TRUE(patches.touch(2'300'077, 1));
  EXPECT_FALSE(patches.touch(2'300'078, 100));

  Patches behind;
  behind.put_shifted(patches, 9);
  EXPECT_EQ(copy_with(behind, "in front " + original), "in front " + expected);
}

TEST(Patches, RefuseToOverlapOrLeaveTheFile) {
  const std::string original = "0123456789";
  for (const auto& [first, second] : {std::pair(0, 3), std::pair(3, 0), std::pair(2, 2)}) {
    Patches patches;
    patches.put(static_cast<std::uint64_t>(first), as_bytes("abcd"));
    patches.put(static_cast<std::uint64_t>(second), as_bytes("efgh"));
    EXPECT_EQ(error_of([&] { (void)copy_with(patches, original); }).code(), ErrorCode::bug);
  }
  Patches outside;
  outside.zero(8, 3);
  EXPECT_EQ(error_of([&] { (void)copy_with(outside, original); }).code(), ErrorCode::bug);
}

}  // namespace
}  // namespace oubli
