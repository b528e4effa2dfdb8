#include "oubli/filtration/class_means.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

struct Data {
  Matrix<double> rows;
  std::vector<std::uint32_t> labels;
};

Data make_data(std::size_t n, std::size_t classes, std::size_t dimensions) {
  RandomStream random(5, task_id("class means"));
  Data data{Matrix<double>(n, dimensions), std::vector<std::uint32_t>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    data.labels[i] = static_cast<std::uint32_t>(random.below(classes));
    for (double& x : data.rows.row(i)) x = 1e3 * data.labels[i] + random.normal();
  }
  return data;
}

TEST(ClassMeans, AgreesWithTwoPassesInLongDouble) {
  const Data data = make_data(2000, 3, 4);
  ClassMeans means(3, 4);
  means.add(data.rows.view(), data.labels);
  long double scatter = 0;
  for (std::uint32_t j = 0; j < 3; ++j) {
    std::vector<long double> mean(4);
    long double n = 0;
    for (std::size_t i = 0; i < 2000; ++i) {
      if (data.labels[i] != j) continue;
      ++n;
      for (std::size_t d = 0; d < 4; ++d) mean[d] += static_cast<long double>(data.rows(i, d));
    }
    long double own_scatter = 0;
    for (auto& value : mean) value /= n;
    for (std::size_t i = 0; i < 2000; ++i)
      for (std::size_t d = 0; d < 4 && data.labels[i] == j; ++d)
        own_scatter += (static_cast<long double>(data.rows(i, d)) - mean[d]) *
                       (static_cast<long double>(data.rows(i, d)) - mean[d]);
    scatter += own_scatter;
    EXPECT_EQ(means.counts()[j], static_cast<std::uint64_t>(n));
    for (std::size_t d = 0; d < 4; ++d)
      EXPECT_NEAR(means.means()(j, d), static_cast<double>(mean[d]), 1e-10);
    EXPECT_NEAR(means.standard_error(j),
                static_cast<double>(std::sqrt(own_scatter / (n - 1) / n / 4)), 1e-10);
  }
  EXPECT_NEAR(means.within_variance(), static_cast<double>(scatter / (2000 - 3) / 4), 1e-10);
}

// In single precision: up to 300 roundings of 2^-24 each.
TEST(ClassMeans, ScatterOfSingleFeaturesAddsUpAndMerges) {
  const Data data = make_data(600, 3, 5);
  ClassMeans whole(3, 5, true), first(3, 5, true), second(3, 5, true);
  whole.add(data.rows.view(), data.labels);
  first.add(data.rows.view().middle_rows(0, 250), std::span(data.labels).first(250));
  second.add(data.rows.view().middle_rows(250, 350), std::span(data.labels).subspan(250));
  first.merge(second);
  for (std::size_t j = 0; j < 3; ++j) {
    double sum = 0;
    for (std::size_t d = 0; d < 5; ++d) {
      double squares = 0;
      for (std::size_t i = 0; i < 600; ++i)
        if (data.labels[i] == j)
          squares += std::pow(static_cast<double>(data.rows(i, d)) - whole.means()(j, d), 2);
      EXPECT_NEAR(whole.feature_scatter()(j, d), squares, 300 * 6e-8 * squares);
      EXPECT_NEAR(first.feature_scatter()(j, d), squares, 300 * 6e-8 * squares);
      sum += squares;
    }
    EXPECT_NEAR(whole.scatter()[j], sum, 1e-8 * sum);
  }
  EXPECT_TRUE(ClassMeans(3, 5).feature_scatter().empty());
}

TEST(ClassMeans, BatchesAndMergesInAnyOrderAgree) {
  const Data data = make_data(999, 5, 7);
  ClassMeans whole(5, 7);
  whole.add(data.rows.view(), data.labels);
  std::vector<ClassMeans> parts(9, ClassMeans(5, 7));
  for (std::size_t part = 0; part < 9; ++part)
    parts[part].add(data.rows.view().middle_rows(part * 111, 111),
                    std::span(data.labels).subspan(part * 111, 111));
  std::vector<std::size_t> order(9);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::uint64_t trial = 0; trial < 5; ++trial) {
    ClassMeans merged(5, 7);
    for (const std::size_t part : order) merged.merge(parts[part]);
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_EQ(merged.counts()[j], whole.counts()[j]);
      for (std::size_t d = 0; d < 7; ++d)  // values up to 4e3: 1e-12 relative
        EXPECT_NEAR(merged.means()(j, d), whole.means()(j, d), 1e-12 * 4e3);
    }
    EXPECT_NEAR(merged.within_variance(), whole.within_variance(), 1e-9);
    RandomStream(trial, 0).shuffle(std::span(order));
  }
}

TEST(ClassMeans, FloatAndDoubleAgreeAndEmptyClassesSaySo) {
  const Matrix<float> rows(2, 2, {1.F, 2.F, 3.F, 4.F});
  const std::vector<std::uint32_t> labels{0, 0};
  ClassMeans means(2, 2);
  means.add(rows.view(), labels);
  EXPECT_EQ(means.means()(0, 1), 3);
  EXPECT_EQ(means.counts()[1], 0u);
  EXPECT_TRUE(std::isnan(means.standard_error(1)));
  EXPECT_EQ(means.within_variance(), 2);
}

TEST(ClassMeans, RefusesNan) {
  Matrix<double> rows(1, 2);
  rows(0, 1) = std::nan("");
  const std::vector<std::uint32_t> labels{0};
  ClassMeans means(1, 2);
  EXPECT_THROW(means.add(rows.view(), labels), Error);
}

TEST(ClassMeans, GoOnFromWhatWasKept) {
  const Matrix<double> rows(4, 1, {1, 2, 4, 8});
  const std::vector<std::uint32_t> labels{0, 1, 0, 0};
  ClassMeans whole(2, 1, true), part(2, 1, true);
  whole.add(rows.view(), labels);
  part.add(rows.view().middle_rows(0, 2), std::span(labels).first(2));
  const auto list = [](auto span) { return std::vector(span.begin(), span.end()); };
  ClassMeans again = ClassMeans::restored(part.means(), list(part.counts()), list(part.scatter()),
                                          part.feature_scatter());
  again.add(rows.view().middle_rows(2, 2), std::span(labels).last(2));
  EXPECT_EQ(again.means(), whole.means());
  EXPECT_EQ(list(again.counts()), list(whole.counts()));
  EXPECT_EQ(list(again.scatter()), list(whole.scatter()));
  EXPECT_EQ(again.feature_scatter(), whole.feature_scatter());
}

}  // namespace
}  // namespace oubli
