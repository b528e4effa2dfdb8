#include "oubli/attack/per_image.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "oubli/attack/per_image_fit.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

constexpr std::size_t kBlock = PerImageAnswers::kLanes;
constexpr std::size_t kTrialBlocks = kTrialImages / kBlock;  // on which the shrinkage is chosen
constexpr std::array kShares{0.0, 0.25, 0.5, 0.75, 1.0};

// Answers to kBlock images, columns x kBlock: one image per lane.
using Lanes = std::vector<float>;

// Takes its mean from every row.
void centre(const float* rows, std::size_t columns, Lanes& out) {
  std::array<float, kBlock> mean{};
  // Differences to the first column, so that a common offset costs no digits.
  for (std::size_t c = 1; c < columns; ++c)
    for (std::size_t i = 0; i < kBlock; ++i) mean[i] += rows[c * kBlock + i] - rows[i];
  for (float& value : mean) value /= static_cast<float>(columns);
  for (std::size_t c = 0; c < columns; ++c)
    for (std::size_t i = 0; i < kBlock; ++i)
      out[c * kBlock + i] = rows[c * kBlock + i] - rows[i] - mean[i];
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
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float d = lanes[i] - origin[i];
      sum[i] += d;
      squares[i] += d * d;
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
      for (std::size_t i = c * kBlock; i < c * kBlock + lanes; ++i) {
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

// The score of an answer x: sum over columns of (a y + b) y, plus a constant per image, where
// y = x - middle.
struct Ratio {
  Lanes middle, linear, square, slope;  // pooled: linear y; own: (square y + slope) y
  std::array<float, kBlock> constant{};

  Ratio(const Moments& m, const ClassVariances& variances, double pooled_share, double own_share) {
    const std::size_t size = m.mean[0].size();
    middle.resize(size);
    linear.resize(size);
    square.resize(size);
    slope.resize(size);
    // Of a network that the means do not know.
    std::array<double, 2> wider{}, per_degree{};
    for (std::size_t side = 0; side < 2; ++side) {
      wider[side] = 1 + 1 / static_cast<double>(m.networks[side]);
      per_degree[side] = 1 / static_cast<double>(m.networks[side] - 1);
    }
    const double pooled_per_degree = 1 / static_cast<double>(m.networks[0] + m.networks[1] - 2);
    const double pooled_wider = (wider[0] + wider[1]) / 2;
    std::array<double, kBlock> sums{};
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t c = i / kBlock;
      const auto shrunk = [&](double own, double of_class, double share) {
        return std::max((1 - share) * own + share * of_class, variances.least);
      };
      middle[i] = m.mean[0][i] + (m.mean[1][i] - m.mean[0][i]) / 2;
      const auto half = static_cast<double>(m.mean[0][i] - m.mean[1][i]) / 2;
      const double v =
          pooled_wider *
          shrunk(static_cast<double>(m.deviations[0][i] + m.deviations[1][i]) * pooled_per_degree,
                 variances.pooled[c], pooled_share);
      linear[i] = static_cast<float>(2 * half / v);
      std::array<double, 2> own{};
      for (std::size_t side = 0; side < 2; ++side)
        own[side] =
            wider[side] * shrunk(static_cast<double>(m.deviations[side][i]) * per_degree[side],
                                 variances.own[side][c], own_share);
      // log N(y; half, own_0) - log N(y; -half, own_1)
      square[i] = static_cast<float>((1 / own[1] - 1 / own[0]) / 2);
      slope[i] = static_cast<float>(half * (1 / own[0] + 1 / own[1]));
      sums[i % kBlock] += (std::log(own[1] / own[0]) + half * half * (1 / own[1] - 1 / own[0])) / 2;
    }
    for (std::size_t i = 0; i < kBlock; ++i) constant[i] = static_cast<float>(sums[i]);
  }

  void score(const float* x, std::array<float, kBlock>& pooled,
             std::array<float, kBlock>& own) const {
    pooled.fill(0);
    own = constant;
    for (std::size_t at = 0; at < middle.size(); at += kBlock) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        const float y = x[at + i] - middle[at + i];
        pooled[i] += linear[at + i] * y;
        own[i] += (square[at + i] * y + slope[at + i]) * y;
      }
    }
  }
};

