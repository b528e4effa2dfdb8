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

TEST(RequireApart, SeesTheFileBehindAnArray) {
  const TempFolder folder;
  write_file(folder / "a.npz", "text");
  write_file(folder / "odd:name", "text");
  const auto apart = [&](const char* output, const char* input) {
    require_apart(std::vector<fs::path>{folder / output}, std::vector<fs::path>{folder / input});
  };
  for (const char* const input : {"a.npz:seen", "a.npz:", "./a.npz:x"})
    EXPECT_EQ(error_of([&] { apart("a.npz", input); }).code(), ErrorCode::usage) << input;
  EXPECT_EQ(error_of([&] { apart("odd:name", "odd:name"); }).code(), ErrorCode::usage);
  apart("odd", "odd:name");  // which is a file of its own
  apart("b.npz", "a.npz:seen");
}

TEST(RequireApart, AFolderIsAllThatIsInIt) {
  const TempFolder folder;
  fs::create_directories(folder / "data/cat");
  fs::create_directories(folder / "database");
  write_file(folder / "elsewhere", "image");
  write_file(folder / "data/cat/1.png", "image");
  fs::create_symlink(folder / "elsewhere", folder / "data/cat/2.png");
  fs::create_directory_symlink(folder / "data", folder / "link");
  for (const char* const input : {"data", "data/", "link", "data/cat/.."}) {
    const std::vector<fs::path> inputs{folder / input};
    for (const char* const output : {"data/cat/1.png", "data/cat/2.png", "data/new", "link/cat/new",
                                     "database/../data/no/new"}) {
      const Error error =
          error_of([&] { require_apart(std::vector<fs::path>{folder / output}, inputs); });
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_THAT(error.what(), HasSubstr("is in the folder")) << input << " " << output;
    }
    require_apart(std::vector<fs::path>{folder / "new", folder / "database/new"}, inputs);
  }
}

}  // namespace
}  // namespace oubli
