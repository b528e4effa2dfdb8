#include "oubli/forget/preparation_trial.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "oubli/audit/alignment.h"
#include "oubli/base/error.h"
#include "oubli/base/largest.h"
#include "oubli/data/preparation_config.h"
#include "oubli/data/resize.h"
#include "oubli/runtime/model_runner.h"

namespace oubli {
namespace {

struct Common {
  double scale = 1;
  std::vector<double> mean, standard;
};

// What training code divides by: nothing, 255, and the statistics of well-known data sets.
const std::vector<Common>& common_ways() {
  static const std::vector<Common> ways{
      {1.0 / 255, {}, {}},
      {1, {}, {}},
      {1.0 / 255, {0.5}, {0.5}},
      {1.0 / 255, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
      {1.0 / 255, {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
      {1.0 / 255, {0.1307}, {0.3081}},
      {1.0 / 255, {0.2860}, {0.3530}},
  };
  return ways;
}

// Without the size, which is never another.
std::string words_of(PreparationOptions made) {
  made.size.reset();
  return option_words(made);
}

// What happens to the images before inputs are made from them.
enum class Turned { not_at_all, upside_down, rows_and_columns, red_and_blue };

struct Way {
  PreparationOptions options;
  Turned turned = Turned::not_at_all;
  std::string words;
};

Sample turn(Sample sample, Turned turned) {
  const Sample from = sample;
  const auto at = [](const Sample& of, std::size_t y, std::size_t x) {
    return (y * of.width + x) * of.channels;
  };
  if (turned == Turned::rows_and_columns) std::swap(sample.height, sample.width);
  for (std::size_t y = 0; y < sample.height; ++y)
    for (std::size_t x = 0; x < sample.width; ++x)
      for (std::size_t c = 0; c < sample.channels; ++c) {
        const std::size_t source = turned == Turned::rows_and_columns ? at(from, x, y)
                                   : turned == Turned::upside_down
                                       ? at(from, from.height - 1 - y, x)
                                       : at(from, y, x);
        const std::size_t channel = turned == Turned::red_and_blue ? sample.channels - 1 - c : c;
        sample.pixels[at(sample, y, x) + c] = from.pixels[source + channel];
      }
  return sample;
}

// Which samples the model calls by their label; none if it cannot take them so.
std::optional<std::vector<bool>> right_with(const Engine& engine, const OnnxModel& model,
                                            const Way& way, std::span<const Sample> given,
                                            std::span<const std::uint32_t> labels) {
  std::vector<Sample> turned;
  if (way.turned != Turned::not_at_all)
    for (const Sample& sample : given) turned.push_back(turn(sample, way.turned));
  const std::span<const Sample> samples = turned.empty() ? given : std::span<const Sample>(turned);
  try {
    const ModelRunner runner(engine, model, way.options, samples.front());
    std::vector<bool> right;
    for (std::size_t first = 0; first < samples.size(); first += runner.batch()) {
      const std::size_t count = std::min(runner.batch(), samples.size() - first);
      const ModelOutputs made = runner.run(samples.subspan(first, count));
      for (std::size_t i = 0; i < count; ++i)
        right.push_back(place_of_largest(made.logits.row(i)) == labels[first + i]);
    }
    return right;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    return std::nullopt;  // three means for one channel, a layout that its input does not have
  }
}

double share_of(const std::vector<bool>& right) {
  return static_cast<double>(std::ranges::count(right, true)) / static_cast<double>(right.size());
}

// Whether more is right than now by more than chance explains, judged by the samples on which the
// two differ.
bool clearly_better(const std::vector<bool>& right, const std::vector<bool>& now) {
  double gained = 0, lost = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (right[i] && !now[i]) ++gained;
    if (!right[i] && now[i]) ++lost;
  }
  return gained - lost >= kTrialGain * static_cast<double>(now.size()) &&
         gained - lost >= kTrialDeviations * std::sqrt(gained + lost);
}

// In the size that the model takes: hundreds of photographs would fill the memory.
Sample read_small(const SampleSource& source, std::size_t at, const PreparationOptions& used) {
  Sample sample = source.read(at);
  if (!sample.image || !used.size) return sample;
  const auto [height, width] = *used.size;
  if (sample.height * sample.width <= height * width) return sample;
  const std::vector<float> resized = resize_image(sample, height, width);
  sample.pixels.clear();
  sample.pixels.shrink_to_fit();
  for (const float value : resized)
    sample.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F)));
  sample.height = height;
  sample.width = width;
  return sample;
}

std::vector<Way> other_ways(const PreparationOptions& used, const Sample& example) {
  std::vector<Way> ways;
  const auto add = [&](double scale, const std::vector<double>& mean,
                       const std::vector<double>& standard) {
    PreparationOptions made = used;
    made.scale = scale;
    made.mean = mean;
    made.standard = standard;
    ways.push_back({made, Turned::not_at_all, words_of(made)});
  };
  for (const Common& common : common_ways()) add(common.scale, common.mean, common.standard);
  if (used.channels_last) {
    PreparationOptions made = used;
    made.channels_last = !*used.channels_last;
    ways.push_back({made, Turned::not_at_all, words_of(made)});
  }
  // The negative: 255 - x instead of x, whatever follows.
  std::vector<double> mean = used.mean;
  for (double& value : mean) value -= 255 * *used.scale;
  add(-*used.scale, mean, used.standard);
  ways.push_back({used, Turned::upside_down, "upside down"});
  ways.push_back({used, Turned::rows_and_columns, "with rows and columns exchanged"});
  if (example.channels == 3)
    ways.push_back({used, Turned::red_and_blue, "with red and blue exchanged"});
  return ways;
}

}  // namespace

