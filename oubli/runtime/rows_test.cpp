#include "oubli/runtime/rows.h"

#include <gtest/gtest.h>

namespace oubli {
namespace {

using Places = std::vector<std::size_t>;

TEST(Rows, OnePerSample) {
  const Places rows{3, 2};
  EXPECT_EQ(rows_in(rows, 1, 0).starts, (Places{0, 2, 4}));
  EXPECT_EQ(rows_in(rows, 1, 0).stride, 1U);
  EXPECT_TRUE(rows_in(rows, 1, 0).positions.empty());
  EXPECT_EQ(rows_in(rows, 0, 1).starts, (Places{0, 1}));  // columns
  EXPECT_EQ(rows_in(rows, 0, 1).stride, 2U);
}

TEST(Rows, SampleBySampleWhereverSamplesAre) {
  const Places times{2, 3, 5};  // positions x samples x classes
  EXPECT_EQ(rows_in(times, 2, 1).starts, (Places{0, 15, 5, 20, 10, 25}));
  EXPECT_EQ(rows_in(times, 2, 1).positions, (Places{2}));
  EXPECT_EQ(rows_in(times, 2, 0).starts, (Places{0, 5, 10, 15, 20, 25}));
  const Places indices{2, 3};  // a number for each
  EXPECT_EQ(rows_in(indices, std::nullopt, 1).starts, (Places{0, 3, 1, 4, 2, 5}));
}

TEST(Rows, PositionsOfMaps) {
  const Places map{2, 3, 1, 2};  // samples x classes x height x width
  const RowPlaces rows = rows_in(map, 1, 0);
  EXPECT_EQ(rows.starts, (Places{0, 1, 6, 7}));
  EXPECT_EQ(rows.stride, 2U);
  EXPECT_EQ(rows.positions, (Places{2}));
  EXPECT_EQ(rows_in(map, 1, std::nullopt).positions, (Places{2, 2}));
  EXPECT_TRUE(rows_in(Places{2, 0, 4}, 2, 0).starts.empty());
}

}  // namespace
}  // namespace oubli
