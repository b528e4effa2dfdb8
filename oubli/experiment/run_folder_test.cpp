#include "oubli/experiment/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "oubli/base/error.h"
#include "oubli/base/file.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest() : path_(fs::temp_directory_path() / ("oubli-run-" + std::to_string(getpid()))) {
    fs::remove_all(path_);
  }
  ~RunFolderTest() override { fs::remove_all(path_); }

  static RunConfig config(std::size_t models = 2) {
    return {.experiment = "mnist",
            .forget = {0},
            .parts = {{.hidden = 50, .models = models, .second = models}},
            .samples = {kAllSamples}};
  }

  fs::path path_;
};

TEST_F(RunFolderTest, ATrialIsDoneWhenItsFilesAreThereWhole) {
  const auto folder = RunFolder::open_for_writing(path_, config());
  EXPECT_FALSE(folder.record("mlp50-seen-000"));
  write_file(folder.logits("mlp50-seen-000"), "0123456789");
  EXPECT_FALSE(folder.record("mlp50-seen-000"));  // the record comes last
  folder.record_done("mlp50-seen-000", {folder.logits("mlp50-seen-000")}, 1.5);
  ASSERT_TRUE(folder.record("mlp50-seen-000"));
  EXPECT_TRUE(folder.record("mlp50-seen-000")->done);
  write_file(folder.logits("mlp50-seen-000"), "012345678");
  EXPECT_FALSE(folder.record("mlp50-seen-000"));
  fs::remove(folder.logits("mlp50-seen-000"));
  EXPECT_FALSE(folder.record("mlp50-seen-000"));
}

TEST_F(RunFolderTest, AFailureKeepsItsReason) {
  const auto folder = RunFolder::open_for_writing(path_, config());
  folder.record_failed("mlp50-seen-001", "the loss is not a number", 0.5);
  const auto record = folder.record("mlp50-seen-001");
  ASSERT_TRUE(record);
  EXPECT_FALSE(record->done);
  EXPECT_EQ(record->reason, "the loss is not a number");
}

// A reason may quote a file name, and those hold any bytes.
TEST_F(RunFolderTest, AReasonThatIsNotUtf8IsKeptAsFarAsJsonCan) {
  const auto folder = RunFolder::open_for_writing(path_, config());
  folder.record_failed("mlp50-seen-001", "caf\xe9.npy: no space left", 0.5);
  EXPECT_EQ(folder.record("mlp50-seen-001")->reason, "caf\uFFFD.npy: no space left");
}

TEST_F(RunFolderTest, ADamagedRecordIsNamed) {
  const auto folder = RunFolder::open_for_writing(path_, config());
  const auto message = [&](const std::string& rest) {
    write_file(path_ / "trials/a.json", R"({"format": "oubli-trial", "version": 1, )" + rest);
    try {
      (void)folder.record("a");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(R"("state": 1})"), HasSubstr("a.json: state: 1 where text is wanted"));
  EXPECT_THAT(message(R"("state": "done"})"),
              HasSubstr("a.json: files: nothing where an object is wanted"));
  EXPECT_THAT(message(R"("state": "done", "files": {"x": -1}})"),
              HasSubstr("a.json: files.x: -1 where a whole number"));
}

TEST_F(RunFolderTest, ASecondProcessIsRefusedAndToldWhy) {
  const auto folder = RunFolder::open_for_writing(path_, config());
  const pid_t child = fork();
  if (child == 0) {
    try {
      const auto second = RunFolder::open_for_writing(path_, config());
      _exit(0);
    } catch (const Error& error) {
      const bool told = std::string(error.what()).find(this_process()) == std::string::npos &&
                        std::string(error.what()).find("process") != std::string::npos;
      _exit(told ? error.exit_code() : 99);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ErrorCode::usage));
  EXPECT_TRUE(folder.holder());
  EXPECT_THAT(*folder.holder(), HasSubstr(std::to_string(getpid())));
}

TEST_F(RunFolderTest, TheLockGoesWithItsProcess) {
  const pid_t child = fork();
  if (child == 0) {
    const auto folder = RunFolder::open_for_writing(path_, config());
    const auto mark = folder.mark_underway("mlp50-seen-000", "rank 1");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const auto before = RunFolder::open(path_);
  EXPECT_FALSE(before.holder());
  EXPECT_EQ(before.underway().at("mlp50-seen-000"), "rank 1");
  const auto folder = RunFolder::open_for_writing(path_, config());
  EXPECT_TRUE(folder.underway().empty());
}

TEST_F(RunFolderTest, ConfigGrowsWithLaterCommands) {
  { const auto folder = RunFolder::open_for_writing(path_, config(2)); }
  { const auto folder = RunFolder::open_for_writing(path_, config(5)); }
  { const auto folder = RunFolder::open_for_writing(path_, config(3)); }
  EXPECT_EQ(RunFolder::open(path_).config().parts[0].models, 5u);
  RunConfig other = config();
  other.experiment = "faces";
  EXPECT_THROW((void)RunFolder::open_for_writing(path_, other), Error);
}

TEST_F(RunFolderTest, RefusesNewerAndForeignFiles) {
  { const auto folder = RunFolder::open_for_writing(path_, config(2)); }
  write_file(path_ / "run.json", R"({"format": "oubli-run", "version": 99})");
  EXPECT_THROW((void)RunFolder::open(path_), Error);
  write_file(path_ / "run.json", "[]");
  EXPECT_THROW((void)RunFolder::open(path_), Error);
  write_file(path_ / "run.json", R"({"format": "oubli-run", "version": 1, "config": {}})");
  EXPECT_THROW((void)RunFolder::open(path_), Error);
}

}  // namespace
}  // namespace oubli
