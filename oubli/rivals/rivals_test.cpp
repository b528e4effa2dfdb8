#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "oubli/base/error.h"
#include "oubli/rivals/dampening.h"
#include "oubli/rivals/descent.h"
#include "oubli/rivals/filtering.h"
#include "oubli/rivals/rival.h"
#include "oubli/rivals/test_request.h"
#include "oubli/rivals/training.h"

namespace oubli {
namespace {

nn::Score retained_score(const nn::Network& network, const RivalInput& input) {
  const ImageSet retained = without_classes(input.train, input.split.forgotten);
  return nn::score(network.logits(retained), retained.labels);
}

class EveryRival : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Networks, EveryRival, ::testing::Bool(), [](const auto& convolutions) {
  return convolutions.param ? "Convolutions" : "Dense";
});

TEST_P(EveryRival, GivesEveryStageANetworkOfTheRetainedClassesAndACost) {
  const TestRequest& request = GetParam() ? convolution_request() : test_request();
  const RivalInput input = request.input();
  std::set<std::string> names;
  for (const Rival& rival : all_rivals()) {
    const auto results = rival.apply(input);
    ASSERT_EQ(results.size(), rival.names.size()) << rival.names[0];
    for (std::size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE(rival.names[i]);
      EXPECT_TRUE(names.insert(rival.names[i]).second);
      EXPECT_EQ(results[i].network.classes(), 3U);
      EXPECT_TRUE(std::ranges::all_of(results[i].network.logits(input.train).flat(),
                                      [](float z) { return std::isfinite(z); }));
      EXPECT_GE(results[i].gradients, i == 0 ? 0 : results[i - 1].gradients);
      EXPECT_GE(results[i].seconds, i == 0 ? 0 : results[i - 1].seconds);
    }
    // The same again, to the bit.
    EXPECT_EQ(rival.apply(input).back().network.parameters(), results.back().network.parameters());
  }
  EXPECT_GE(names.size(), 19U);
}

TEST(Rivals, AreChosenByNameBesideNaive) {
  const auto chosen = [](std::vector<std::string> names) {
    std::vector<std::string> found;
    for (const Rival& rival : rivals_named(names)) found.push_back(rival.name);
    return found;
  };
  EXPECT_THAT(chosen({"ssd", "refit"}), ::testing::ElementsAre("naive", "refit", "ssd"));
  EXPECT_EQ(chosen({}).size(), all_rivals().size());
  try {
    (void)chosen({"curvatur"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("curvature"));
  }
}

TEST(Rivals, SamplesAreOfEveryClassAndDifferBetweenRequests) {
  const TestRequest& request = test_request();
  const TrainingImages sample = sample_images(request.input(), 10);
  EXPECT_EQ(sample.forgotten.size(), 10U);
  EXPECT_EQ(sample.retained.size(), 30U);
  for (const std::size_t i : sample.forgotten) EXPECT_EQ(request.train.labels[i], 2U);
  EXPECT_NE(sample_images(request.input({1}), 10).retained, sample.retained);
}

TEST(Filtering, NaiveCutsAndNormalizationMovesAllLogitsAlike) {
  const RivalInput input = test_request().input();
  const Matrix<float> before = input.network.logits(input.train);
  std::vector<Matrix<float>> after;
  for (const Rival& rival : filtering_rivals())
    after.push_back(rival.apply(input)[0].network.logits(input.train));
  double moved = 0;
  for (std::size_t i = 0; i < before.rows(); ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      const float naive = before(i, input.split.retained[j]);
      // Another number of outputs may be added up in another order.
      EXPECT_NEAR(after[0](i, j), naive, 1e-5F);
      const float shift = after[1](i, j) - naive;
      EXPECT_NEAR(shift, after[1](i, 0) - before(i, input.split.retained[0]), 1e-4F);
      moved += std::abs(static_cast<double>(shift));
    }
  EXPECT_GT(moved, 1);
}

TEST(Training, FineTuningGoesOnFromTheNetwork) {
  const RivalInput input = test_request().input();
  const auto results = fine_tuning(input);
  const nn::Network naive = without_outputs(input.network, input.split);
  EXPECT_LT(retained_score(results[2].network, input).loss, retained_score(naive, input).loss);
  EXPECT_EQ(results[1].gradients, 900);
  EXPECT_EQ(results[2].gradients, 1800);
  EXPECT_EQ(results[0].gradients, 256);  // a quarter, in whole batches
}

double forgotten_loss(const nn::Network& network, const RivalInput& input) {
  const ImageSet images = select_images(input.train, images_of(input).forgotten);
  return nn::score(network.logits(images), images.labels).loss;
}

TEST(Training, AscentRaisesTheForgottenLoss) {
  const RivalInput input = test_request().input();
  Meter meter;
  const nn::Network ascended = ascend(input, meter);
  EXPECT_GT(forgotten_loss(ascended, input), forgotten_loss(input.network, input) + 0.1);
}

// How far answers to forgotten samples are from those of `teacher`, as probabilities.
double distance(const nn::Network& network, const nn::Network& teacher, const RivalInput& input) {
  const ImageSet images = select_images(input.train, images_of(input).forgotten);
  Matrix<float> ours = network.logits(images), theirs = teacher.logits(images);
  softmax(ours);
  softmax(theirs);
  double sum = 0;
  for (std::size_t i = 0; i < ours.flat().size(); ++i)
    sum += std::abs(static_cast<double>(ours.flat()[i]) - static_cast<double>(theirs.flat()[i]));
  return sum / static_cast<double>(images.size());
}

TEST(Training, ATransplantTeachesTheAscendedAnswers) {
  const RivalInput input = test_request().input();
  const auto results = gradient_ascent(input);
  const nn::Network naive = without_outputs(input.network, input.split);
  EXPECT_LT(distance(results[1].network, results[0].network, input),
            distance(naive, results[0].network, input));
}

TEST(Training, RandomLabelsAreEvenAndOthersTheirOwn) {
  const RivalInput input = test_request().input();
  const std::vector<std::uint32_t> labels = labels_with_random(input);
  std::vector<std::size_t> counts(3);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (input.train.labels[i] == 2)
      ++counts.at(labels[i]);
    else
      EXPECT_EQ(labels[i], *input.split.new_index(input.train.labels[i]));
  }
  // 300 labels in three classes, standard deviation 8.2: six of them, 1e-8 for all three.
  for (const std::size_t count : counts) EXPECT_NEAR(static_cast<double>(count), 100, 50);
  EXPECT_GT(retained_score(random_labels(input).network, input).accuracy, 0.6);
}

TEST(Training, ShortRetrainingKnowsNothingOfTheNetwork) {
  const TestRequest& request = test_request();
  const RivalInput input = request.input();
  const nn::Network other(small_network(), 99, 99);
  RivalInput from_other{
      .network = other, .train = input.train, .split = input.split, .recipe = input.recipe};
  const auto results = short_retraining(input);
  EXPECT_EQ(results[2].network.parameters(), short_retraining(from_other)[2].network.parameters());
  EXPECT_LT(retained_score(results[2].network, input).loss,
            retained_score(results[0].network, input).loss);
}

TEST(Training, RefitLeavesFeaturesAlone) {
  const RivalInput input = test_request().input();
  const nn::Network after = refit(input).network;
  EXPECT_EQ(after.features(input.train), input.network.features(input.train));
}

TEST(Dampening, OnlyParametersAboveTheRatioAreDampened) {
  const Matrix<double> all(1, 5, {1, 1, 1, 0, 2}), forgotten(1, 5, {9, 10, 20, 1, 0});
  const Matrix<double> factors = dampening_factors(all, forgotten, 10, 2);
  const double wanted[] = {1, 1, 0.1, 0, 1};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(factors(0, i), wanted[i]) << i;
  // lambda so large that the factor would grow: never.
  EXPECT_EQ(dampening_factors(all, forgotten, 10, 50)(0, 2), 1);
}

}  // namespace
}  // namespace oubli
