#include "oubli/base/scratch_file.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "oubli/base/file.h"
#include "oubli/base/file_chunks.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

// TMPDIR for a while.
class TemporaryFolderIs {
 public:
  explicit TemporaryFolderIs(const std::filesystem::path& folder) {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  ~TemporaryFolderIs() {
    before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
  }

 private:
  std::string before_;
};

TEST(ScratchFile, HoldsWhatWasWrittenAndHasNoName) {
  const TempFolder folder;
  const TemporaryFolderIs here(folder.path());
  ScratchFile file("test");
  std::string all;
  for (int i = 0; i < 5000; ++i) {
    const std::string piece = std::to_string(i);
    file.write(as_bytes(piece));
    all += piece;
  }
  EXPECT_EQ(as_text(file.map()), all);
  release_pages(file.bytes());
  EXPECT_EQ(as_text(file.bytes()), all) << "pages given back must come again";
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ScratchFile, NothingWrittenIsNothingMapped) {
  ScratchFile file("test");
  EXPECT_TRUE(file.map().empty());
}

TEST(ScratchFile, AFullDiskIsAnError) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &tight);
  const Error error = error_of([] {
    ScratchFile file("the features");
    file.write(as_bytes(std::string(2000, 'x')));
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_THAT(error.what(), HasSubstr("the features"));
  EXPECT_THAT(error.what(), HasSubstr("TMPDIR"));
}

TEST(ScratchFile, AFolderThatIsNotThereIsAnError) {
  const TempFolder folder;
  const TemporaryFolderIs here(folder / "missing");
  const Error error = error_of([] { const ScratchFile file("the features"); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_THAT(error.what(), HasSubstr("TMPDIR"));
}

}  // namespace
}  // namespace oubli
