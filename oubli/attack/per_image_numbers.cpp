#include "oubli/attack/per_image_numbers.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {
namespace {

constexpr std::size_t kTrialBlocks = kTrialImages / kLanes;  // on which the shrinkage is chosen
constexpr std::array kShares{0.0, 0.25, 0.5, 0.75, 1.0};

// Columns x kLanes numbers.
using Lanes = std::vector<float>;
using Lane = std::array<float, kLanes>;  // one number per image

// Takes its mean from every row.
void centre(const float* rows, std::size_t columns, float* out) {
  Lane mean{};
  // Differences to the first column, so that a common offset costs no digits.
  for (std::size_t c = 1; c < columns; ++c)
    for (std::size_t i = 0; i < kLanes; ++i) mean[i] += rows[c * kLanes + i] - rows[i];
  for (float& value : mean) value /= static_cast<float>(columns);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < kLanes; ++i)
      out[c * kLanes + i] = rows[c * kLanes + i] - rows[i] - mean[i];
}

// Sums over networks, as differences to an origin close to all of them.
struct Sums {
  Lanes origin, sum, squares;
  std::size_t networks = 0;

  // Without an origin the first network is it.
  explicit Sums(std::size_t size, Lanes from = {})
      : origin(std::move(from)), sum(size), squares(size) {}
  void add(const float* lanes) {
    if (networks++ == 0 && origin.empty()) origin.assign(lanes, lanes + sum.size());
    const float* const __restrict from = origin.data();
    float* const __restrict of = sum.data();
    float* const __restrict of_squares = squares.data();
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float d = lanes[i] - from[i];
      of[i] += d;
      of_squares[i] += d * d;
    }
  }
  // All networks but those of `part`, which has the same origin.
  [[nodiscard]] Sums without(const Sums& part) const {
    Sums rest(sum.size(), origin);
    rest.networks = networks - part.networks;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      rest.sum[i] = sum[i] - part.sum[i];
      rest.squares[i] = squares[i] - part.squares[i];
    }
    return rest;
  }
};

// Means and summed squared deviations of both populations, image by image.
struct Moments {
  std::array<Lanes, 2> mean, deviations;
  std::array<std::size_t, 2> networks{};

  explicit Moments(const std::array<const Sums*, 2>& sums) {
    for (std::size_t side = 0; side < 2; ++side) {
      const Sums& s = *sums[side];
      networks[side] = s.networks;
      mean[side].resize(s.sum.size());
      deviations[side].resize(s.sum.size());
      const auto n = static_cast<float>(s.networks);
      for (std::size_t i = 0; i < s.sum.size(); ++i) {
        mean[side][i] = s.origin[i] + s.sum[i] / n;
        deviations[side][i] = std::max(0.0F, s.squares[i] - s.sum[i] * s.sum[i] / n);
      }
    }
  }
};

// What is the same for all images of a class: variances per coordinate, averaged over images.
struct ClassVariances {
  std::array<std::vector<double>, 2> own;
  std::vector<double> pooled;
  double least = 0;  // a smaller variance is taken for this

  explicit ClassVariances(std::size_t columns)
      : own{std::vector<double>(columns), std::vector<double>(columns)}, pooled(columns) {}

  // `lanes`: images of the block that are real.
  void add(const Moments& m, std::size_t lanes) {
    for (std::size_t c = 0; c < pooled.size(); ++c) {
      for (std::size_t i = c * kLanes; i < c * kLanes + lanes; ++i) {
        for (std::size_t side = 0; side < 2; ++side)
          own[side][c] += static_cast<double>(m.deviations[side][i]) /
                          static_cast<double>(m.networks[side] - 1);
        pooled[c] += static_cast<double>(m.deviations[0][i] + m.deviations[1][i]) /
                     static_cast<double>(m.networks[0] + m.networks[1] - 2);
        const auto gap = static_cast<double>(m.mean[0][i] - m.mean[1][i]);
        scale_ += gap * gap;
      }
    }
    images_ += lanes;
  }
  void finish() {
    const auto n = static_cast<double>(images_);
    for (auto* values : {&own[0], &own[1], &pooled})
      for (double& value : *values) value /= n;
    for (const double value : pooled) scale_ += value * n;
    // Far below what floats of this size can tell.
    least = 1e-8 * scale_ / (n * static_cast<double>(pooled.size())) + 1e-30;
  }

