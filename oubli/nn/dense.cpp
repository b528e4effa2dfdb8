#include "oubli/nn/dense.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "oubli/base/error.h"
#include "oubli/base/x86.h"
#include "oubli/nn/convolution.h"

namespace oubli::nn {
namespace {

constexpr std::size_t kLanes = 16;

// So few outputs beyond whole vectors are computed one by one, each as a sum over vectors of
// inputs; more of them fill a vector of outputs well enough.
constexpr std::size_t kMostSingles = 4;

// Outputs that are computed in vectors.
std::size_t columns_of(std::size_t units) {
  const std::size_t rest = units % kLanes;
  return rest <= kMostSingles ? units - rest : units;
}

// Of so many vectors of outputs, how many the next group takes: up to four, and not one if others
// could share theirs.
std::size_t group_width(std::size_t vectors) {
  if (vectors <= 4) return vectors;
  return vectors <= 6 ? 3 : 4;
}

std::size_t vectors_for(std::size_t count) { return (count + kLanes - 1) / kLanes; }

#if OUBLI_X86

// g++ 12 takes the undefined vectors inside its own AVX-512 header for ours.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

struct Layer {
  std::size_t inputs;
  std::size_t units;
  float least;  // of an output: 0 with relu
};

// kImages images x kVectors vectors of outputs, all of whose sums stay in registers. `ahead`: how
// far after these images are those that come next.
template <std::size_t kVectors, std::size_t kImages>
__attribute__((target("avx512f"))) void multiply_tile(const Layer& layer, const float* images,
                                                      std::size_t ahead, const float* weights,
                                                      const float* bias, std::size_t outputs,
                                                      float* output) {
  __m512 sums[kImages][kVectors];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kImages; ++i)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) sums[i][v] = _mm512_setzero_ps();
  const std::size_t inputs = layer.inputs;
  for (std::size_t k = 0; k < inputs; ++k, weights += kVectors * kLanes) {
    if (k % kLanes == 0)
      for (std::size_t i = 0; i < kImages; ++i)
        __builtin_prefetch(images + ahead + i * inputs + k, 0, 2);
    __m512 w[kVectors];
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; ++v) w[v] = _mm512_load_ps(weights + v * kLanes);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kImages; ++i) {
      const __m512 x = _mm512_set1_ps(images[i * inputs + k]);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kVectors; ++v) sums[i][v] = _mm512_fmadd_ps(w[v], x, sums[i][v]);
    }
  }
  const __m512 least = _mm512_set1_ps(layer.least);
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::size_t here = std::min(kLanes, outputs - v * kLanes);
    const auto mask = static_cast<__mmask16>((1U << here) - 1);
    const __m512 b =
        bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, bias + v * kLanes);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kImages; ++i)
      // in this order a sum that is not a number stays one
      _mm512_mask_storeu_ps(output + i * layer.units + v * kLanes, mask,
                            _mm512_max_ps(least, _mm512_add_ps(sums[i][v], b)));
  }
}

// kRows outputs of kImages images, one by one: sums over vectors of inputs.
template <std::size_t kRows, std::size_t kImages>
__attribute__((target("avx512f"))) void multiply_rows(const Layer& layer, const float* images,
                                                      const float* weights, const float* bias,
                                                      float* output) {
  __m512 sums[kImages][kRows];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kImages; ++i)
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) sums[i][r] = _mm512_setzero_ps();
  const std::size_t inputs = layer.inputs;
  __mmask16 mask = 0xFFFF;
  for (std::size_t k = 0; k < inputs; k += kLanes) {
    if (inputs - k < kLanes) mask = static_cast<__mmask16>((1U << (inputs - k)) - 1);
    __m512 w[kRows];
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r)
      w[r] = _mm512_maskz_loadu_ps(mask, weights + r * inputs + k);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kImages; ++i) {
      const __m512 x = _mm512_maskz_loadu_ps(mask, images + i * inputs + k);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < kRows; ++r) sums[i][r] = _mm512_fmadd_ps(w[r], x, sums[i][r]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kImages; ++i)
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kRows; ++r) {
      const float value = _mm512_reduce_add_ps(sums[i][r]) + (bias == nullptr ? 0.0F : bias[r]);
      output[i * layer.units + r] = value < layer.least ? layer.least : value;
    }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

using Tile = void (*)(const Layer&, const float*, std::size_t, const float*, const float*,
                      std::size_t, float*);
