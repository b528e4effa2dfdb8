#include "oubli/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>

#include "oubli/base/error.h"
#include "oubli/base/into_place.h"
#include "oubli/base/output.h"

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

// What is in the way of the last one: a folder, a link that leads nowhere, somebody's file.
TEST_F(FileTest, SeveralAppearTogetherOrNotAtAll) {
  std::string in_the_way;
  const auto write_three = [&](bool replace_last) {
    fs::remove_all(folder_ / "c");
    AtomicFile a(folder_ / "a"), b(folder_ / "b"), c(folder_ / "c", replace_last);
    for (AtomicFile* const file : {&a, &b, &c}) file->write("new");
    if (!in_the_way.empty())
      fs::copy(folder_ / in_the_way, folder_ / "c",
               fs::copy_options::copy_symlinks | fs::copy_options::recursive);
    AtomicFile::commit(std::array{&a, &b, &c});
  };
  write_file(folder_ / "a", "old");
  fs::create_directory(folder_ / "folder");
  fs::create_symlink("nowhere", folder_ / "link");
  write_file(folder_ / "file", "theirs");
  for (const auto& [name, replace] :
       {std::pair("folder", true), {"link", true}, {"link", false}, {"file", false}}) {
    in_the_way = name;
    EXPECT_EQ(code_of([&, replace = replace] { write_three(replace); }), ErrorCode::usage) << name;
    EXPECT_EQ(read_text_file(folder_ / "a"), "old");
    EXPECT_FALSE(fs::exists(folder_ / "b"));
    EXPECT_EQ(entries(), 5u);  // a, c and the three
  }
  in_the_way = "file";
  write_three(true);
  in_the_way.clear();
  fs::remove(folder_ / "b");
  write_three(false);
  for (const char* const name : {"a", "b", "c"}) EXPECT_EQ(read_text_file(folder_ / name), "new");
  EXPECT_EQ(entries(), 6u);
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
  // Another file under its name: whoever reads it by that name reads something else.
  const MappedFile again(folder_ / "in");
  again.check_unchanged();
  fs::copy(folder_ / "in", folder_ / "other");
  fs::last_write_time(folder_ / "other", fs::last_write_time(folder_ / "in"));
  fs::rename(folder_ / "other", folder_ / "in");
  EXPECT_EQ(code_of([&] { again.check_unchanged(); }), ErrorCode::bad_input);
}

// The temporary that a process leaves behind which is killed while it writes.
fs::path left_by_a_killed_process(const fs::path& folder) {
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder / "x");
    file.write("half");
    (void)file.temporary_path();
    _exit(0);  // without destructors
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);  // reaped: the number names no process now
  const fs::directory_iterator entry(folder);
  return entry == fs::directory_iterator() ? fs::path() : entry->path();
}

TEST_F(FileTest, RemovesTemporariesOfTheDeadOnly) {
  const fs::path dead = left_by_a_killed_process(folder_);
  AtomicFile ours(folder_ / "y");
  const std::string name = dead.filename().string();
  const std::string begin = name.substr(0, name.rfind('-', name.rfind('-') - 1));  // -PID-N follows
  write_file(folder_ / (begin + '-' + std::to_string(getppid()) + "-0"), "alive");
  write_file(folder_ / name.substr(1), "not ours: not hidden");
  ASSERT_EQ(entries(), 4u);
  EXPECT_EQ(remove_stale_temporaries(folder_), 1u);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(ours.temporary_path()));
  EXPECT_EQ(entries(), 3u);
}

// A run may have been killed after its file was in place and before it was done.
TEST_F(FileTest, PreparingAnOutputCleansUpEvenIfItExists) {
  write_file(folder_ / "x", "whole");
  fs::create_directory(folder_ / "y");
  const fs::path dead = left_by_a_killed_process(folder_ / "y");
  fs::rename(dead, folder_ / dead.filename());
  EXPECT_EQ(code_of([&] { prepare_output(folder_ / "x", false); }), ErrorCode::usage);
  EXPECT_EQ(entries(), 2u);
  prepare_output(folder_ / "x", true);
  prepare_output(folder_ / "z", false);
  EXPECT_EQ(read_text_file(folder_ / "x"), "whole");
}

// On a shared file system nobody here can tell whether a process of another machine lives.
TEST_F(FileTest, KeepsTemporariesOfOtherMachinesForAWeek) {
  const fs::path dead = left_by_a_killed_process(folder_);
  std::string name = dead.filename().string();
  const std::size_t place = name.find("tmp-") + 4;
  name[place] = name[place] == '0' ? '1' : '0';
  const fs::path elsewhere = folder_ / name;
  fs::rename(dead, elsewhere);
  EXPECT_EQ(remove_stale_temporaries(folder_), 0u);
  using std::chrono::hours;
  fs::last_write_time(elsewhere, fs::file_time_type::clock::now() - hours(24 * 7 - 1));
  EXPECT_EQ(remove_stale_temporaries(folder_), 0u);
  EXPECT_EQ(read_text_file(elsewhere), "half");
  fs::last_write_time(elsewhere, fs::file_time_type::clock::now() - hours(24 * 7 + 1));
  EXPECT_EQ(remove_stale_temporaries(folder_), 1u);
}

}  // namespace
}  // namespace oubli
