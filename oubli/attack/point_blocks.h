#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace oubli {

// Points in blocks of 64, feature-major within a block (block[feature * 64 + slot]), so that one
// SIMD instruction works on one feature of many points.
inline constexpr std::size_t kBlock = 64;

// Bounding boxes of up to 16 features: 16 lower corners, then 16 upper ones. Unused features are 0
// in the boxes and in the query.
inline constexpr std::size_t kBoxWidth = 16;
struct alignas(64) Box {
  float low[kBoxWidth];
  float high[kBoxWidth];
};

// The two inner loops of the nearest-neighbour search, single precision. They err by a relative
// (features + 4) 2^-24 at most; filter_bound() makes up for it, so that nothing is lost.
struct PointKernels {
  // Bit i of the result: the squared distance of `query` to point i of the block is <= bound.
  std::uint64_t (*near)(const float* block, const float* query, std::size_t features, float bound);
  // Squared distances of `query` (16 numbers) to two boxes.
  void (*box_distances)(const Box* boxes, const float* query, float* distances);
};

// For the processor the program runs on: AVX-512, AVX2, or whatever the compiler made of plain
// loops.
[[nodiscard]] const PointKernels& point_kernels();
// All that run here, for tests.
[[nodiscard]] std::vector<PointKernels> all_point_kernels();

// A float that no single-precision distance exceeds whose exact value is <= `squared_distance`.
[[nodiscard]] float filter_bound(double squared_distance, std::size_t features);

}  // namespace oubli
