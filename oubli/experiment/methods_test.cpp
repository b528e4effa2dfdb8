#include "oubli/experiment/methods.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/array/npy.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/json.h"
#include "oubli/experiment/method_files.h"
#include "oubli/nn/network_file.h"
#include "oubli/rivals/test_request.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MethodsPlan, RefusesWhatCannotBe) {
  EXPECT_NO_THROW(check(MethodsPlan{}));
  EXPECT_NO_THROW(check(MethodsPlan{.experiment = "cifar10", .methods = {"ssd", "refit"}}));
  EXPECT_THROW(check(MethodsPlan{.experiment = "faces"}), Error);
  EXPECT_THROW(check(MethodsPlan{.methods = {"sdd"}}), Error);
  EXPECT_THROW(check(MethodsPlan{.experiment = "nothing"}), Error);
  EXPECT_THROW(check(MethodsPlan{.models = 3}), Error);
  EXPECT_THROW(check(MethodsPlan{.classes = {}}), Error);
  EXPECT_THROW(check(MethodsPlan{.classes = {2, 10}}), Error);
  EXPECT_THROW(check(MethodsPlan{.classes = {2, 2}}), Error);
}

TEST(MethodsPlan, ReportsNoClassThatConstantsWereChosenOn) {
  for (const std::size_t label : MethodsPlan{}.classes)
    EXPECT_EQ(std::ranges::count(kTuningClasses, label), 0) << label;
}

TEST(MethodsPlan, TakesTheSmallestNetworksOfCifar10) {
  EXPECT_EQ(config_of(MethodsPlan{}).parts[0].hidden, 50U);
  EXPECT_EQ(config_of(MethodsPlan{.experiment = "cifar10"}).parts[0].hidden, 64U);
  EXPECT_EQ(config_of(MethodsPlan{.experiment = "cifar10", .hidden = 256}).parts[0].hidden, 256U);
}

TEST(MethodsPlan, NeedsSeenNetworksAndRetrainedOnesOfItsClasses) {
  const MethodsPlan plan{.models = 5, .classes = {0, 7}};
  RunConfig larger = config_of(plan);
  larger.parts[0].models = larger.parts[0].second = larger.each_class = 9;
  const std::vector<Trial> trials = trials_of(plan, larger);
  EXPECT_EQ(trials.size(), 15U);
  std::vector<std::string> ids;
  for (const Trial& trial : trials_of(larger)) ids.push_back(trial.id);
  for (const Trial& trial : trials) {
    EXPECT_THAT(ids, ::testing::Contains(trial.id));
    EXPECT_LT(trial.model, 5U);
    EXPECT_NE(trial.role, Role::second);
  }
}

class MethodsTest : public ::testing::Test {
 protected:
  MethodsTest() : path_(fs::temp_directory_path() / fmt::format("oubli-methods-{}", getpid())) {
    fs::remove_all(path_);
    folder_.emplace(RunFolder::open_for_writing(path_, config_of(plan_)));
    for (const Trial& trial : trials_of(plan_, folder_->config())) {
      if (trial.role != Role::seen) continue;
      nn::Network network =
          train(small_network(), data_.train,
                {.epochs = 2, .optimizer = {}, .seed = 1, .model = trial.model, .without = {}});
      nn::save_network(network, data_.train.class_names, folder_->model(trial.id));
      folder_->record_done(trial.id, {folder_->model(trial.id)}, 1);
      seen_.push_back(trial);
    }
  }
  ~MethodsTest() override { fs::remove_all(path_); }

  // Retrained networks whose logits are those of the seen ones, moved.
  void save_retrained(std::size_t label, float by) {
    for (const Trial& trial : trials_of(plan_, folder_->config())) {
      if (trial.without != std::vector{label}) continue;
      const Matrix<float> seen =
          nn::load_network(folder_->model(seen_[trial.model].id)).network.logits(data_.test);
      Matrix<float> logits(seen.rows(), 3);
      const ClassSplit split = split_classes(4, std::vector{label});
      for (std::size_t i = 0; i < logits.rows(); ++i)
        for (std::size_t j = 0; j < 3; ++j)
          logits(i, j) = seen(i, split.retained[j]) + (j == 0 ? by : 0);
      write_npy(folder_->logits(trial.id), to_tensor<float>(logits.view()).view("logits"));
      folder_->record_done(trial.id, {folder_->logits(trial.id)}, 1);
    }
  }

  MethodsPlan plan_{.models = 8, .classes = {2}};
  TrialData data_{quarter_images(400, 1), quarter_images(200, 2)};
  fs::path path_;
  std::optional<RunFolder> folder_;
  std::vector<Trial> seen_;
};

