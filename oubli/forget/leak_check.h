#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/audit/observer.h"
#include "oubli/filtration/filtration.h"
#include "oubli/forget/calibration.h"

namespace oubli {

// What an observer of one model can still tell about a forgotten class (docs/method.md, section 5),
// after naive deletion and after the chosen method, on the same samples. AUCs as max(AUC, 1 - AUC).
struct LeakRow {
  std::size_t forgotten_class = 0;
  std::size_t samples = 0;
  Observer observer = Observer::logits;
  // From minus the mean retained logit: for the observer of logits only.
  std::optional<double> ghost_naive;
  std::optional<double> ghost;
  // From the best linear read-out.
  std::optional<double> readout_naive;
  std::optional<double> readout;
};

struct LeakCheck {
  std::size_t samples = 0;  // that took part
  std::vector<LeakRow> rows;
  // Samples whose largest retained logit is another one than after naive deletion.
  std::size_t label_flips = 0;
  // Among so many: all that took part, or a seeded choice where all logits would take too long.
  std::size_t label_samples = 0;
  // Of those, samples of retained classes, and how many of them naive deletion calls by their
  // label.
  std::size_t kept_samples = 0;
  std::size_t kept_right = 0;
  // Of those, how many have another label than after naive deletion, and how many are right then.
  std::size_t kept_flips = 0;
  std::size_t kept_right_now = 0;
  std::vector<std::string> not_checked;  // and why
  std::vector<std::string> warnings;
};

// `new_head` is the head as it will be stored, rounding included.
[[nodiscard]] LeakCheck check_leaks(const HeadView& old_head, const HeadView& new_head,
                                    const FiltrationPlan& plan, const CalibrationData& data,
                                    std::uint64_t seed);

}  // namespace oubli
