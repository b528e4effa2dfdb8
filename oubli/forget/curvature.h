#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/forget/forget.h"
#include "oubli/model/residue.h"
#include "oubli/rivals/curvature.h"

namespace oubli {

// `forget --method curvature`, experimental: the guarded curvature step (oubli/rivals/curvature.h)
// as a request on a file. It is no filtration: it needs gradients and the images themselves, and
// changes the layer before the head as well. So it is for networks that `oubli train` wrote alone,
// and promises other things: the old head and the old layer are gone, all else is byte for byte
// what it was, and accuracy on retained classes has not fallen by more than kCurvatureAccuracyLoss.
// Features are others afterwards: means gathered before say nothing about the new model.
inline constexpr char kCurvature[] = "curvature";
// On the data of the request, against the old network without the forgotten outputs. The step's own
// guard looks at a sample of the data.
inline constexpr double kCurvatureAccuracyLoss = 0.005;
// Of each class. Figures of docs/methods.md are of 1000.
inline constexpr std::size_t kCurvatureSamples = 50;

// The network in the file. Error{unfilterable} says why it cannot be: not one of ours, with batch
// normalisation, with branches, without biases, or without a layer before the head.
[[nodiscard]] nn::Network network_for_curvature(const ModelFile& model);
// The names of what changes: weights and bias of the layer before the head, those of the head.
[[nodiscard]] std::vector<std::string> curvature_tensors(const nn::Network& network);

struct CurvaturePlan {
  ClassSplit split;
  GuardedStep step;
  std::vector<std::string> tensors;
  NewHead new_head;
  std::vector<std::string> warnings;
  InputDigests digests;
};
// From a model that was run on its data. Error{usage} if there is no run, or images are not those
// of the network's own size, as bytes; {unfilterable} if a class has too few.
[[nodiscard]] CurvaturePlan plan_curvature(const ForgetInputs& inputs, const ForgetRequest& request,
                                           const std::stop_token& stop = {});

// The old and the new file as they are, on all of the data.
struct CurvatureRun {
  std::size_t retained = 0, forgotten = 0;  // samples
  std::size_t right_before = 0;             // of retained ones, the old model with all its outputs
  std::size_t right_cut_off = 0;            // without the forgotten ones
  std::size_t right_now = 0;
  std::size_t retained_flips = 0, forgotten_flips = 0;  // top labels, against cutting off
  double head_mismatch = 0;  // W f + b against the new model's logits, over what rounding explains
};

// Error{self_check} if the new file does not compute what its head says, or costs more accuracy
// than kCurvatureAccuracyLoss.
void require_promises(const CurvatureRun& run);

struct CurvatureOutcome : NewModel {
  CurvatureRun run;
  WrittenCheck written_check;
  bool old_layer_absent = false;
  std::string receipt;
};
// Error{self_check}, and nothing is written, if a promise is not kept.
[[nodiscard]] CurvatureOutcome carry_out_curvature(const ForgetInputs& inputs,
                                                   const ForgetRequest& request,
                                                   const CurvaturePlan& plan,
                                                   const ForgetOutputs& outputs,
                                                   const std::stop_token& stop = {});

// `model` with the layer before the head as in `from`, and all else byte for byte, as a file in
// `folder`. Error{unfilterable} if its numbers are not stored as they are in the file itself.
[[nodiscard]] std::unique_ptr<ModelFile> with_layer_of(const ModelFile& model,
                                                       const nn::Network& from,
                                                       const std::filesystem::path& folder);
// The layer before the head, units x inputs. A view into `network`.
[[nodiscard]] TensorView layer_before_head(const nn::Network& network);

[[nodiscard]] std::string make_curvature_receipt(
    const ForgetInputs& inputs, const ForgetRequest& request, const CurvaturePlan& plan,
    const CurvatureOutcome& outcome, const ModelFile& written, const ForgetOutputs& outputs);
// What it does not promise, in plain words; beside limits_of_the_method().
[[nodiscard]] const std::vector<std::string>& limits_of_curvature();

}  // namespace oubli
