#include "oubli/forget/checked_batches.h"

#include <gtest/gtest.h>

#include <vector>

#include "oubli/array/labels.h"

namespace oubli {
namespace {

using First = std::set<std::size_t>;

std::vector<std::uint32_t> sorted_labels(std::size_t classes, std::size_t per_class) {
  std::vector<std::uint32_t> labels;
  for (std::size_t c = 0; c < classes; ++c)
    labels.insert(labels.end(), per_class, static_cast<std::uint32_t>(c));
  return labels;
}

std::size_t classes_among(const First& first, std::span<const std::uint32_t> labels,
                          std::size_t batch) {
  std::set<std::uint32_t> found;
  for (const std::size_t begin : first)
    for (std::size_t i = begin; i < std::min(labels.size(), begin + batch); ++i)
      found.insert(labels[i]);
  return found.size();
}

TEST(CheckedBatches, AreASixteenthWithinBounds) {
  const auto count = [](std::size_t samples, std::size_t batch) {
    const std::vector<std::uint32_t> labels(samples, 0);
    return checked_batches(labels, {samples, batch, 1, 1}).size();
  };
  EXPECT_EQ(count(1, 1), 1U);
  EXPECT_EQ(count(20, 1), 20U);     // all
  EXPECT_EQ(count(400, 1), 32U);    // at least 32 samples
  EXPECT_EQ(count(800, 1), 50U);    // a sixteenth
  EXPECT_EQ(count(50000, 1), 96U);  // at most 96
  EXPECT_EQ(count(800, 8), 7U);     // whole batches
  EXPECT_EQ(count(90, 32), 3U);     // three batches: all
  EXPECT_EQ(count(5000, 32), 3U);
  EXPECT_EQ(count(64, 32), 2U);
  EXPECT_EQ(count(5000, 256), 3U);  // however large they are
}

TEST(CheckedBatches, AreFromEverywhereAndHaveAllClassesWhereTheyCan) {
  for (const std::size_t per_class : {9U, 37U, 60U, 61U, 500U}) {
    const std::vector<std::uint32_t> labels = sorted_labels(10, per_class);
    const First first = checked_batches(labels, {labels.size(), 4, 10, 100});
    EXPECT_LT(*first.begin(), labels.size() / 4);
    EXPECT_GE(*first.rbegin() + 4, labels.size() * 3 / 4);
    if (first.size() >= 10) {
      EXPECT_EQ(classes_among(first, labels, 4), 10U) << per_class;
    }
  }
  // A class of a few samples is met, too.
  std::vector<std::uint32_t> labels(5000, 0);
  labels[3333] = 1;
  EXPECT_TRUE(checked_batches(labels, {5000, 1, 2, 1}).contains(3333));
}

TEST(CheckedBatches, PositionsCountAndNoLabelDoesNot) {
  // 100 samples of four positions each, without a label but in one sample.
  std::vector<std::uint32_t> labels(400, kNoLabel);
  labels[4 * 57 + 2] = 5;
  const First first = checked_batches(labels, {100, 1, 6, 1});
  EXPECT_TRUE(first.contains(57));
  EXPECT_EQ(first.size(), 32U);
}

TEST(CheckedBatches, FitIntoMemory) {
  const std::vector<std::uint32_t> labels(1000, 0);
  EXPECT_EQ(checked_batches(labels, {1000, 4, 1, kCheckedBytes / 20}).size(), 5U);
  EXPECT_EQ(checked_batches(labels, {1000, 4, 1, 2 * kCheckedBytes}), First{0});
}

}  // namespace
}  // namespace oubli