TEST_F(MethodsTest, UnlearnsOnceAndAgainWhereFilesAreGoneOrDamaged) {
  const std::vector<Rival> rivals = all_rivals();
  const std::string& id = seen_[0].id;
  EXPECT_FALSE(is_unlearned(*folder_, id, 2, rivals));
  unlearn(*folder_, seen_[0], 2, rivals, data_, {});
  EXPECT_TRUE(is_unlearned(*folder_, id, 2, rivals));
  EXPECT_FALSE(is_unlearned(*folder_, id, 3, rivals));
  const MethodFiles files(*folder_);
  const auto naive = files.read(2, "naive", id);
  ASSERT_TRUE(naive.has_value());
  EXPECT_EQ(naive->gradients, 0);
  EXPECT_GT(naive->accuracy, 0.5);
  const Tensor logits{DType::f32, {200, 3}, {}};
  EXPECT_EQ(load_array(files.logits(2, "SSD, alpha 10", id).string()).shape, logits.shape);
  write_file(files.record(2, "naive", id), "{\"format\": 3");
  EXPECT_FALSE(is_unlearned(*folder_, id, 2, rivals));
  unlearn(*folder_, seen_[0], 2, rivals, data_, {});
  fs::remove(files.logits(2, "LEACE", id));
  EXPECT_FALSE(is_unlearned(*folder_, id, 2, rivals));
}

TEST_F(MethodsTest, ARivalThatFailsIsRecordedWithItsReason) {
  const std::vector<Rival> rivals{
      {.names = {"first", "second"}, .apply = [](const RivalInput&) -> std::vector<Unlearned> {
         fail(ErrorCode::unfilterable, "it diverged");
       }}};
  unlearn(*folder_, seen_[0], 2, rivals, data_, {});
  EXPECT_TRUE(is_unlearned(*folder_, seen_[0].id, 2, rivals));
  EXPECT_EQ(MethodFiles(*folder_).read(2, "second", seen_[0].id)->reason, "it diverged");
  EXPECT_TRUE(method_audit(*folder_, plan_, 2, "second").seen.empty());
}

TEST_F(MethodsTest, LeaksAreNothingForEqualNetworksAndCertainForMovedOnes) {
  const std::vector<Rival> naive{all_rivals()[0]};
  for (const Trial& trial : seen_) unlearn(*folder_, trial, 2, naive, data_, {});
  const auto leak = [&](float by) {
    save_retrained(2, by);
    const MethodAudit audit = method_audit(*folder_, plan_, 2, "naive");
    EXPECT_EQ(audit.seen.size(), 8U);
    EXPECT_EQ(audit.unseen.size(), 8U);
    run_audit(*folder_, audit, data_.test, {});
    const Leaks leaks = read_leaks(*folder_, audit).value();
    return *find(find(leaks.classes[0].observers, Observer::probabilities), Attack::per_image, 10)
                ->advantage.value;
  };
  EXPECT_GT(leak(100), 0.99);
  // The same networks on both sides: an attack may be right or wrong about all answers of a test
  // network, but not on the mean over both sides by more than their split gives.
  EXPECT_LT(leak(0), 0.7);
  // Other networks: what is there is no longer of these.
  fs::remove(folder_->logits("mlp50-unseen-2-000"));
  EXPECT_FALSE(read_leaks(*folder_, method_audit(*folder_, plan_, 2, "naive")).has_value());
}

TEST(MethodsResult, RoundTripAndTable) {
  MethodsResult result{.experiment = "mnist", .seed = 4, .epochs = 6, .classes = {2, 3}};
  result.tuning_classes = {0};
  result.class_names = {"two", "three"};
  result.seen = result.unseen = 60;
  result.retraining_gradients = 100;
  result.retraining_seconds = 2;
  EXPECT_EQ(result.hidden, 0U);
  MethodRow row{.name = "naive", .networks = 120, .failed = {"a: b"}, .gradients = 0.25};
  row.ten_answers = {0.5, 0.4, 0.6, ""};
  row.by_class = {Figure::of(0.4), Figure::missing("why")};
  result.methods.push_back(row);
  result.floor.name = "floor";
  const nlohmann::json json = result;
  EXPECT_EQ(nlohmann::json(json.get<MethodsResult>()), json);
  EXPECT_EQ(json.at("format"), "oubli-methods");
  const TextTable table = to_table(result);
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0][1], "25");
  EXPECT_EQ(table.rows[0][3], "0.50 [0.40, 0.60]");
  EXPECT_THAT(explanation(result), HasSubstr("classes 2, 3 forgotten in turn"));
  result.classes = {0};
  result.retraining_seconds = 0;
  EXPECT_THAT(explanation(result), HasSubstr("class 0 forgotten in turn"));
  EXPECT_THAT(explanation(result), Not(HasSubstr("processor time")));
}

}  // namespace
}  // namespace oubli
