#include "oubli/experiment/explained_logits.h"

#include <cmath>

#include "oubli/array/npy.h"
#include "oubli/base/random.h"
#include "oubli/experiment/audit_task.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"
#include "oubli/nn/network_file.h"
#include "oubli/nn/spec.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

// Ten classes of images, `each` of every class: noise around a pattern of its own.
ImageSet images(std::size_t each) {
  ImageSet set{"patterns", 1, 28, 28, {}, {}, {}};
  RandomStream random(5, task_id("patterns", {each}));
  std::vector<std::vector<double>> patterns(10, std::vector<double>(784));
  for (auto& pattern : patterns)
    for (double& pixel : pattern) pixel = 128 + 60 * random.normal();
  for (std::size_t i = 0; i < 10 * each; ++i) {
    set.labels.push_back(static_cast<std::uint32_t>(i % 10));
    for (std::size_t d = 0; d < 784; ++d)
      set.pixels.push_back(static_cast<std::uint8_t>(
          std::clamp(patterns[i % 10][d] + 30 * random.normal(), 0.0, 255.0)));
  }
  for (int c = 0; c < 10; ++c) set.class_names.push_back(std::to_string(c));
  return set;
}

// Test images and others to train on, and who was asked for.
struct Samples {
  ImageSet test, train;
  std::vector<MeansSource> asked = {};
  SamplesOf of = [this](MeansSource source) -> const ImageSet& {
    asked.push_back(source);
    return source == MeansSource::train ? train : test;
  };
};

Matrix<double> explained_of(const nn::Network& network, const ImageSet& samples, double rho) {
  const std::vector<std::size_t> forget{0};
  return explained_logits(network, network.features(samples).view(), samples.labels, forget, rho);
}

RunConfig config(std::vector<std::size_t> forget, std::vector<double> explain) {
  return {.experiment = "mnist",
          .forget = std::move(forget),
          .parts = {{.hidden = 50, .models = 2, .second = 0}},
          .samples = {kAllSamples},
          .explain = std::move(explain)};
}

// What an audit does to logits is what the program does to the last layer.
TEST(ExplainedLogits, GiveTheFilterThatForgetMakes) {
  const ImageSet test = images(30);
  const nn::Network network(nn::mlp_network(10), 1, 2);
  const Matrix<float> features = network.features(test), logits = network.logits(test);
  ClassMeans of_features(10, features.cols()), of_logits(10, 10);
  of_features.add(features.view(), test.labels);
  of_logits.add(logits.view(), test.labels);
  const std::span<const float> bias = network.head_bias();
  const HeadView head{.weights = tensor_view<float>(network.head_weights(), "W"),
                      .bias = TensorView{DType::f32, {10}, std::as_bytes(bias), "b"}};
  const std::vector<std::size_t> together{2, 7};
  const Matrix<double> all = explained_logits(network, features.view(), test.labels, together, 0.1);
  ASSERT_EQ(all.rows(), 12U);
  for (const std::vector<std::size_t>& forget : {std::vector<std::size_t>{3}, together}) {
    const FiltrationPlan plan = plan_filtration(
        head,
        Calibration{.means = tensor_view<double>(of_features.means().view(), "means"),
                    .within_variance = of_features.within_variance(),
                    .sample = tensor_view<float>(features.view(), "features"),
                    .sample_labels = test.labels},
        forget, {.method = Method::explained, .explain = 0.1}, Solver::paper, Centring::never);
    const auto filtration = Filtration::solve_on_logits(
        {.space = Space::logits, .means = tensor_view<double>(of_logits.means().view(), "means")},
        forget, Solver::paper);
    Target target{.method = Method::explained};
    target.explained = all.view().middle_rows(forget.size() == 1 ? 3 : 10, forget.size());
    const Matrix<float> ours = filtration.logit_filter(target)->apply(logits.view());
    const Matrix<float> theirs = plan.on_logits->apply(logits.view());
    // Means of logits in single precision, magnified by the inverse of A.
    const double conditioning = filtration.report().conditioning;
    double scale = 0;
    for (const float value : theirs.flat())
      scale = std::max(scale, std::abs(static_cast<double>(value)));
    for (std::size_t i = 0; i < ours.flat().size(); ++i)
      ASSERT_NEAR(ours.flat()[i], theirs.flat()[i], 64 * 6e-8 / conditioning * scale) << i;
  }
}