// The blocks on which the shrinkage is chosen: spread over the class.
std::vector<std::size_t> trial_blocks(std::size_t blocks) {
  const std::size_t wanted = std::min(blocks, kTrialBlocks);
  std::vector<std::size_t> chosen;
  for (std::size_t t = 0; t < wanted; ++t) chosen.push_back(t * blocks / wanted);
  return chosen;
}

// Fits and scores numbers, block by block of images.
class Numbers {
 public:
  Numbers(const PerImageAnswers& input, bool centred)
      : input_(input), centred_(centred), size_(input.columns() * kBlock), lanes_(size_) {}

  [[nodiscard]] Moments fit(std::size_t block) {
    const std::array<Sums, 2> sums{sums_of(block, 0), sums_of(block, 1)};
    return Moments({&sums[0], &sums[1]});
  }

  // Shares for the two forms: those with the smallest log-loss on networks left out.
  std::array<double, 2> choose() {
    const std::size_t networks = std::min(input_.train(0).size(), input_.train(1).size());
    const std::size_t folds = std::min(networks, kFolds);
    if (networks <= kFewestPerImage) return {1, 1};  // what is left has no variance of its own
    std::array<std::array<double, kShares.size()>, 2> losses{};
    const auto blocks = trial_blocks(input_.blocks());
    std::vector<std::array<std::vector<Lanes>, 2>> given;  // block, population, network
    std::vector<std::array<Sums, 2>> all;
    for (const std::size_t block : blocks) {
      auto& networks_of = given.emplace_back();
      for (std::size_t side = 0; side < 2; ++side) {
        for (const std::uint32_t model : input_.train(side)) {
          const float* const answers = read(side, model, block);
          networks_of[side].emplace_back(answers, answers + size_);
        }
      }
      all.push_back({sums_of(networks_of[0]), sums_of(networks_of[1])});
    }
    for (std::size_t fold = 0; fold < folds; ++fold) {
      std::vector<Moments> rest;
      ClassVariances variances(input_.columns());
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        const std::array<Sums, 2> part{left_out(given[b][0], fold, folds, all[b][0]),
                                       left_out(given[b][1], fold, folds, all[b][1])};
        const std::array<Sums, 2> others{all[b][0].without(part[0]), all[b][1].without(part[1])};
        rest.emplace_back(std::array<const Sums*, 2>{&others[0], &others[1]});
        variances.add(rest.back(), input_.lanes_of(blocks[b]));
      }
      variances.finish();
      for (std::size_t s = 0; s < kShares.size(); ++s)
        for (std::size_t b = 0; b < blocks.size(); ++b)
          add_losses(given[b], input_.lanes_of(blocks[b]), fold, folds,
                     Ratio(rest[b], variances, kShares[s], kShares[s]), losses[0][s], losses[1][s]);
    }
    return {best_of(kShares, losses[0]), best_of(kShares, losses[1])};
  }

  void score(std::size_t block, const Ratio& ratio, NumberScores& result) {
    std::array<float, kBlock> pooled{}, own{};
    const std::size_t lanes = input_.lanes_of(block);
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t t = 0; t < input_.test(side).size(); ++t) {
        ratio.score(read(side, input_.test(side)[t], block), pooled, own);
        const std::size_t at = t * input_.images() + block * kBlock;
        std::copy_n(pooled.begin(), lanes, result.pooled.scores[side].data() + at);
        std::copy_n(own.begin(), lanes, result.own.scores[side].data() + at);
      }
    }
  }

 private:
  // Valid until the next call.
  [[nodiscard]] const float* read(std::size_t side, std::uint32_t model, std::size_t block) {
    const float* const answers = input_.block(side, model, block);
    if (!centred_) return answers;
    centre(answers, input_.columns(), lanes_);
    return lanes_.data();
  }

  [[nodiscard]] Sums sums_of(std::size_t block, std::size_t side) {
    Sums sums(size_);
    for (const std::uint32_t model : input_.train(side)) sums.add(read(side, model, block));
    return sums;
  }

  [[nodiscard]] Sums sums_of(const std::vector<Lanes>& networks) const {
    Sums sums(size_);
    for (const Lanes& lanes : networks) sums.add(lanes.data());
    return sums;
  }

  [[nodiscard]] Sums left_out(const std::vector<Lanes>& networks, std::size_t fold,
                              std::size_t folds, const Sums& all) const {
    Sums sums(size_, all.origin);
    for (std::size_t t = fold; t < networks.size(); t += folds) sums.add(networks[t].data());
    return sums;
  }

  static void add_losses(const std::array<std::vector<Lanes>, 2>& networks, std::size_t images,
                         std::size_t fold, std::size_t folds, const Ratio& ratio,
                         double& pooled_loss, double& own_loss) {
    std::array<float, kBlock> pooled{}, own{};
    const LogLoss& loss = log_loss();
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t t = fold; t < networks[side].size(); t += folds) {
        ratio.score(networks[side][t].data(), pooled, own);
        float pooled_sum = 0, own_sum = 0;
        for (std::size_t i = 0; i < images; ++i) {
          pooled_sum += loss(pooled[i], side == 0);
          own_sum += loss(own[i], side == 0);
        }
        pooled_loss += static_cast<double>(pooled_sum);
        own_loss += static_cast<double>(own_sum);
      }
    }
  }

  const PerImageAnswers& input_;
  bool centred_;
  std::size_t size_;
  Lanes lanes_;
};

}  // namespace

