#include "oubli/attack/per_image_labels.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "oubli/base/error.h"

namespace oubli {
namespace {

constexpr std::array kSmoothing{0.5, 2.0, 8.0, 32.0};
constexpr std::size_t kMostNetworks = std::numeric_limits<std::uint16_t>::max();

// Of some networks: how often each label was given, per image and over all of them.
struct LabelCounts {
  Matrix<std::uint32_t> of_image;  // every step-th image x columns
  std::vector<std::uint32_t> of_class;
  std::size_t images, networks;

  // All networks of all folds.
  LabelCounts(const std::vector<Matrix<std::uint16_t>>& folds, std::size_t of_networks)
      : of_image(folds[0].rows(), folds[0].cols()),
        of_class(folds[0].cols()),
        images(folds[0].rows()),
        networks(of_networks) {
    for (const Matrix<std::uint16_t>& counts : folds)
      for (std::size_t i = 0; i < counts.flat().size(); ++i) of_image.data()[i] += counts.data()[i];
    for (std::size_t i = 0; i < images; ++i)
      for (std::size_t c = 0; c < of_class.size(); ++c)
        of_class[c] += of_image.data()[i * of_class.size() + c];
  }
  // All of `all` but one fold.
  LabelCounts(const LabelCounts& all, const Matrix<std::uint16_t>& fold, std::size_t of_networks,
              std::size_t step)
      : of_image((all.images + step - 1) / step, fold.cols()),
        of_class(all.of_class),
        images(all.images),
        networks(all.networks - of_networks) {
    for (std::size_t i = 0; i < images; ++i)
      for (std::size_t c = 0; c < of_class.size(); ++c)
        of_class[c] -= fold.data()[i * of_class.size() + c];
    for (std::size_t t = 0; t < of_image.rows(); ++t)
      for (std::size_t c = 0; c < of_class.size(); ++c)
        of_image(t, c) = all.of_image(t * step, c) - fold(t * step, c);
  }

  // Logs of the smoothed frequencies: row n, column c for n networks that gave label c.
  [[nodiscard]] Matrix<double> log_shares(double smoothing) const {
    const auto columns = static_cast<double>(of_class.size());
    const double answers = static_cast<double>(networks) * static_cast<double>(images);
    Matrix<double> logs(networks + 1, of_class.size());
    for (std::size_t n = 0; n < logs.rows(); ++n)
      for (std::size_t c = 0; c < logs.cols(); ++c)
        logs(n, c) =
            std::log((static_cast<double>(n) +
                      smoothing * (static_cast<double>(of_class[c]) + 1) / (answers + columns)) /
                     (static_cast<double>(networks) + smoothing));
    return logs;
  }
};

// The column with the largest answer, the first of equal ones.
std::array<std::uint32_t, kLanes> top_columns(const float* answers, std::size_t columns) {
  using EightNumbers = std::int32_t __attribute__((vector_size(32)));
  std::array<std::uint32_t, kLanes> top;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t i = 0; i < kLanes; i += kEight) {
    Eight largest, value;
    EightNumbers found{};
    std::memcpy(&largest, answers + i, sizeof largest);
    for (std::size_t c = 1; c < columns; ++c) {
      std::memcpy(&value, answers + c * kLanes + i, sizeof value);
      const EightNumbers more = value > largest;
      found = more ? static_cast<std::int32_t>(c) + EightNumbers{} : found;
      largest = more ? value : largest;
    }
    std::memcpy(top.data() + i, &found, sizeof found);
  }
  return top;
}

// Log-likelihood ratios of every label for every image that is counted.
Matrix<float> label_ratios(const std::array<LabelCounts, 2>& counts, double smoothing) {
  const std::size_t images = counts[0].of_image.rows(), columns = counts[0].of_image.cols();
  auto ratios = Matrix<float>::for_overwrite(images, columns);
  const std::array logs{counts[0].log_shares(smoothing), counts[1].log_shares(smoothing)};
  const auto log_share = [&](std::size_t side, std::size_t image, std::size_t label) {
    return logs[side](counts[side].of_image(image, label), label);
  };
  for (std::size_t i = 0; i < images; ++i)
    for (std::size_t c = 0; c < columns; ++c)
      ratios(i, c) = static_cast<float>(log_share(0, i, c) - log_share(1, i, c));
  return ratios;
}

// Summed over the networks that gave each label.
double loss_of(std::span<const float> ratios, std::span<const std::uint16_t> given, bool first) {
  double sum = 0;
  for (std::size_t c = 0; c < ratios.size(); ++c)
    if (given[c] > 0) sum += given[c] * static_cast<double>(log_loss(ratios[c], first));
  return sum;
}

}  // namespace

