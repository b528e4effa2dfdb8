#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "oubli/base/digest.h"
#include "oubli/filtration/filtration.h"
#include "oubli/forget/calibration.h"
#include "oubli/forget/leak_check.h"
#include "oubli/forget/run_model.h"
#include "oubli/forget/self_check.h"
#include "oubli/forget/stored_means.h"
#include "oubli/model/model_file.h"

namespace oubli {

// A deletion request: which classes, and how.
struct ForgetRequest {
  std::vector<std::size_t> forget;  // ascending
  Method method = Method::normalization;
  bool curvature = false;  // no filtration, and no method: see curvature.h
  Solver solver = Solver::automatic;
  std::uint64_t seed = 0;
  double explain = kExplain;  // method explained: rho, and what S is made of
  SpreadFrom explain_from = SpreadFrom::automatic;
  bool keep_seed = false;  // randomization: in the receipt, which else holds a digest of it
  Centring centring = Centring::by_head;
  std::optional<Matrix<double>> custom_target;  // method custom: forgotten x retained
  SampleChoice samples;
  std::vector<std::string> class_names;  // empty, or one per class
  bool allow_nonlinear_tail = false;     // although a shift of all logits shows in the output
  bool ignore_accuracy = false;          // although the model seems to be wrong about the data
  std::string note;                      // the operator's own words, kept in the receipt
};

// What the request is answered from. Means alone will do; data adds the leak check; naive and
// centre need neither.
struct ForgetInputs {
  const ModelFile* model = nullptr;
  std::optional<StoredMeans> means = {};     // from a means file
  std::vector<FileDigest> means_files = {};  // that file
  std::vector<FileDigest> model_files = {};  // empty: those of `model`, not read yet
  std::optional<CalibrationData> data = {};
  const CalibrationRun* run = nullptr;  // `data` is what the model made of inputs
};

// The digests of everything a request is answered from.
struct InputDigests {
  std::vector<FileDigest> model, means, data;
  std::string head;              // head_digest()
  DigestTrail model_trail = {};  // of the model's bytes(), if it has them
};
[[nodiscard]] InputDigests digests_of(const ForgetInputs& inputs, const std::stop_token& stop = {});

// The answer, worked out in full but not written.
struct ForgetPlan {
  std::optional<StoredMeans> means;  // those used: given, or gathered from the data
  FiltrationPlan filtration;
  NewHead new_head;
  std::optional<StoredHead> stored_head;  // what the new file holds, if that is another head
  HeadCheck head_check;
  std::optional<RoundingCheck> rounding_check;  // of a head in whole numbers that was rounded
  std::vector<std::string> warnings;
  InputDigests digests;

  [[nodiscard]] const ClassSplit& split() const { return filtration.filter.split; }
  [[nodiscard]] HeadView new_head_view(const HeadView& old_head) const;
  // What is in the new file.
  [[nodiscard]] const NewHead& written_head() const {
    return stored_head ? stored_head->head : new_head;
  }
  [[nodiscard]] HeadRounding rounding() const {
    return stored_head ? stored_head->rounding : HeadRounding{};
  }
  // What makes the logits: the new head, rounded where the file has whole numbers.
  [[nodiscard]] HeadView working_head_view(const HeadView& old_head) const {
    return rounding_check ? written_head_view(old_head) : new_head_view(old_head);
  }
  [[nodiscard]] HeadView written_head_view(const HeadView& old_head) const;
  // Whether the retained classes' means can be written for the next request.
  [[nodiscard]] bool has_means_to_keep() const;
};
// After a stop request, here and below: Error{interrupted}.
[[nodiscard]] ForgetPlan plan_forget(const ForgetInputs& inputs, const ForgetRequest& request,
                                     const std::stop_token& stop = {});

// What was written, and what was found in it.
struct NewModel {
  std::vector<FileDigest> written;
  std::string head_sha256;  // head_digest() of the written head
  std::vector<Finding> findings;
};

// What came of a plan: what was measured, and what was written.
struct ForgetOutcome : NewModel {
  std::optional<LeakCheck> leaks;  // if there is data
  RunOutcome run_check;            // old and new model run on the same inputs
  std::optional<WrittenCheck> written_check;
  std::string receipt;  // its text
};
// Only what can be known without writing anything: the leaks, if there is data.
[[nodiscard]] ForgetOutcome look_for_leaks(const ForgetInputs& inputs, const ForgetRequest& request,
                                           const ForgetPlan& plan);

// Where the answer goes.
struct ForgetOutputs {
  std::filesystem::path model = {};
  bool replace = false;
  std::optional<std::filesystem::path> class_names = {};       // where to write the remaining names
  std::optional<std::filesystem::path> previous_receipt = {};  // of the request before this one
  std::optional<std::filesystem::path> signing_key = {};
  // Beside the receipt, as a statement that other programs can check; needs a key.
  bool attest = false;
  bool bundle = false;  // and as a sigstore bundle
  // Statements about the deletions before this one, which the new file takes over.
  std::optional<std::filesystem::path> previous_evidence = {};
};

// NEW.receipt.json, NEW.means.npz, NEW.class-names.txt: beside the new model and named after it.
[[nodiscard]] std::filesystem::path receipt_path(const std::filesystem::path& model);
[[nodiscard]] std::filesystem::path means_path(const std::filesystem::path& model);
[[nodiscard]] std::filesystem::path class_names_path(const std::filesystem::path& model);

// Writes the new model, its receipt, and the shrunken means if means were used: everything to
// temporaries first, then the self-check, then all into place, the model last.
[[nodiscard]] ForgetOutcome carry_out(const ForgetInputs& inputs, const ForgetRequest& request,
                                      const ForgetPlan& plan, const ForgetOutputs& outputs,
                                      const std::stop_token& stop = {});

}  // namespace oubli
