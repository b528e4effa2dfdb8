#pragma once

#include <span>
#include <string>
#include <vector>

#include "oubli/filtration/filtration.h"
#include "oubli/filtration/mean_identity.h"
#include "oubli/forget/stored_means.h"
#include "oubli/model/model_file.h"

namespace oubli {

// The tests that a new model must pass before it appears: of its head as it was computed, ...
struct HeadCheck {
  // On the class means of the features, or on random vectors in their place.
  bool on_class_means = false;
  MeanIdentity identity;
};
// ... and of its files as they were written, which hold that head.
struct WrittenCheck {
  bool forgotten_rows_absent = false;  // in any float type, as row or column
  std::vector<std::string> not_checked;
  std::vector<std::string> warnings;
};

// Error{self_check} if the new head does not do to the class means what the filter says, or holds
// infinities (float16 overflows at 65504).
[[nodiscard]] HeadCheck check_head(const HeadView& old_head, const HeadView& new_head,
                                   const FiltrationPlan& plan, const StoredMeans* means);

// How far a head in whole numbers is from the one that was computed.
struct RoundingCheck {
  double weight_step = 0, bias_step = 0;  // the largest
  double coarser = 1;                     // than the old head: its largest step over the old one
  double bound = 0;                       // of the logits, on the same vectors as the HeadCheck
  double error = 0;                       // found there
};

// The most that a logit of `features` can be off.
[[nodiscard]] double largest_error(const HeadRounding& rounding, std::span<const double> features);

// Error{self_check} if the stored head is off by more than its steps explain; {unfilterable} if
// these are too coarse.
[[nodiscard]] RoundingCheck check_rounding(const HeadView& new_head, const HeadView& stored_head,
                                           const HeadRounding& rounding, const StoredMeans* means);

// Error{self_check} if the staged files, read back, do not hold `new_head`. Looks for the forgotten
// rows of the old one, too.
[[nodiscard]] WrittenCheck check_staged(const StagedModel& staged, const HeadView& old_head,
                                        const NewHead& new_head, const ClassSplit& split);

// What is looked for where an old layer must be gone: of each row of it, units x inputs, the
// stretch of 16 numbers (or all, if it has fewer) that changed most, and none of which is what it
// was. Rows without one, of units that did not move, have no part in it. Both layers are float32.
[[nodiscard]] Matrix<float> changed_stretches(const TensorView& old_layer,
                                              const TensorView& new_layer);
// Whether no such stretch is in the staged files. Error{self_check} if one is, unless it may be
// there; what could not be looked for is added to `check`.
[[nodiscard]] bool check_old_layer(const StagedModel& staged, const TensorView& old_layer,
                                   const TensorView& new_layer, WrittenCheck& check);

}  // namespace oubli
