#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oubli/forget/forget.h"

namespace oubli {

// A receipt says what was asked, what was done, and what is and is not known about the result. It
// names every file by digest. It holds neither the forgotten weights, nor their class's mean, nor
// the filter, nor its name: a trace of what is gone does not belong beside the new model. Nor does
// it hold the time: the same request on the same files gives the same bytes.
//
//     {"format": "oubli-receipt", "version": 1, ..., "signature": {...} if signed}
inline constexpr char kReceiptFormat[] = "oubli-receipt";
inline constexpr int kReceiptVersion = 1;

// `written`: the new model. The outcome is complete but for its receipt.
[[nodiscard]] std::string make_receipt(const ForgetInputs& inputs, const ForgetRequest& request,
                                       const ForgetPlan& plan, const ForgetOutcome& outcome,
                                       const ModelFile& written, const ForgetOutputs& outputs);

// What any method's receipt holds of files and findings, around its `answer`; signed if there is a
// key.
[[nodiscard]] std::string receipt_text(const ForgetInputs& inputs, const ForgetRequest& request,
                                       const InputDigests& digests, const NewModel& outcome,
                                       const ModelFile& written, const ForgetOutputs& outputs,
                                       const nlohmann::ordered_json& answer);

// Parts of it that `inspect` and --dry-run show as well.
[[nodiscard]] nlohmann::ordered_json head_json(const ModelFile& model, const std::string& sha256);
[[nodiscard]] nlohmann::ordered_json plan_json(const ForgetInputs& inputs,
                                               const ForgetRequest& request, const ForgetPlan& plan,
                                               const ForgetOutcome& outcome);

// Error{bad_input} unless `text` is a receipt of a version that this program knows.
[[nodiscard]] nlohmann::ordered_json parse_receipt(std::string_view text, const std::string& what);

// How inputs were made from the data that the model ran on; none if the receipt does not say, or
// numbers were taken as they are. Error{bad_input} if it says something else.
[[nodiscard]] std::optional<PreparationOptions> preparation_of(
    const nlohmann::ordered_json& receipt);

// A value of a receipt and its place there. Receipts come from anybody: whatever is missing or of
// another type is Error{bad_input} naming the place, as in output.files[0].sha256.
class ReceiptPart {
 public:
  explicit ReceiptPart(const nlohmann::ordered_json& receipt) : value_(&receipt) {}

  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_text() const;
  // Not null, in an object.
  [[nodiscard]] bool has(const char* member) const;
  [[nodiscard]] ReceiptPart operator[](const char* member) const;
  [[nodiscard]] std::vector<ReceiptPart> list() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::uint64_t whole_number() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool flag() const;
  // Error{bad_input}: this is not what was `wanted`.
  [[noreturn]] void refuse(const std::string& wanted) const;

 private:
  ReceiptPart(const nlohmann::ordered_json& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  const nlohmann::ordered_json* value_;
  std::string place_;
};

// Whether the receipt names a file of this digest as its result.
[[nodiscard]] bool is_output_of(const nlohmann::ordered_json& receipt, const std::string& sha256);

// What a receipt holds of a seed that gives away where a forgotten mean went.
[[nodiscard]] std::string seed_digest(std::uint64_t seed);

// What a class is called: by the model, and by the request.
[[nodiscard]] std::set<std::string> names_of_class(const ModelFile& model,
                                                   const ForgetRequest& request, std::size_t c);

// Everything that people should be warned of.
[[nodiscard]] std::vector<std::string> warnings_of(const ForgetPlan& plan,
                                                   const ForgetOutcome& outcome);

// What nobody should read into a receipt, in plain words.
[[nodiscard]] const std::vector<std::string>& limits_of_the_method();

}  // namespace oubli
