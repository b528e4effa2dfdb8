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
  std::string how;          // "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225", "upside down"
  bool by_options = true;   // else it is the images that are otherwise
  double accuracy = 0;      // so made,
  double accuracy_now = 0;  // and as it was asked for, on the same
  std::size_t samples = 0;  // samples
};

// Tries the common ways of making inputs from images, and images that are negative, upside down,
// with rows and columns or red and blue exchanged, on a few samples from all over the data, and the
// promising ones on kTrialSamples. The best is returned if it is right kTrialGain more often, and
// on that many more samples than the other way round that two equally good ones differ so with
// probability below 4e-5 (kTrialDeviations of a normal); there are thirteen of them.
inline constexpr std::size_t kTrialSamples = 256;
inline constexpr double kTrialGain = 0.1;
inline constexpr double kTrialDeviations = 4;
[[nodiscard]] std::optional<BetterPreparation> better_preparation(
    const Engine& engine, const OnnxModel& model, const SampleSource& source,
    std::span<const std::uint32_t> labels, const PreparationOptions& used);

}  // namespace oubli
