#include "oubli/base/atomic_folder.h"

#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using testing::TempFolder;

TEST(AtomicFolder, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  {
    const AtomicFolder given_up(folder / "new");
    write_file(given_up.temporary_path() / "a", "text");
    EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  AtomicFolder made(folder / "new");
  write_file(made.temporary_path() / "a", "text");
  made.commit();
  EXPECT_EQ(read_text_file(folder / "new" / "a"), "text");
  EXPECT_FALSE(std::filesystem::exists(made.temporary_path()));
}

TEST(AtomicFolder, ReplacesNothing) {
  const TempFolder folder;
  AtomicFolder late(folder / "new");
  write_file(folder / "new", "somebody's");
  EXPECT_EQ(error_of([&] { late.commit(); }).code(), ErrorCode::usage);
  EXPECT_EQ(read_text_file(folder / "new"), "somebody's");
  EXPECT_EQ(error_of([&] { const AtomicFolder again(folder / "new"); }).code(), ErrorCode::usage);
}

}  // namespace
}  // namespace oubli
