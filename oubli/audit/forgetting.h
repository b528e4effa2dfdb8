#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "oubli/audit/figure.h"
#include "oubli/audit/population.h"
#include "oubli/audit/tell_apart.h"

namespace oubli {

// Figures of one forgotten class that others report, beside what retrained networks give.
struct ForgettingFigures {
  std::size_t label = 0;
  // Forgetting quality of the NeurIPS 2023 challenge (forgetting_quality.h), seen against unseen;
  // the floor: a second batch of unseen networks against the first. Intervals: jackknife.
  Figure quality, quality_floor;
  // The interpolated measure (iam.h) against the first unseen network, mean over seen ones; the
  // floor: other unseen networks in their place. 95 % over networks (Student's t).
  Figure interpolated, interpolated_floor;
  // Is an input of the class recognised by one network's logits alone (recognition.h)? Mean over
  // networks of the AUC of minus the mean logit, and of the best linear read-out.
  std::optional<MeanStd> ghost_seen, ghost_unseen, readout_seen, readout_unseen;
};

// Images of a class that the quality is computed from, and networks that the other figures are:
// more cost much and say little more.
inline constexpr std::size_t kQualityImages = 200;
inline constexpr std::size_t kMeasuredNetworks = 10;

// `before` (k columns) and `second` may be null.
struct ForgettingInput {
  const Population& seen;
  const Population& unseen;
  const Population* before = nullptr;
  const Population* second = nullptr;
};
[[nodiscard]] ForgettingFigures forgetting_figures(const ForgettingInput& input,
                                                   const AuditSamples& samples, std::size_t label,
                                                   const AuditOptions& options);

void to_json(nlohmann::json& json, const ForgettingFigures& figures);
void from_json(const nlohmann::json& json, ForgettingFigures& figures);

}  // namespace oubli
