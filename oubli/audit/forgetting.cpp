#include "oubli/audit/forgetting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/forgetting_quality.h"
#include "oubli/audit/iam.h"
#include "oubli/audit/jackknife.h"
#include "oubli/audit/recognition.h"
#include "oubli/audit/sampling.h"
#include "oubli/base/json_fields.h"

namespace oubli {
namespace {

std::vector<std::uint32_t> samples_of(const AuditSamples& samples, std::size_t label,
                                      std::size_t most) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < samples.labels.size() && rows.size() < most; ++i)
    if (samples.labels[i] == label) rows.push_back(i);
  return rows;
}

Matrix<float> read(const Population& population, std::size_t model,
                   std::span<const std::uint32_t> rows) {
  auto logits = Matrix<float>::for_overwrite(rows.size(), population.columns);
  read_finite(population, model, rows, logits);
  return logits;
}

// images x networks x columns: what all networks say of one image lies together.
class ByImage {
 public:
  ByImage(const Population& population, std::span<const std::uint32_t> rows)
      : networks_(population.models), values_(rows.size() * population.models, population.columns) {
    for (std::size_t n = 0; n < networks_; ++n) {
      const Matrix<float> logits = read(population, n, rows);
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::ranges::copy(logits.row(i), values_.row(i * networks_ + n).begin());
    }
  }
  [[nodiscard]] MatrixView<const float> image(std::size_t i) const {
    return values_.view().middle_rows(i * networks_, networks_);
  }
  [[nodiscard]] std::size_t networks() const { return networks_; }

 private:
  std::size_t networks_;
  Matrix<float> values_;
};

double mean_quality(const std::vector<OddsOfImage>& images) {
  double sum = 0;
  for (const OddsOfImage& odds : images)
    sum += image_quality(image_epsilon(odds.first, odds.second));
  return sum / static_cast<double>(images.size());
}

// Without one group of networks of one population.
std::vector<OddsOfImage> without(std::vector<OddsOfImage> images, std::size_t side,
                                 const RowRange& networks) {
  for (OddsOfImage& odds : images) {
    auto& values = side == 0 ? odds.first : odds.second;
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(networks.begin),
                 values.begin() + static_cast<std::ptrdiff_t>(networks.end));
  }
  return images;
}

Figure quality_of(const Population& first, const Population& second,
                  std::span<const std::uint32_t> rows, const AuditOptions& options) {
  if (first.models < 2 || second.models < 2)
    return Figure::missing(fmt::format("{} and {} networks: it takes two of either population",
                                       first.models, second.models));
  const ByImage a(first, rows), b(second, rows);
  std::vector<OddsOfImage> images;
  for (std::size_t i = 0; i < rows.size(); ++i) images.push_back(log_odds(a.image(i), b.image(i)));
  Figure figure = Figure::of(mean_quality(images));
  if (options.bootstrap == 0) {
    figure.reason = "no intervals were asked for";
    return figure;
  }
  LeftOut left_out;
  const std::size_t networks[2] = {a.networks(), b.networks()};
  for (std::size_t side = 0; side < 2; ++side)
    for (std::size_t group = 0; group < jackknife_groups(networks[side]); ++group)
      left_out[side].push_back(mean_quality(
          without(images, side, rows_of_group(networks[side], networks[side], group))));
  if (!jackknife_possible(left_out)) {
    figure.reason = "the jackknife takes three networks of either population";
    return figure;
  }
  const double half = jackknife_half_width(left_out);
  figure.low = std::max(0.0, *figure.value - half);
  figure.high = std::min(1.0, *figure.value + half);
  return figure;
}

Figure over_networks(const std::vector<double>& values) {
  const MeanStd moments = mean_std(values);
  Figure figure = Figure::of(moments.mean);
  if (values.size() < 2) {
    figure.reason = "one network";
    return figure;
  }
  const auto n = static_cast<double>(values.size());
  const double half = student_t_975(n - 1) * moments.std / std::sqrt(n);
  figure.low = moments.mean - half;
  figure.high = moments.mean + half;
  return figure;
}

// The retained columns of logits before unlearning.
Matrix<float> retained_columns(const Matrix<float>& logits, const AuditSamples& samples) {
  Matrix<float> out(logits.rows(), logits.cols() - samples.forgotten.size());
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    std::size_t column = 0;
    for (std::uint32_t c = 0; c < logits.cols(); ++c)
      if (!std::ranges::binary_search(samples.forgotten, c)) out(i, column++) = logits(i, c);
  }
  return out;
}

