#pragma once

#include <stop_token>
#include <string>

#include "oubli/data/image_set.h"
#include "oubli/experiment/run_folder.h"

namespace oubli {

// What every trial of a run works on.
struct TrialData {
  ImageSet train;
  ImageSet test;
};
// Loads the data set of an experiment. Error{missing} says how to get it.
[[nodiscard]] TrialData load_trial_data(const RunConfig& config);

// Trains the network of one trial by the experiment's recipe and saves what the audits need: logits
// on the test set; for seen networks also mean logits of the training data, the logits of a head
// refitted to the retained classes, and what method explained needs. `who` is for the mark in the
// folder.
//
// A trial that fails is recorded as failed, with its reason, and this returns; only an interruption
// and the failure to write that record are thrown.
void run_trial(const RunFolder& folder, const Trial& trial, const TrialData& data,
               const std::string& who, const std::stop_token& stop);

}  // namespace oubli