PerImageAnswers::PerImageAnswers(const PerImageInput& input)
    : images_(input.images),
      columns_(input.rows[0].cols()),
      train_(input.train),
      test_(input.test) {
  OUBLI_ASSERT(images_ > 0 && columns_ == input.rows[1].cols());
  for (std::size_t side = 0; side < 2; ++side) {
    const MatrixView<const float> rows = input.rows[side];
    OUBLI_ASSERT(rows.rows() % images_ == 0 && train_[side].size() >= kFewestPerImage);
    const std::size_t models = rows.rows() / images_;
    lanes_[side] = Matrix<float>::for_overwrite(models * blocks(), columns_ * kLanes);
    float* out = lanes_[side].data();
    for (std::size_t model = 0; model < models; ++model) {
      for (std::size_t b = 0; b < blocks(); ++b, out += columns_ * kLanes) {
        const float* from = rows.data() + (model * images_ + b * kLanes) * columns_;
        const std::size_t last = lanes_of(b) - 1;
        for (std::size_t i = 0; i < kLanes; ++i)
          for (std::size_t c = 0; c < columns_; ++c)
            out[c * kLanes + i] = from[std::min(i, last) * columns_ + c];
      }
    }
  }
}

NumberScores score_numbers(const PerImageAnswers& input, const PerImageOptions& options) {
  Numbers numbers(input, options.centred);
  const auto [pooled_share, own_share] =
      options.shrinkage ? std::array{*options.shrinkage, *options.shrinkage} : numbers.choose();
  std::vector<Moments> moments;
  ClassVariances variances(input.columns());
  for (std::size_t block = 0; block < input.blocks(); ++block) {
    moments.push_back(numbers.fit(block));
    variances.add(moments.back(), input.lanes_of(block));
  }
  variances.finish();
  NumberScores result{{pooled_share, score_tables(input)}, {own_share, score_tables(input)}};
  for (std::size_t block = 0; block < input.blocks(); ++block)
    numbers.score(block, Ratio(moments[block], variances, pooled_share, own_share), result);
  return result;
}

Matrix<double> sum_answers(MatrixView<const float> scores, std::size_t answers,
                           std::uint64_t seed) {
  OUBLI_ASSERT(answers > 0);
  std::vector<std::uint32_t> order(scores.cols());
  std::iota(order.begin(), order.end(), 0U);
  RandomStream random(seed, task_id("answers"));
  random.shuffle(std::span(order));
  const std::size_t groups = scores.cols() / answers;
  Matrix<double> sums(scores.rows(), groups);
  for (std::size_t network = 0; network < scores.rows(); ++network) {
    const float* values = scores.data() + network * scores.cols();
    for (std::size_t g = 0; g < groups; ++g)
      for (std::size_t i = 0; i < answers; ++i)
        sums(network, g) += static_cast<double>(values[order[g * answers + i]]);
  }
  return sums;
}

}  // namespace oubli