void add_interpolated(ForgettingFigures& figures, const ForgettingInput& input,
                      const AuditSamples& samples, std::span<const std::uint32_t> rows) {
  std::string reason;
  if (input.before == nullptr) reason = "no logits from before unlearning were given";
  if (rows.size() < 2) reason = "fewer than two images of the class";
  if (!reason.empty()) {
    figures.interpolated = figures.interpolated_floor = Figure::missing(reason);
    return;
  }
  const Matrix<float> retrained = read(input.unseen, 0, rows);
  std::vector<double> seen, floor;
  // Other retrained networks in the place of unlearned ones.
  const Population& others = input.second != nullptr ? *input.second : input.unseen;
  const std::size_t first = input.second != nullptr ? 0 : 1;
  for (std::size_t n = 0; n < std::min(input.seen.models, kMeasuredNetworks); ++n) {
    const Matrix<float> original = retained_columns(read(*input.before, n, rows), samples);
    seen.push_back(interpolated_measure(read(input.seen, n, rows), original, retrained));
    if (first + n < others.models)
      floor.push_back(interpolated_measure(read(others, first + n, rows), original, retrained));
  }
  figures.interpolated = over_networks(seen);
  figures.interpolated_floor =
      floor.empty() ? Figure::missing("one retrained network: there is no other to compare with")
                    : over_networks(floor);
}

void add_recognition(std::optional<MeanStd>& ghost, std::optional<MeanStd>& readout,
                     const Population& population, const AuditSamples& samples, std::size_t label,
                     std::uint64_t seed) {
  std::vector<std::uint32_t> rows(population.samples);
  std::iota(rows.begin(), rows.end(), 0U);
  std::vector<double> ghosts, readouts;
  for (std::size_t n = 0; n < std::min(population.models, kMeasuredNetworks); ++n) {
    const auto found =
        recognition_of(read(population, n, rows), samples.labels, samples.forgotten, label, seed);
    if (!found) continue;
    ghosts.push_back(found->ghost);
    if (found->readout) readouts.push_back(*found->readout);
  }
  if (!ghosts.empty()) ghost = mean_std(ghosts);
  if (!readouts.empty()) readout = mean_std(readouts);
}

nlohmann::json or_null(const std::optional<MeanStd>& figure) {
  return figure ? nlohmann::json(*figure) : nlohmann::json(nullptr);
}

}  // namespace

ForgettingFigures forgetting_figures(const ForgettingInput& input, const AuditSamples& samples,
                                     std::size_t label, const AuditOptions& options) {
  ForgettingFigures figures;
  figures.label = label;
  const auto few = samples_of(samples, label,
                              quality_images(input.seen.models + input.unseen.models,
                                             measured_classes(samples, options).size(), options));
  figures.quality = quality_of(input.seen, input.unseen, few, options);
  figures.quality_floor = input.second != nullptr
                              ? quality_of(*input.second, input.unseen, few, options)
                              : Figure::missing("no second population of unseen models was given");
  add_interpolated(figures, input, samples, few);
  add_recognition(figures.ghost_seen, figures.readout_seen, input.seen, samples, label,
                  options.seed);
  add_recognition(figures.ghost_unseen, figures.readout_unseen, input.unseen, samples, label,
                  options.seed);
  return figures;
}

void to_json(nlohmann::json& out, const ForgettingFigures& figures) {
  out = {{"class", figures.label},
         {"quality", figures.quality},
         {"quality_floor", figures.quality_floor},
         {"interpolated", figures.interpolated},
         {"interpolated_floor", figures.interpolated_floor},
         {"ghost_seen", or_null(figures.ghost_seen)},
         {"ghost_unseen", or_null(figures.ghost_unseen)},
         {"readout_seen", or_null(figures.readout_seen)},
         {"readout_unseen", or_null(figures.readout_unseen)}};
}

void from_json(const nlohmann::json& in, ForgettingFigures& figures) {
  require_field(in, "class", figures.label);
  read_field(in, "quality", figures.quality);
  read_field(in, "quality_floor", figures.quality_floor);
  read_field(in, "interpolated", figures.interpolated);
  read_field(in, "interpolated_floor", figures.interpolated_floor);
  read_field(in, "ghost_seen", figures.ghost_seen);
  read_field(in, "ghost_unseen", figures.ghost_unseen);
  read_field(in, "readout_seen", figures.readout_seen);
  read_field(in, "readout_unseen", figures.readout_unseen);
}

}  // namespace oubli
