#include "oubli/experiment/reproduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <new>
#include <nlohmann/json.hpp>

#include "oubli/array/npy.h"
#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/experiment/audit_task.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// One process that runs out of memory when the work begins.
class NoMemory final : public Scheduler {
 public:
  [[nodiscard]] bool is_main() const override { return true; }
  [[nodiscard]] std::string name() const override { return "test"; }
  [[nodiscard]] std::string share(const std::function<std::string()>& make) override {
    return make();
  }
  void run(const std::string&, std::span<const std::size_t>,
           const std::function<void(std::size_t)>&) override {
    throw std::bad_alloc();
  }
  void finish() override {}
  void abort(int) override {}
};

class ReproduceTest : public ::testing::Test {
 protected:
  // A name that is not UTF-8, as any file's may be.
  ReproduceTest() : path_(fs::temp_directory_path() / fmt::format("oubli-caf\xe9-{}", getpid())) {
    fs::remove_all(path_);
  }
  ~ReproduceTest() override { fs::remove_all(path_); }

  static RunConfig config() {
    return {.experiment = "mnist",
            .forget = {0},
            .parts = {{.hidden = 50, .models = 2, .second = 0}},
            .samples = {kAllSamples}};
  }

  fs::path path_;
};

// What is finished stays: that nothing was written would be untrue.
TEST_F(ReproduceTest, OutOfMemorySaysWhatStays) {
  NoMemory scheduler;
  try {
    (void)reproduce(scheduler, {.folder = path_, .config = config()}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("out of memory; what is finished stays in " +
                                        path_.string() + ": the same command does the rest"));
  }
  EXPECT_TRUE(fs::exists(path_ / "run.json"));
}

// The reason why a network could not be filtered names a file.
TEST_F(ReproduceTest, AReasonThatIsNotUtf8IsNoInternalError) {
  const auto folder = RunFolder::open_for_writing(path_, config());
  ImageSet test;
  for (std::uint32_t i = 0; i < 20; ++i) test.labels.push_back(i % 10);
  for (int c = 0; c < 10; ++c) test.class_names.push_back(std::to_string(c));
  for (const Trial& trial : trials_of(config())) {
    const Matrix<float> logits(20, 10 - trial.without.size());
    write_npy(folder.logits(trial.id), to_tensor<float>(logits.view()).view("logits"));
    folder.record_done(trial.id, {folder.logits(trial.id)}, 1);
  }
  for (const AuditTask& task : audit_tasks_of(config())) {
    if (!task.means || task.means->source != MeansSource::train) continue;
    run_audit(folder, task, test, {});  // there are no means of the training data
    const AuditRecord record = read_audit(folder, task);
    ASSERT_EQ(record.failed.size(), 2U);
    EXPECT_THAT(record.failed[0].reason, HasSubstr("oubli-caf\uFFFD-"));
    EXPECT_THAT(record.reason, HasSubstr("at least two finished networks"));
    EXPECT_TRUE(is_audited(folder, task));
    Results results;
    results.failed = record.failed;
    results.failed[0].reason = path_.string();
    EXPECT_THAT(to_text(nlohmann::json(results), 1), HasSubstr("oubli-caf\uFFFD-"));
  }
}

// Networks whose logits are noise; as many splits as asked for, where the paper has figures.
TEST_F(ReproduceTest, ThePapersRowsAreTriedInSplits) {
  RunConfig wanted = config();
  wanted.parts = {{.hidden = 50, .models = 20, .second = 2}};
  wanted.samples = {10, kAllSamples};
  wanted.splits = 3;
  const auto folder = RunFolder::open_for_writing(path_, wanted);
  ImageSet test;
  for (std::uint32_t i = 0; i < 50; ++i) test.labels.push_back(i % 10);
  for (int c = 0; c < 10; ++c) test.class_names.push_back(std::to_string(c));
  for (const Trial& trial : trials_of(wanted)) {
    RandomStream random(1, trial_number(trial));
    Matrix<float> logits(50, 10 - trial.without.size());
    for (float& value : logits.flat()) value = static_cast<float>(random.normal());
    write_npy(folder.logits(trial.id), to_tensor<float>(logits.view()).view("logits"));
    folder.record_done(trial.id, {folder.logits(trial.id)}, 1);
  }
  const auto audit_of = [&](const std::string& name) {
    const auto tasks = audit_tasks_of(wanted);
    const AuditTask& task = *std::ranges::find(tasks, name, &AuditTask::name);
    run_audit(folder, task, test, {});
    EXPECT_TRUE(is_audited(folder, task));
    return *read_audit(folder, task).audit;
  };
  const AuditResult paper = audit_of("mlp50-0-normalization-all-test");
  const AuditResult own = audit_of("mlp50-0-normalization-10-test");
  for (const ObserverLeak& leak : paper.leaks.retained)
    for (const AttackLeak& attack : leak.attacks) {
      const bool papers = leak.observer == Observer::logits && !is_per_image(attack.attack) &&
                          attack.attack != Attack::logistic;
      EXPECT_EQ(attack.splits.size(), papers ? 3U : 0U) << name_of(attack);
      EXPECT_EQ(attack.over_splits.low.has_value(), papers);
    }
  for (const ObserverLeak& leak : own.leaks.forgotten)
    for (const AttackLeak& attack : leak.attacks) EXPECT_TRUE(attack.splits.empty());
}

}  // namespace
}  // namespace oubli
