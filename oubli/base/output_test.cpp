#include "oubli/base/output.h"

#include <vector>

#include "tests/test_support.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

TEST(PrepareOutput, WantsAFolderAndNothingButAFile) {
  const TempFolder folder;
  prepare_output(folder / "new", false);
  const Error missing = error_of([&] { prepare_output(folder / "no/new", false); });
  EXPECT_EQ(missing.code(), ErrorCode::io);
  write_file(folder / "old", "text");
  prepare_output(folder / "old", true);
  EXPECT_EQ(error_of([&] { prepare_output(folder / "old", false); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { prepare_output(folder.path(), true); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { prepare_output("/dev/null", true); }).code(), ErrorCode::usage);
}

TEST(RequireApart, KnowsAFileByAnyName) {
  const TempFolder folder;
  write_file(folder / "a", "text");
  fs::create_symlink(folder / "a", folder / "link");
  fs::create_hard_link(folder / "a", folder / "hard");
  const std::vector<fs::path> inputs{"", folder / "a"};
  const auto refusal = [&](const std::vector<fs::path>& outputs) {
    const Error error = error_of([&] { require_apart(outputs, inputs); });
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return std::string(error.what());
  };
  for (const char* const name : {"a", "./a", "link", "hard"})
    EXPECT_THAT(refusal({"", folder / "b", folder / name}), HasSubstr("is the input"));
  EXPECT_THAT(refusal({folder / "b", folder / "c", folder / "./b"}), HasSubstr("two outputs"));
  require_apart(std::vector<fs::path>{"", "", folder / "b", folder / "c"}, inputs);
}

}  // namespace
}  // namespace oubli