LabelAttack::LabelAttack(const PerImageInput& input, std::optional<double> shrinkage)
    : input_(input),
      shrinkage_(shrinkage),
      step_(std::max<std::size_t>(1, input.images / kTrialImages)) {
  for (std::size_t side = 0; side < 2; ++side) {
    if (const std::size_t networks = input.train[side].size(); networks > kMostNetworks)
      fail(ErrorCode::usage,
           "the attack per image learns from {} networks of a kind; from {} on it cannot count "
           "their "
           "labels: give fewer, or leave out --all",
           networks, kMostNetworks + 1);
    counts_[side].assign(folds_of(input), Matrix<std::uint16_t>(input.images, input.columns));
  }
}

void LabelAttack::learn(const AnswerBlock& answers) {
  const auto top = top_columns(answers.lanes, input_.columns);
  auto& folds = counts_[answers.side];
  Matrix<std::uint16_t>& counts = folds[answers.place % folds.size()];
  const std::size_t first = answers.block * kLanes, lanes = lanes_of(input_, answers.block);
  std::uint16_t* row = counts.data() + first * input_.columns;
  for (std::size_t i = 0; i < lanes; ++i, row += input_.columns) ++row[top[i]];
}

double LabelAttack::choose() const {
  if (shrinkage_) return *shrinkage_;
  const std::size_t folds = folds_of(input_);
  const std::array all{LabelCounts(counts_[0], input_.train[0].size()),
                       LabelCounts(counts_[1], input_.train[1].size())};
  std::array<double, kSmoothing.size()> losses{};
  const auto networks_of = [&](std::size_t side, std::size_t fold) {
    return (input_.train[side].size() + folds - 1 - fold) / folds;
  };
  for (std::size_t fold = 0; fold < folds; ++fold) {
    const std::array others{LabelCounts(all[0], counts_[0][fold], networks_of(0, fold), step_),
                            LabelCounts(all[1], counts_[1][fold], networks_of(1, fold), step_)};
    for (std::size_t s = 0; s < kSmoothing.size(); ++s) {
      const Matrix<float> ratios = label_ratios(others, kSmoothing[s]);
      for (std::size_t side = 0; side < 2; ++side)
        for (std::size_t i = 0; i < ratios.rows(); ++i)
          losses[s] += loss_of(ratios.row(i), counts_[side][fold].row(i * step_), side == 0);
    }
  }
  return best_of(kSmoothing, losses);
}

void LabelAttack::learned() {
  result_ = {choose(), score_tables(input_)};
  ratios_ = label_ratios({LabelCounts(counts_[0], input_.train[0].size()),
                          LabelCounts(counts_[1], input_.train[1].size())},
                         result_.shrinkage);
  counts_ = {};
}

void LabelAttack::judge(const AnswerBlock& answers) {
  const auto top = top_columns(answers.lanes, input_.columns);
  const std::size_t first = answers.block * kLanes, lanes = lanes_of(input_, answers.block);
  const float* row = ratios_.data() + first * input_.columns;
  float* out = result_.scores[answers.side].data() + answers.place * input_.images + first;
  for (std::size_t i = 0; i < lanes; ++i, row += input_.columns) out[i] = row[top[i]];
}

}  // namespace oubli
