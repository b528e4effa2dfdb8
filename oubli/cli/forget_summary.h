#pragma once

#include <string>
#include <vector>

#include "oubli/audit/recognition.h"
#include "oubli/forget/forget.h"

namespace oubli::cli {

// What `forget` says first, in a dozen lines of a terminal: what was taken out, accuracy, what each
// observer can still tell, what was checked. `forget --full` has the figures behind it.

// A model and the names of its classes.
[[nodiscard]] std::string model_in_words(const ModelFile& model,
                                         std::span<const std::string> class_names);

// "Forgot class 5 (sandal): ..."; "Would forget ..." where nothing was written.
[[nodiscard]] std::string headline(const ForgetInputs& inputs, const ForgetRequest& request,
                                   const ForgetPlan& plan, const std::string& output);

// Accuracy and observers.
[[nodiscard]] std::string findings_in_words(const ForgetInputs& inputs,
                                            const ForgetRequest& request,
                                            const ForgetOutcome& outcome);

// "Checked: ..."
[[nodiscard]] std::string checks_in_words(const ForgetPlan& plan, const ForgetOutcome& outcome);

// "Class 5 (sandal)", "Classes 5 (sandal) and 7 (sneaker)".
[[nodiscard]] std::string classes_in_words(const ForgetRequest& request);

// Warnings and notes, for the end (see remark()).
void remark_on(const ForgetInputs& inputs, const ForgetPlan& plan, const ForgetOutcome& outcome);

// What a method comes to for one observer, beside merely cutting the output off.
struct ObserverWords {
  Observer observer = Observer::logits;
  std::optional<double> now;    // the largest AUC over classes and ways to read; none: not known
  std::optional<double> naive;  // the same, had the output been cut off; none for naive itself

  [[nodiscard]] bool helped() const { return is(Compared::less); }
  [[nodiscard]] bool worse() const { return is(Compared::more); }
  [[nodiscard]] bool is(Compared than_naive) const {
    return naive && now && compare_areas(*now, *naive) == than_naive;
  }
  // "often; less than if cut off"
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] std::vector<ObserverWords> observers_in_words(const LeakCheck& leaks);

}  // namespace oubli::cli
