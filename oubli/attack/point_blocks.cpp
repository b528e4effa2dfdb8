#include "oubli/attack/point_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oubli/base/x86.h"

namespace oubli {
namespace {

std::uint64_t near_plain(const float* block, const float* query, std::size_t features,
                         float bound) {
  float sums[kBlock] = {};
  for (std::size_t f = 0; f < features; ++f) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float difference = block[f * kBlock + i] - query[f];
      sums[i] += difference * difference;
    }
  }
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    mask |= static_cast<std::uint64_t>(sums[i] <= bound) << i;
  return mask;
}

void box_distances_plain(const Box* boxes, const float* query, float* distances) {
  for (std::size_t b = 0; b < 2; ++b) {
    float sum = 0;
    for (std::size_t f = 0; f < kBoxWidth; ++f) {
      const float outside =
          std::max({boxes[b].low[f] - query[f], query[f] - boxes[b].high[f], 0.0F});
      sum += outside * outside;
    }
    distances[b] = sum;
  }
}

#if OUBLI_X86
__attribute__((target("avx2,fma"))) std::uint64_t near_avx2(const float* block, const float* query,
                                                            std::size_t features, float bound) {
  __m256 sums[8];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (std::size_t f = 0; f < features; ++f, block += kBlock) {
    const __m256 q = _mm256_set1_ps(query[f]);
    for (std::size_t i = 0; i < 8; ++i) {
      const __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(block + 8 * i), q);
      sums[i] = _mm256_fmadd_ps(difference, difference, sums[i]);
    }
  }
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const __m256 within = _mm256_cmp_ps(sums[i], _mm256_set1_ps(bound), _CMP_LE_OQ);
    mask |= static_cast<std::uint64_t>(_mm256_movemask_ps(within)) << (8 * i);
  }
  return mask;
}

__attribute__((target("avx2,fma"))) void box_distances_avx2(const Box* boxes, const float* query,
                                                            float* distances) {
  const __m256 q0 = _mm256_loadu_ps(query), q1 = _mm256_loadu_ps(query + 8);
  const __m256 zero = _mm256_setzero_ps();
  for (std::size_t b = 0; b < 2; ++b) {
    const __m256 o0 =
        _mm256_max_ps(zero, _mm256_max_ps(_mm256_sub_ps(_mm256_load_ps(boxes[b].low), q0),
                                          _mm256_sub_ps(q0, _mm256_load_ps(boxes[b].high))));
    const __m256 o1 =
        _mm256_max_ps(zero, _mm256_max_ps(_mm256_sub_ps(_mm256_load_ps(boxes[b].low + 8), q1),
                                          _mm256_sub_ps(q1, _mm256_load_ps(boxes[b].high + 8))));
    const __m256 sum = _mm256_fmadd_ps(o0, o0, _mm256_mul_ps(o1, o1));
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    half = _mm_add_ss(half, _mm_movehdup_ps(half));
    distances[b] = _mm_cvtss_f32(half);
  }
}

// g++ 12 takes the undefined vectors inside its own AVX-512 header for ours.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

__attribute__((target("avx512f"))) std::uint64_t near_avx512(const float* block, const float* query,
                                                             std::size_t features, float bound) {
  __m512 sums[4];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (std::size_t f = 0; f < features; ++f, block += kBlock) {
    const __m512 q = _mm512_set1_ps(query[f]);
    for (std::size_t i = 0; i < 4; ++i) {
      const __m512 difference = _mm512_sub_ps(_mm512_loadu_ps(block + 16 * i), q);
      sums[i] = _mm512_fmadd_ps(difference, difference, sums[i]);
    }
  }
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < 4; ++i)
    mask |=
        static_cast<std::uint64_t>(_mm512_cmp_ps_mask(sums[i], _mm512_set1_ps(bound), _CMP_LE_OQ))
        << (16 * i);
  return mask;
}

__attribute__((target("avx512f"))) void box_distances_avx512(const Box* boxes, const float* query,
                                                             float* distances) {
  const __m512 q = _mm512_loadu_ps(query);
  for (std::size_t b = 0; b < 2; ++b) {
    const __m512 outside = _mm512_max_ps(
        _mm512_setzero_ps(), _mm512_max_ps(_mm512_sub_ps(_mm512_load_ps(boxes[b].low), q),
                                           _mm512_sub_ps(q, _mm512_load_ps(boxes[b].high))));
    distances[b] = _mm512_reduce_add_ps(_mm512_mul_ps(outside, outside));
  }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif  // OUBLI_X86

}  // namespace

std::vector<PointKernels> all_point_kernels() {
  std::vector<PointKernels> kernels;
#if OUBLI_X86
  if (__builtin_cpu_supports("avx512f")) kernels.push_back({near_avx512, box_distances_avx512});
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    kernels.push_back({near_avx2, box_distances_avx2});
#endif
  kernels.push_back({near_plain, box_distances_plain});
  return kernels;
}

const PointKernels& point_kernels() {
  static const PointKernels best = all_point_kernels().front();
  return best;
}

float filter_bound(double squared_distance, std::size_t features) {
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  const double bound = squared_distance * (1 + static_cast<double>(features + 6) * 0x1p-23) +
                       static_cast<double>(std::numeric_limits<float>::min());
  // A float sum that overflowed belongs to a distance near or beyond the largest float.
  if (!(bound < kLargest / 2)) return std::numeric_limits<float>::infinity();
  return static_cast<float>(bound);
}

}  // namespace oubli