TEST(ExplainedLogits, AreCompletedFromKeptNetworks) {
  const TempFolder place;
  Samples samples{.test = images(12), .train = images(14)};
  const auto folder = RunFolder::open_for_writing(place / "run", config({0}, {0.07, 0.15}));
  const nn::Network network(nn::mlp_network(10), 3, 4);
  EXPECT_TRUE(not_explained(folder).empty());  // nothing is trained
  folder.record_done("mlp50-seen-000", {}, 1);
  folder.record_done("mlp50-unseen-0-000", {}, 1);
  const auto waiting = not_explained(folder);
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0].id, "mlp50-seen-000");
  const std::vector<std::size_t> forget{4};
  const std::string& id = waiting[0].id;
  const auto missing = [&] { (void)read_explained(folder, id, 0.15, MeansSource::test, forget); };
  EXPECT_EQ(error_of(missing).code(), ErrorCode::missing);
  EXPECT_THAT(error_of(missing).what(), HasSubstr("trials/mlp50-seen-000.json"));

  nn::save_network(network, samples.test.class_names, folder.model(id));
  explain_kept(folder, id, samples.of);
  EXPECT_TRUE(not_explained(folder).empty());
  for (const MeansSource source : kMeansSources) {
    const Matrix<double> direct = explained_of(network, samples.of(source), 0.15);
    const Matrix<double> read = read_explained(folder, id, 0.15, source, forget);
    EXPECT_TRUE(std::ranges::equal(read.row(0), direct.row(4))) << name_of(source);
  }
}

// A run folder of the time when S was made of test data alone: what is there stays as it is.
TEST(ExplainedLogits, OnlyWhatIsMissingIsMade) {
  const TempFolder place;
  Samples samples{.test = images(12), .train = images(14)};
  const auto folder = RunFolder::open_for_writing(place / "run", config({0}, {0.07}));
  const nn::Network network(nn::mlp_network(10), 3, 4);
  const std::string id = "mlp50-seen-000";
  folder.record_done(id, {}, 1);
  nn::save_network(network, samples.test.class_names, folder.model(id));
  EXPECT_EQ(folder.explained(id, 0.07, MeansSource::test).filename(), "mlp50-seen-000-0.07.npy");
  EXPECT_EQ(folder.explained(id, 0.07, MeansSource::train).filename(),
            "mlp50-seen-000-0.07-train.npy");
  write_npy(folder.explained(id, 0.07, MeansSource::test),
            to_tensor<double>(Matrix<double>(10, 10).view()).view("older"));
  ASSERT_EQ(not_explained(folder).size(), 1U);
  explain_kept(folder, id, samples.of);
  EXPECT_EQ(samples.asked, std::vector{MeansSource::train});
  const std::vector<std::size_t> forget{0};
  const auto read = [&](MeansSource source) {
    return read_explained(folder, id, 0.07, source, forget);
  };
  EXPECT_EQ(read(MeansSource::test)(0, 1), 0);
  EXPECT_EQ(read(MeansSource::train)(0, 1), explained_of(network, samples.train, 0.07)(0, 1));
}

TEST(ExplainedLogits, TooFewSamplesAreSaid) {
  const TempFolder place;
  const auto folder = RunFolder::open_for_writing(place / "run", config({0}, {0.07}));
  Samples samples{.test = images(5), .train = images(12)};
  const std::vector<std::size_t> forget{1};
  (void)save_explained(folder, "mlp50-seen-001", nn::Network(nn::mlp_network(10), 3, 4),
                       samples.of);
  const auto read = [&](MeansSource source) {
    (void)read_explained(folder, "mlp50-seen-001", 0.07, source, forget);
  };
  EXPECT_EQ(error_of([&] { read(MeansSource::test); }).code(), ErrorCode::unfilterable);
  EXPECT_NO_THROW(read(MeansSource::train));
}

