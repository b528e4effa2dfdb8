#include "oubli/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "oubli/base/error.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest()
      : folder_(fs::temp_directory_path() / ("oubli-file-test-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::bug;
}

TEST_F(FileTest, AppearsWholeOrNotAtAll) {
  const fs::path path = folder_ / "out";
  {
    AtomicFile file(path);
    file.write("half");
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_EQ(entries(), 0u);
  {
    AtomicFile file(path);
    file.write("0000 and the rest");
    file.write_at(0, as_bytes("head"));
    EXPECT_EQ(read_text_file(file.temporary_path()), "head and the rest");
    EXPECT_EQ(file.size(), 17u);
    file.commit();
  }
  EXPECT_EQ(read_text_file(path), "head and the rest");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, LargeWritesKeepTheirOrder) {
  std::string expected;
  AtomicFile file(folder_ / "large");
  for (int i = 0; i < 5; ++i) {
    const std::string piece(static_cast<std::size_t>(1 + i * 700'000), static_cast<char>('a' + i));
    file.write(piece);
    expected += piece;
  }
  file.commit();
  EXPECT_EQ(read_text_file(folder_ / "large"), expected);
}

TEST_F(FileTest, DoesNotReplaceUnlessAsked) {
  const fs::path path = folder_ / "out";
  write_file(path, "old");
  EXPECT_EQ(code_of([&] { write_file(path, "new", false); }), ErrorCode::usage);
  EXPECT_EQ(read_text_file(path), "old");
  {  // a file that appears between the start and the end is not replaced either
    AtomicFile file(folder_ / "late", false);
    write_file(folder_ / "late", "theirs");
    EXPECT_EQ(code_of([&] { file.commit(); }), ErrorCode::usage);
  }
  EXPECT_EQ(read_text_file(folder_ / "late"), "theirs");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(FileTest, PermissionsFollowModeAndUmask) {
  write_file(folder_ / "key", "secret", true, 0600);
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(FileTest, ErrorsNameTheFile) {
  EXPECT_EQ(code_of([&] { MappedFile file(folder_ / "absent"); }), ErrorCode::io);
  EXPECT_EQ(code_of([&] { MappedFile file(folder_); }), ErrorCode::io);
  EXPECT_EQ(code_of([&] { AtomicFile file(folder_ / "no" / "folder"); }), ErrorCode::io);
  write_file(folder_ / "big", std::string(100, 'x'));
  EXPECT_EQ(code_of([&] { (void)read_text_file(folder_ / "big", 99); }), ErrorCode::bad_input);
}

TEST_F(FileTest, MappedFileNoticesChanges) {
  write_file(folder_ / "in", "twelve bytes");
  const MappedFile file(folder_ / "in");
  EXPECT_EQ(as_text(file.bytes()), "twelve bytes");
  file.check_unchanged();
  std::ofstream(folder_ / "in", std::ios::app) << "more";
  EXPECT_EQ(code_of([&] { file.check_unchanged(); }), ErrorCode::bad_input);
}

TEST_F(FileTest, RemovesTemporariesOfTheDeadOnly) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);  // reaped: the number names no process now
  write_file(folder_ / (".x.oubli-tmp-" + std::to_string(child) + "-0"), "dead");
  write_file(folder_ / (".x.oubli-tmp-" + std::to_string(getppid()) + "-0"), "alive");
  write_file(folder_ / "x.oubli-tmp-1-0", "not ours: not hidden");
  EXPECT_EQ(remove_stale_temporaries(folder_), 1u);
  EXPECT_EQ(entries(), 2u);
}

}  // namespace
}  // namespace oubli
