#include "oubli/audit/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "oubli/audit/test_populations.h"

namespace oubli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sampling, SpreadsEvenly) {
  EXPECT_THAT(spread_evenly(3, 5), ElementsAre(0, 1, 2));
  EXPECT_THAT(spread_evenly(10, 4), ElementsAre(0, 2, 5, 7));
  EXPECT_TRUE(spread_evenly(0, 4).empty());
  for (const std::size_t count : {64U, 65U, 1000U}) {
    const auto places = spread_evenly(count, 64);
    ASSERT_EQ(places.size(), 64U);
    for (std::size_t i = 1; i < places.size(); ++i) {
      EXPECT_GE(places[i] - places[i - 1], count / 64);
      EXPECT_LE(places[i] - places[i - 1], (count + 63) / 64);
    }
    EXPECT_LT(places.back(), count);
  }
}

struct Shape {
  std::size_t classes, forgotten, samples;
  std::vector<std::uint32_t> labels = {};
  AuditSamples audit = {};

  Shape(std::size_t k, std::size_t of_forgotten, std::size_t count)
      : classes(k), forgotten(of_forgotten), samples(count) {
    for (std::uint32_t i = 0; i < samples; ++i)
      labels.push_back(i % static_cast<std::uint32_t>(classes));
    audit = {.labels = labels, .classes = classes, .forgotten = {}};
    for (std::size_t c = 0; c < forgotten; ++c) audit.forgotten.push_back(classes - forgotten + c);
  }
};

Population empty_population(std::size_t models, std::size_t samples, std::size_t columns) {
  return {.name = "seen.npy", .models = models, .samples = samples, .columns = columns, .read = {}};
}

// What the paper audits, and 100 + 100 networks of 10,000 images, is looked at whole.
TEST(Sampling, UsualAuditsAreLookedAtWhole) {
  struct Usual {
    std::size_t classes, samples, models;
  };
  for (const auto& [classes, samples, models] :
       {Usual{10, 10000, 100}, Usual{40, 400, 100}, Usual{40, 120, 267}, Usual{60, 61, 2},
        Usual{3, 60, 12}, Usual{100, 10000, 100}}) {
    const Shape shape(classes, 1, samples);
    const Population population = empty_population(models, samples, classes - 1);
    const AuditOptions options;
    const std::string warning = sampling_warning({&population, &population}, shape.audit, options);
    if (classes < 100) {
      EXPECT_EQ(warning, "") << classes;
    } else {
      EXPECT_THAT(warning, HasSubstr("looked at: 64 of 99 retained classes (all of it: --all)"));
    }
  }
}

TEST(Sampling, SaysWhatItLeavesOut) {
  const Shape shape(500, 300, 1500);
  AuditOptions options;
  const AuditedClasses audited = audited_classes(shape.audit, options);
  EXPECT_EQ(audited.forgotten.size(), kAuditedForgotten);
  EXPECT_EQ(audited.retained.size(), kAuditedRetained);
  EXPECT_EQ(audited.forgotten.front(), 200U);
  EXPECT_TRUE(std::ranges::is_sorted(audited.all()));
  EXPECT_EQ(measured_classes(shape.audit, options).size(), kMeasuredForgotten);
  const Population many = empty_population(5000, 1500, 200);
  const std::string warning = sampling_warning({&many, &many}, shape.audit, options);
  for (const char* part :
       {"32 of 300 forgotten classes, ", "64 of 200 retained classes, ",
        "1000 of 5000 networks of seen.npy, ", "8 of 300 forgotten classes in figures beside"})
    EXPECT_THAT(warning, HasSubstr(part));
  options.all = true;
  EXPECT_EQ(sampling_warning({&many, &many}, shape.audit, options), "");
  EXPECT_EQ(audited_classes(shape.audit, options).all().size(), 500U);
  options.retained = false;
  EXPECT_EQ(audited_classes(shape.audit, options).all().size(), 300U);
}

TEST(Sampling, NetworksKeepTheirNumbersAndNames) {
  Population many = empty_population(2500, 4, 1);
  many.read = [](std::size_t model, std::span<const std::uint32_t>, MatrixView<float> out) {
    std::ranges::fill(out.flat(), static_cast<float>(model));
  };
  const Population some = audited_networks(many, {});
  ASSERT_EQ(some.models, kAuditedNetworks);
  Matrix<float> out(1, 1);
  const std::array<std::uint32_t, 1> sample{0};
  some.read(999, sample, {out.data(), 1, 1});
  EXPECT_EQ(out(0, 0), 2497);
  EXPECT_EQ(some.model_name(999), "seen.npy: model 2497");
  EXPECT_EQ(audited_networks(many, {.all = true}).models, 2500U);
}

TEST(Sampling, FewColumnsHaveFewDirections) {
  EXPECT_EQ(audited_directions(2, kManyAnswers, {}).random, 1000U);
  EXPECT_EQ(audited_directions(2, kManyAnswers + 1, {}).random, 256U);
  EXPECT_EQ(audited_directions(2, kManyAnswers + 1, {}).jackknife, 8U);
  EXPECT_EQ(audited_directions(2, kManyAnswers + 1, {.all = true}).jackknife, 32U);
  EXPECT_EQ(audited_directions(1, kManyAnswers + 1, {}).random, 1U);
  EXPECT_EQ(audited_directions(9, 2'000'000, {}).random, 1000U);
  EXPECT_EQ(audited_directions(9, 2'000'000, {}).jackknife, 32U);
}

// Nearest neighbours of many columns compare n points with n others: n^2 k stays below a bound.
TEST(Sampling, ManyColumnsShowFewerImages) {
  EXPECT_EQ(pooled_images(5000, 0, 200, 9, {}), 5000U);
  EXPECT_EQ(pooled_images(5000, 150, 200, 9, {}), 150U);
  EXPECT_EQ(pooled_images(100, 0, 200, 99, {}), 100U);  // CIFAR-100
  const std::size_t images = pooled_images(5000, 0, 200, 39, {});
  EXPECT_LT(images, 5000U);
  const double points = static_cast<double>(200 * images);
  EXPECT_NEAR(points * points * 39, kMostComparisons, 0.02 * kMostComparisons);
  EXPECT_EQ(pooled_images(5000, 0, 200, 39, {.all = true}), 5000U);
  EXPECT_EQ(pooled_images(5, 0, 2000, 500000, {}), 1U);
}

TEST(Sampling, QualityTakesFewerImagesOfManyNetworksAndClasses) {
  EXPECT_EQ(quality_images(200, 1, {}), 200U);
  EXPECT_EQ(quality_images(400, 1, {}), 200U);
  EXPECT_LT(quality_images(2000, 1, {}), 200U);
  EXPECT_LT(quality_images(2000, 1, {}), quality_images(512, 1, {}));
  EXPECT_LT(quality_images(200, 8, {}), 200U);
  EXPECT_EQ(quality_images(2000, 8, {.all = true}), 200U);
}

}  // namespace
}  // namespace oubli