// An audit that left networks out is made again once they are complete.
TEST(ExplainedLogits, AuditsKnowWhatWasMissing) {
  const TempFolder place;
  const auto folder = RunFolder::open_for_writing(place / "run", config({0}, {0.07}));
  Samples samples{.test = images(12), .train = images(14)};
  const ImageSet& test = samples.test;
  const auto tasks = audit_tasks_of(folder.config());
  const auto named = [&](const std::string& name) {
    const auto task = std::ranges::find(tasks, name, &AuditTask::name);
    if (task == tasks.end()) throw std::out_of_range(name);
    return *task;
  };
  const AuditTask from_test = named("mlp50-0-explained-0.07-all-test");
  const AuditTask from_train = named("mlp50-0-explained-0.07-all-train");
  EXPECT_EQ(treatment_of("explained-0.07"), Treatment(Explained{0.07}));
  EXPECT_EQ(error_of([] { (void)treatment_of("explained-much"); }).code(), ErrorCode::usage);
  std::uint64_t model = 0;
  for (const Trial& trial : trials_of(folder.config())) {
    const nn::Network network(nn::mlp_network(10 - trial.without.size()), 9, model++);
    write_npy(folder.logits(trial.id),
              to_tensor<float>(network.logits(test).view()).view("logits"));
    folder.record_done(trial.id, {folder.logits(trial.id)}, 1);
    if (trial.role != Role::seen) continue;
    nn::save_network(network, test.class_names, folder.model(trial.id));
    ClassMeans means(10, 10);
    means.add(network.logits(samples.train).view(), samples.train.labels);
    write_npy(folder.means(trial.id), to_tensor<double>(means.means().view()).view("means"));
  }
  for (const AuditTask& task : {from_test, from_train}) {
    run_audit(folder, task, test, {});
    EXPECT_EQ(read_audit(folder, task).failed.size(), 2U);
    EXPECT_TRUE(is_audited(folder, task));
  }
  for (const Trial& trial : not_explained(folder)) explain_kept(folder, trial.id, samples.of);
  for (const AuditTask& task : {from_test, from_train}) {
    EXPECT_FALSE(is_audited(folder, task));
    run_audit(folder, task, test, {});
    EXPECT_EQ(read_audit(folder, task).seen, 2U) << task.name;
  }
}

// The row from training data is the program's filter of features of training data, and none other.
TEST(ExplainedLogits, TrainingDataGiveTheFilterThatForgetMakesOfThem) {
  const TempFolder place;
  Samples samples{.test = images(12), .train = images(40)};
  const nn::Network network(nn::mlp_network(10), 3, 4);
  const Matrix<float> features = network.features(samples.train);
  ClassMeans means(10, features.cols());
  means.add(features.view(), samples.train.labels);
  const std::span<const float> bias = network.head_bias();
  const HeadView head{.weights = tensor_view<float>(network.head_weights(), "W"),
                      .bias = TensorView{DType::f32, {10}, std::as_bytes(bias), "b"}};
  const std::vector<std::size_t> forget{6};
  const Calibration calibration{.means = tensor_view<double>(means.means().view(), "means"),
                                .within_variance = means.within_variance(),
                                .sample = tensor_view<float>(features.view(), "features"),
                                .sample_labels = samples.train.labels};
  const FiltrationPlan plan = plan_filtration(
      head, calibration, forget, {.method = Method::explained}, Solver::paper, Centring::never);
  const auto folder = RunFolder::open_for_writing(place / "run", config({0}, {kExplain}));
  (void)save_explained(folder, "mlp50-seen-000", network, samples.of);
  const Matrix<double> read =
      read_explained(folder, "mlp50-seen-000", kExplain, MeansSource::train, forget);
  EXPECT_TRUE(std::ranges::equal(read.row(0), plan.explanation->logits.row(0)));
  EXPECT_FALSE(std::ranges::equal(
      read.row(0),
      read_explained(folder, "mlp50-seen-000", kExplain, MeansSource::test, forget).row(0)));
}

}  // namespace
}  // namespace oubli
