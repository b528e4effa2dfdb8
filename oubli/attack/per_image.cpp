#include "oubli/attack/per_image.h"

#include <algorithm>
#include <numeric>

#include "oubli/attack/per_image_labels.h"
#include "oubli/attack/per_image_numbers.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/base/x86.h"

namespace oubli {
namespace {

#if OUBLI_X86
// Of four rows as many columns as make whole groups of four; returns how many.
std::size_t transpose_four(const float* rows, std::size_t columns, float* lanes) {
  const std::size_t whole = columns / 4 * 4;
  for (std::size_t c = 0; c < whole; c += 4) {
    __m128 a = _mm_loadu_ps(rows + c), b = _mm_loadu_ps(rows + columns + c);
    __m128 d = _mm_loadu_ps(rows + 2 * columns + c), e = _mm_loadu_ps(rows + 3 * columns + c);
    _MM_TRANSPOSE4_PS(a, b, d, e);
    float* const out = lanes + c * kLanes;
    _mm_storeu_ps(out, a);
    _mm_storeu_ps(out + kLanes, b);
    _mm_storeu_ps(out + 2 * kLanes, d);
    _mm_storeu_ps(out + 3 * kLanes, e);
  }
  return whole;
}
#else
std::size_t transpose_four(const float*, std::size_t, float*) { return 0; }
#endif

// One block: rows of images side by side.
void transpose(const float* rows, std::size_t images, std::size_t columns, float* lanes) {
  const std::size_t fours = images / 4 * 4;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < fours; i += 4)
    whole = transpose_four(rows + i * columns, columns, lanes + i);
  for (std::size_t c = 0; c < columns; ++c) {
    float* const out = lanes + c * kLanes;
    for (std::size_t i = c < whole ? fours : 0; i < images; ++i) out[i] = rows[i * columns + c];
    for (std::size_t i = images; i < kLanes; ++i) out[i] = out[images - 1];
  }
}

// Calls `use` with every block of every network of `networks`, network by network of the first
// population, then of the second.
template <typename Use>
void for_each_block(const PerImageInput& input,
                    const std::array<std::span<const std::uint32_t>, 2>& networks, Use use) {
  auto lanes = Matrix<float>::for_overwrite(input.columns, kLanes);
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t place = 0; place < networks[side].size(); ++place) {
      const MatrixView<const float> rows = input.answers(side, networks[side][place]);
      OUBLI_ASSERT(rows.rows() == input.images && rows.cols() == input.columns);
      for (std::size_t block = 0; block < blocks_of(input); ++block) {
        transpose(rows.data() + block * kLanes * input.columns, lanes_of(input, block),
                  input.columns, lanes.data());
        use(AnswerBlock{side, place, block, lanes.data()});
      }
    }
  }
}

// Sums of several networks at once: an addition takes longer than the processor needs to begin
// others.
constexpr std::size_t kTogether = 5;

template <std::size_t N>
void add_up(MatrixView<const float> scores, std::size_t first, std::size_t answers,
            std::span<const std::uint32_t> order, Matrix<double>& sums) {
  const float* const values = scores.data() + first * scores.cols();
  double* const out = sums.data() + first * sums.cols();
  const std::uint32_t* image = order.data();
  for (std::size_t g = 0; g < sums.cols(); ++g) {
    std::array<double, N> sum{};
    for (std::size_t i = 0; i < answers; ++i, ++image)
      for (std::size_t n = 0; n < N; ++n)
        sum[n] += static_cast<double>(values[n * scores.cols() + *image]);
    for (std::size_t n = 0; n < N; ++n) out[n * sums.cols() + g] = sum[n];
  }
}

}  // namespace

PerImageInput::Answers stacked_answers(const std::array<MatrixView<const float>, 2>& rows,
                                       std::size_t images) {
  OUBLI_ASSERT(images > 0 && rows[0].rows() % images == 0 && rows[1].rows() % images == 0);
  return [rows, images](std::size_t side, std::uint32_t network) {
    return rows[side].middle_rows(network * images, images);
  };
}

PerImageFound score_images(const PerImageInput& input, const PerImageOptions& options) {
  OUBLI_ASSERT(input.images > 0 && input.columns > 0);
  for (std::size_t side = 0; side < 2; ++side)
    OUBLI_ASSERT(input.train[side].size() >= kFewestPerImage);
  std::optional<NumberAttack> logits, probabilities;
  std::optional<LabelAttack> labels;
  if (options.logits) logits.emplace(input, false, options.shrinkage);
  if (options.probabilities) probabilities.emplace(input, true, options.shrinkage);
  if (options.labels) labels.emplace(input, options.shrinkage);
  const auto each = [&](auto action) {
    if (logits) action(*logits);
    if (probabilities) action(*probabilities);
    if (labels) action(*labels);
  };
  for_each_block(input, input.train, [&](const AnswerBlock& answers) {
    each([&](auto& attack) { attack.learn(answers); });
  });
  each([](auto& attack) { attack.learned(); });
  for_each_block(input, input.test, [&](const AnswerBlock& answers) {
    each([&](auto& attack) { attack.judge(answers); });
  });
  PerImageFound found;
  if (logits) found.logits = std::move(*logits).scores();
  if (probabilities) found.probabilities = std::move(*probabilities).scores();
  if (labels) found.labels = std::move(*labels).scores();
  return found;
}

AnswerGroups::AnswerGroups(std::size_t images, std::uint64_t seed) : order_(images) {
  std::iota(order_.begin(), order_.end(), 0U);
  RandomStream random(seed, task_id("answers"));
  random.shuffle(std::span(order_));
}

Matrix<double> AnswerGroups::sums(MatrixView<const float> scores, std::size_t answers) const {
  OUBLI_ASSERT(answers > 0 && scores.cols() == order_.size());
  const std::size_t groups = scores.cols() / answers;
  auto sums = Matrix<double>::for_overwrite(scores.rows(), groups);
  if (answers == 1) {  // groups of one need no order
    std::copy_n(scores.data(), scores.rows() * groups, sums.data());
    return sums;
  }
  std::size_t network = 0;
  for (; network + kTogether <= scores.rows(); network += kTogether)
    add_up<kTogether>(scores, network, answers, order_, sums);
  for (; network < scores.rows(); ++network) add_up<1>(scores, network, answers, order_, sums);
  return sums;
}

}  // namespace oubli
