#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "oubli/data/preparation.h"
#include "oubli/data/samples.h"
#include "oubli/runtime/engine.h"

namespace oubli {

// Wrong means or scales leave a model half right: its accuracy alone does not show them.
struct BetterPreparation {
  std::string options;      // "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225"
  double accuracy = 0;      // with these,
  double accuracy_now = 0;  // and as it was asked for, on the same
  std::size_t samples = 0;  // samples
};

// Tries the common ways of making inputs from images on kTrialSamples of them, from all over the
// data. One that gives kTrialGain more is returned, the best of them. Where two are equally good,
// one of the nine seems better by that much with probability below 9 x 4e-4.
inline constexpr std::size_t kTrialSamples = 256;
inline constexpr double kTrialGain = 0.15;
[[nodiscard]] std::optional<BetterPreparation> better_preparation(
    const Engine& engine, const OnnxModel& model, const SampleSource& source,
    std::span<const std::uint32_t> labels, const PreparationOptions& used);

}  // namespace oubli
