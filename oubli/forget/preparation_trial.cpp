#include "oubli/forget/preparation_trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/forget/alignment.h"
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

std::string options_text(const PreparationOptions& made) {
  std::string text = fmt::format("--scale {:.9g}", made.scale.value_or(1));
  if (!made.mean.empty()) text += fmt::format(" --mean {}", fmt::join(made.mean, ","));
  if (!made.standard.empty()) text += fmt::format(" --std {}", fmt::join(made.standard, ","));
  if (made.channels_last)
    text += fmt::format(" --layout {}", *made.channels_last ? "nhwc" : "nchw");
  return text;
}

// Share of the samples that the model calls by their label; none if it cannot take them so.
std::optional<double> accuracy_with(const Engine& engine, const OnnxModel& model,
                                    const PreparationOptions& options,
                                    std::span<const Sample> samples,
                                    std::span<const std::uint32_t> labels) {
  try {
    const ModelRunner runner(engine, model, options, samples.front());
    std::size_t right = 0;
    for (std::size_t first = 0; first < samples.size(); first += ModelRunner::kBatch) {
      const std::size_t count = std::min(ModelRunner::kBatch, samples.size() - first);
      const ModelOutputs made = runner.run(samples.subspan(first, count));
      for (std::size_t i = 0; i < count; ++i) {
        const auto row = made.logits.row(i);
        if (static_cast<std::uint32_t>(std::ranges::max_element(row) - row.begin()) ==
            labels[first + i])
          ++right;
      }
    }
    return static_cast<double>(right) / static_cast<double>(samples.size());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    return std::nullopt;  // three means for one channel, a layout that its input does not have
  }
}

std::vector<PreparationOptions> other_ways(const PreparationOptions& used) {
  std::vector<PreparationOptions> ways;
  for (const Common& common : common_ways()) {
    PreparationOptions way = used;
    way.scale = common.scale;
    way.mean = common.mean;
    way.standard = common.standard;
    ways.push_back(std::move(way));
  }
  if (used.channels_last) {
    PreparationOptions way = used;
    way.channels_last = !*used.channels_last;
    ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace

std::optional<BetterPreparation> better_preparation(const Engine& engine, const OnnxModel& model,
                                                    const SampleSource& source,
                                                    std::span<const std::uint32_t> labels,
                                                    const PreparationOptions& used) {
  if (!used.scale) return std::nullopt;  // no images: numbers are taken as they are
  const std::size_t count = std::min(kTrialSamples, source.size());
  std::vector<Sample> samples;
  std::vector<std::uint32_t> their_labels;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * source.size() / count;
    samples.push_back(source.read(at));
    their_labels.push_back(labels[at]);
  }
  const auto now = accuracy_with(engine, model, used, samples, their_labels);
  if (!now) return std::nullopt;
  std::optional<BetterPreparation> best;
  for (const PreparationOptions& way : other_ways(used)) {
    const auto accuracy = accuracy_with(engine, model, way, samples, their_labels);
    if (!accuracy || *accuracy < *now + kTrialGain || (best && *accuracy <= best->accuracy))
      continue;
    // Guessing is better than labels that are wrong throughout; it is no better preparation.
    if (near_chance(*accuracy, model.head().classes(), count)) continue;
    best = {options_text(way), *accuracy, *now, count};
  }
  return best;
}

}  // namespace oubli