using Rows = void (*)(const Layer&, const float*, const float*, const float*, float*);

// For as many images as there are registers for, then smaller numbers for what is left.
template <typename Function>
struct Sized {
  std::size_t images;
  Function function;
};
template <std::size_t kVectors>
constexpr Sized<Tile> kTiles[] = {
    {kVectors == 4 ? 6 : 8, multiply_tile<kVectors, kVectors == 4 ? 6 : 8>},
    {4, multiply_tile<kVectors, 4>},
    {2, multiply_tile<kVectors, 2>},
    {1, multiply_tile<kVectors, 1>}};
template <std::size_t kRows>
constexpr Sized<Rows> kRowTiles[] = {
    {4, multiply_rows<kRows, 4>}, {2, multiply_rows<kRows, 2>}, {1, multiply_rows<kRows, 1>}};

constexpr const Sized<Tile>* kTilesOf[] = {nullptr, kTiles<1>, kTiles<2>, kTiles<3>, kTiles<4>};
constexpr const Sized<Rows>* kRowTilesOf[] = {nullptr, kRowTiles<1>, kRowTiles<2>, kRowTiles<3>,
                                              kRowTiles<4>};
static_assert(std::size(kRowTilesOf) == kMostSingles + 1);

template <typename Function>
const Sized<Function>& largest(const Sized<Function>* sizes, std::size_t images) {
  while (sizes->images > images) ++sizes;
  return *sizes;
}

#endif  // OUBLI_X86

}  // namespace

bool PackedDense::suits(std::size_t inputs, std::size_t units) {
  // A single vector of outputs reads as much as it computes: with many inputs sgemm is no slower.
  constexpr std::size_t kFewInputs = 512;
  return OUBLI_X86 != 0 && has_avx512() && (units > kLanes || inputs <= kFewInputs);
}

PackedDense::PackedDense(const float* weight, std::size_t inputs, std::size_t units)
    : inputs_(inputs),
      units_(units),
      columns_(columns_of(units)),
      packed_((vectors_for(columns_) * kLanes + units - columns_) * inputs) {
  float* target = packed_.data();
  for (std::size_t first = 0; first < columns_;) {
    const std::size_t width = group_width(vectors_for(columns_ - first)) * kLanes;
    const std::size_t used = std::min(width, columns_ - first);
    for (std::size_t k = 0; k < inputs; ++k, target += width)
      for (std::size_t u = 0; u < used; ++u) target[u] = weight[(first + u) * inputs + k];
    first += used;
  }
  std::copy(weight + columns_ * inputs, weight + units * inputs, target);
}

void PackedDense::forward(const float* images, std::size_t count, const float* bias, bool relu,
                          float* output) const {
#if OUBLI_X86
  const Layer layer{inputs_, units_, relu ? 0.0F : -std::numeric_limits<float>::infinity()};
  const auto bias_from = [&](std::size_t unit) { return bias == nullptr ? nullptr : bias + unit; };
  const std::size_t singles = units_ - columns_;
  const float* const rows = packed_.data() + packed_.size() - singles * inputs_;
  const auto run_singles = [&](std::size_t first, std::size_t end) {
    while (first < end) {
      const auto& [size, multiply_some] = largest(kRowTilesOf[singles], end - first);
      multiply_some(layer, images + first * inputs_, rows, bias_from(columns_),
                    output + first * units_ + columns_);
      first += size;
    }
  };
  if (columns_ == 0) run_singles(0, count);
  const float* weights = packed_.data();
  for (std::size_t unit = 0; unit < columns_;) {
    const std::size_t vectors = group_width(vectors_for(columns_ - unit));
    const std::size_t used = std::min(vectors * kLanes, columns_ - unit);
    const bool last = unit + used == columns_;
    for (std::size_t image = 0; image < count;) {
      const auto& [size, multiply_some] = largest(kTilesOf[vectors], count - image);
      const bool more = count - image >= 2 * size;
      multiply_some(layer, images + image * inputs_, more ? size * inputs_ : 0, weights,
                    bias_from(unit), used, output + image * units_ + unit);
      if (last && singles > 0) run_singles(image, image + size);  // while the images are near
      image += size;
    }
    weights += vectors * kLanes * inputs_;
    unit += used;
  }
#else
  (void)images, (void)count, (void)bias, (void)relu, (void)output;
  OUBLI_ASSERT(false);  // suits() said no
#endif
}

}  // namespace oubli::nn