 private:
  std::size_t images_ = 0;
  double scale_ = 0;
};

// Sums of logarithms, lane by lane: of products, because a product costs less. Factors are ratios
// of variances of floats, within 1e-70 and 1e70.
class LogSums {
 public:
  LogSums() { products_.fill(1); }
  void multiply(std::size_t lane, double factor) { products_[lane] *= factor; }
  // After every factor of all lanes.
  void next() {
    if (++factors_ == 4) flush();
  }
  [[nodiscard]] const std::array<double, kLanes>& sums() {
    flush();
    return sums_;
  }

 private:
  void flush() {
    if (factors_ == 0) return;
    for (std::size_t i = 0; i < kLanes; ++i) sums_[i] += std::log(products_[i]);
    products_.fill(1);
    factors_ = 0;
  }
  std::array<double, kLanes> products_{}, sums_{};
  int factors_ = 0;
};

// The score of an answer x: sum over columns of (a y + b) y, plus a constant per image, where
// y = x - middle.
struct Ratio {
  Lanes middle, linear, square, slope;  // pooled: linear y; own: (square y + slope) y
  Lane constant{};

  Ratio(const Moments& m, const ClassVariances& variances, double pooled_share, double own_share)
      : middle(m.mean[0].size()),
        linear(middle.size()),
        square(middle.size()),
        slope(middle.size()) {
    // Of a network that the means do not know.
    std::array<double, 2> wider{}, per_degree{};
    for (std::size_t side = 0; side < 2; ++side) {
      wider[side] = 1 + 1 / static_cast<double>(m.networks[side]);
      per_degree[side] = 1 / static_cast<double>(m.networks[side] - 1);
    }
    const double pooled_per_degree = 1 / static_cast<double>(m.networks[0] + m.networks[1] - 2);
    const double pooled_wider = (wider[0] + wider[1]) / 2, least = variances.least;
    const auto shrunk = [least](double own, double of_class, double share) {
      return std::max((1 - share) * own + share * of_class, least);
    };
    LogSums logs;
    std::array<double, kLanes> sums{}, ratios{};
    for (std::size_t c = 0; c < variances.pooled.size(); ++c) {
      const double pooled_class = variances.pooled[c];
      const double own_class[2] = {variances.own[0][c], variances.own[1][c]};
      const std::size_t at = c * kLanes;
      const float *mean0 = &m.mean[0][at], *mean1 = &m.mean[1][at];
      const float *spread0 = &m.deviations[0][at], *spread1 = &m.deviations[1][at];
      float *to_middle = &middle[at], *to_linear = &linear[at];
      float *to_square = &square[at], *to_slope = &slope[at];
      for (std::size_t i = 0; i < kLanes; ++i) {
        to_middle[i] = mean0[i] + (mean1[i] - mean0[i]) / 2;
        const auto half = static_cast<double>(mean0[i] - mean1[i]) / 2;
        const double v =
            pooled_wider * shrunk(static_cast<double>(spread0[i] + spread1[i]) * pooled_per_degree,
                                  pooled_class, pooled_share);
        to_linear[i] = static_cast<float>(2 * half / v);
        const double own0 = wider[0] * shrunk(static_cast<double>(spread0[i]) * per_degree[0],
                                              own_class[0], own_share);
        const double own1 = wider[1] * shrunk(static_cast<double>(spread1[i]) * per_degree[1],
                                              own_class[1], own_share);
        // log N(y; half, own0) - log N(y; -half, own1)
        const double precise0 = 1 / own0, precise1 = 1 / own1;
        to_square[i] = static_cast<float>((precise1 - precise0) / 2);
        to_slope[i] = static_cast<float>(half * (precise0 + precise1));
        sums[i] += half * half * (precise1 - precise0);
        ratios[i] = own1 * precise0;
      }
      for (std::size_t i = 0; i < kLanes; ++i) logs.multiply(i, ratios[i]);
      logs.next();
    }
    const std::array<double, kLanes>& of_logs = logs.sums();
    for (std::size_t i = 0; i < kLanes; ++i)
      constant[i] = static_cast<float>((of_logs[i] + sums[i]) / 2);
  }