std::optional<BetterPreparation> better_preparation(const Engine& engine, const OnnxModel& model,
                                                    const SampleSource& source,
                                                    std::span<const std::uint32_t> labels,
                                                    const PreparationOptions& used) {
  if (!used.scale) return std::nullopt;  // no images: numbers are taken as they are
  constexpr std::size_t kFirst = 64;
  const std::size_t count = std::min(kTrialSamples, source.size());
  const std::size_t first = std::min(kFirst, count);
  // The first of them, too, are from all over the data.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i)
    if (i * first / count != (i + 1) * first / count) order.push_back(i * source.size() / count);
  for (std::size_t i = 0; i < count; ++i)
    if (i * first / count == (i + 1) * first / count) order.push_back(i * source.size() / count);
  std::vector<Sample> samples;
  std::vector<std::uint32_t> theirs;
  for (const std::size_t at : order) {
    samples.push_back(read_small(source, at, used));
    theirs.push_back(labels[at]);
  }
  const auto right_of = [&](const Way& way, std::size_t begin, std::size_t size) {
    return right_with(engine, model, way, std::span(samples).subspan(begin, size),
                      std::span(theirs).subspan(begin, size));
  };
  const auto now = right_of({used, Turned::not_at_all, ""}, 0, count);
  if (!now) return std::nullopt;
  const auto now_of_first = std::count(now->begin(), now->begin() + static_cast<long>(first), true);
  std::optional<BetterPreparation> best;
  for (const Way& way : other_ways(used, samples.front())) {
    auto right = right_of(way, 0, first);
    if (!right || std::ranges::count(*right, true) <= now_of_first) continue;
    if (const auto rest = count > first ? right_of(way, first, count - first) : std::nullopt)
      right->insert(right->end(), rest->begin(), rest->end());
    if (right->size() != count) continue;
    const double accuracy = share_of(*right);
    if (!clearly_better(*right, *now) || (best && accuracy <= best->accuracy)) continue;
    // Guessing is better than labels that are wrong throughout; it is no better preparation.
    if (near_chance(accuracy, model.head().classes(), count)) continue;
    best = {way.words, way.turned == Turned::not_at_all, accuracy, share_of(*now), count};
  }
  return best;
}

}  // namespace oubli