  void score(const float* x, Lane& pooled, Lane& own) const {
    for (std::size_t i = 0; i < kLanes; i += kEight) {
      Eight to_pooled{}, to_own, given, factor;
      std::memcpy(&to_own, constant.data() + i, sizeof to_own);
      for (std::size_t at = i; at < middle.size(); at += kLanes) {
        std::memcpy(&given, x + at, sizeof given);
        std::memcpy(&factor, middle.data() + at, sizeof factor);
        const Eight y = given - factor;
        std::memcpy(&factor, linear.data() + at, sizeof factor);
        to_pooled += factor * y;
        std::memcpy(&factor, square.data() + at, sizeof factor);
        Eight slope_there;
        std::memcpy(&slope_there, slope.data() + at, sizeof slope_there);
        to_own += (factor * y + slope_there) * y;
      }
      std::memcpy(pooled.data() + i, &to_pooled, sizeof to_pooled);
      std::memcpy(own.data() + i, &to_own, sizeof to_own);
    }
  }
};

// The block that is number `trial` of those on which the shrinkage is chosen: spread over the
// class.
std::size_t trial_block(std::size_t trial, std::size_t trials, std::size_t blocks) {
  return trial * blocks / trials;
}

// What both populations' training networks answered to the images of one block.
struct Trial {
  std::size_t block, images;
  std::array<Matrix<float>, 2> answers;  // networks x lanes

  [[nodiscard]] Sums left_out(std::size_t side, std::size_t fold, std::size_t folds,
                              const Sums& all) const {
    Sums sums(all.sum.size(), all.origin);
    for (std::size_t t = fold; t < answers[side].rows(); t += folds)
      sums.add(answers[side].row(t).data());
    return sums;
  }

  // Losses of both forms on the networks that were left out.
  [[nodiscard]] std::array<double, 2> losses(std::size_t fold, std::size_t folds,
                                             const Ratio& ratio) const {
    Lane pooled{}, own{}, pooled_losses{}, own_losses{};
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t t = fold; t < answers[side].rows(); t += folds) {
        ratio.score(answers[side].row(t).data(), pooled, own);
        for (std::size_t i = 0; i < kLanes; ++i) pooled_losses[i] += log_loss(pooled[i], side == 0);
        for (std::size_t i = 0; i < kLanes; ++i) own_losses[i] += log_loss(own[i], side == 0);
      }
    }
    std::array<double, 2> sums{};
    for (std::size_t i = 0; i < images; ++i) {
      sums[0] += static_cast<double>(pooled_losses[i]);
      sums[1] += static_cast<double>(own_losses[i]);
    }
    return sums;
  }
};

}  // namespace

struct NumberAttack::State {
  const PerImageInput& input;
  bool centred;
  std::optional<double> shrinkage;
  std::size_t size;  // of a block
  Lanes lanes;       // centred
  std::vector<Trial> trials;
  std::array<std::vector<Sums>, 2> sums;  // of the blocks of either population
  std::vector<Ratio> ratios;              // of the blocks
  NumberScores result;

  State(const PerImageInput& of, bool is_centred, std::optional<double> fixed)
      : input(of),
        centred(is_centred),
        shrinkage(fixed),
        size(of.columns * kLanes),
        lanes(size),
        sums{std::vector<Sums>(blocks_of(of), Sums(size)),
             std::vector<Sums>(blocks_of(of), Sums(size))} {
    // From fewer networks what is left of them has no variance of its own.
    const bool choose =
        !shrinkage && std::min(of.train[0].size(), of.train[1].size()) > kFewestPerImage;
    const std::size_t wanted = choose ? std::min(blocks_of(of), kTrialBlocks) : 0;
    for (std::size_t t = 0; t < wanted; ++t) {
      const std::size_t block = trial_block(t, wanted, blocks_of(of));
      trials.push_back({block,
                        lanes_of(of, block),
                        {Matrix<float>::for_overwrite(of.train[0].size(), size),
                         Matrix<float>::for_overwrite(of.train[1].size(), size)}});
    }
  }

  const float* seen(const float* answers) {
    if (!centred) return answers;
    centre(answers, input.columns, lanes.data());
    return lanes.data();
  }

  // Shares for the two forms: those with the smallest log-loss on networks left out.
  [[nodiscard]] std::array<double, 2> choose() const {
    if (shrinkage) return {*shrinkage, *shrinkage};
    if (trials.empty()) return {1, 1};
    const std::size_t folds = folds_of(input);
    std::array<std::array<double, kShares.size()>, 2> losses{};
    for (std::size_t fold = 0; fold < folds; ++fold) {
      std::vector<Moments> rest;
      ClassVariances of_rest(input.columns);
      for (std::size_t b = 0; b < trials.size(); ++b) {
        const std::array all{&sums[0][trials[b].block], &sums[1][trials[b].block]};
        const std::array<Sums, 2> others{
            all[0]->without(trials[b].left_out(0, fold, folds, *all[0])),
            all[1]->without(trials[b].left_out(1, fold, folds, *all[1]))};
        rest.emplace_back(std::array<const Sums*, 2>{&others[0], &others[1]});
        of_rest.add(rest.back(), trials[b].images);
      }
      of_rest.finish();
      for (std::size_t s = 0; s < kShares.size(); ++s) {
        for (std::size_t b = 0; b < trials.size(); ++b) {
          const auto found =
              trials[b].losses(fold, folds, Ratio(rest[b], of_rest, kShares[s], kShares[s]));
          for (std::size_t form = 0; form < 2; ++form) losses[form][s] += found[form];
        }
      }
    }
    return {best_of(kShares, losses[0]), best_of(kShares, losses[1])};
  }
};

NumberAttack::NumberAttack(const PerImageInput& input, bool centred,
                           std::optional<double> shrinkage)
    : state_(std::make_unique<State>(input, centred, shrinkage)) {}

NumberAttack::~NumberAttack() = default;

void NumberAttack::learn(const AnswerBlock& answers) {
  State& s = *state_;
  const float* const seen = s.seen(answers.lanes);
  s.sums[answers.side][answers.block].add(seen);
  for (Trial& trial : s.trials)
    if (trial.block == answers.block)
      std::copy_n(seen, s.size, trial.answers[answers.side].row(answers.place).begin());
}

void NumberAttack::learned() {
  State& s = *state_;
  const auto [pooled, own] = s.choose();
  s.trials.clear();
  std::vector<Moments> moments;
  ClassVariances variances(s.input.columns);
  for (std::size_t block = 0; block < blocks_of(s.input); ++block) {
    moments.emplace_back(std::array<const Sums*, 2>{&s.sums[0][block], &s.sums[1][block]});
    variances.add(moments.back(), lanes_of(s.input, block));
  }
  variances.finish();
  s.sums = {};
  for (const Moments& of_block : moments) s.ratios.emplace_back(of_block, variances, pooled, own);
  s.result = {{pooled, score_tables(s.input)}, {own, score_tables(s.input)}};
}

void NumberAttack::judge(const AnswerBlock& answers) {
  State& s = *state_;
  Lane pooled, own;  // NOLINT(cppcoreguidelines-pro-type-member-init): score() fills them
  s.ratios[answers.block].score(s.seen(answers.lanes), pooled, own);
  const std::size_t lanes = lanes_of(s.input, answers.block);
  const std::size_t at = answers.place * s.input.images + answers.block * kLanes;
  std::copy_n(pooled.begin(), lanes, s.result.pooled.scores[answers.side].data() + at);
  std::copy_n(own.begin(), lanes, s.result.own.scores[answers.side].data() + at);
}

NumberScores NumberAttack::scores() && { return std::move(state_->result); }

}  // namespace oubli
