#include "oubli/forget/verify.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "oubli/base/digest.h"
#include "oubli/base/json.h"
#include "oubli/base/version.h"
#include "oubli/forget/receipt.h"
#include "oubli/forget/signature.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;
using State = VerifyStep::State;

VerifyStep step(std::string what, bool passed, std::string detail = {}) {
  return {std::move(what), passed ? State::passed : State::failed, std::move(detail)};
}

VerifyStep not_made(std::string what, std::string why) {
  return {std::move(what), State::not_made, std::move(why)};
}

VerifyStep signature_step(const Json& receipt, const std::optional<std::string>& public_key) {
  const char* const what = "signature";
  if (!public_key) return not_made(what, "no --pubkey was given");
  switch (check_signature(receipt, *public_key)) {
    case SignatureState::valid:
      return step(what, true, "Ed25519, by the given key");
    case SignatureState::invalid:
      return step(what, false, "does not fit the receipt: changed or forged");
    case SignatureState::other_key:
      return step(what, false, "is by another key than the given one");
    case SignatureState::unsigned_receipt:
      break;
  }
  return step(what, false, "the receipt is not signed");
}

// Every file of `paths` is in the receipt's list with this role, and none is left over.
VerifyStep files_step(const std::string& what, const Json& listed, const std::string& role,
                      const std::vector<FileDigest>& found) {
  std::size_t wanted = 0;
  for (const Json& file : listed)
    if (file.at("role") == role) ++wanted;
  for (const FileDigest& file : found) {
    const bool known = std::ranges::any_of(listed, [&](const Json& entry) {
      return entry.at("role") == role && entry.at("sha256") == file.sha256;
    });
    if (!known)
      return step(
          what, false,
          fmt::format("{} has SHA-256 {}, which is not in the receipt", file.name, file.sha256));
  }
  if (wanted != found.size())
    return step(what, false,
                fmt::format("{} files in the receipt, {} found", wanted, found.size()));
  return step(what, true, "SHA-256 as in the receipt");
}

std::vector<FileDigest> digests_of(const ModelFile& model) {
  return digests_of(ForgetInputs{.model = &model}).model;
}

VerifyStep chain_step(const Json& receipt, const std::optional<std::filesystem::path>& previous) {
  const char* const what = "earlier receipt";
  const Json& named = receipt.at("previous_receipt_sha256");
  if (named.is_null() && !previous) return not_made(what, "there is none: the first of its chain");
  if (!previous)
    return not_made(
        what, fmt::format("it has SHA-256 {}; --previous was not given", named.get<std::string>()));
  const std::string digest = sha256_file(*previous);
  if (named != digest)
    return step(what, false, fmt::format("{} is not the one named", previous->string()));
  const Json earlier = parse_receipt(read_text_file(*previous), previous->string());
  const Json& input = receipt.at("input").at("files").at(0).at("sha256");
  const bool linked = is_output_of(earlier, input.get<std::string>());
  return step(what, linked,
              linked ? "is the one named, and its output was this request's input"
                     : "its output was not this request's input");
}

VerifyStep recompute_step(const Json& receipt, const VerifyInputs& inputs,
                          const ForgetInputs& original) {
  const char* const what = "the new head, computed anew";
  ForgetRequest request = request_of(receipt);
  if (request.method == Method::custom) {
    if (!inputs.custom_target) return not_made(what, "method custom needs --target");
    request.custom_target = inputs.custom_target;
    const std::string digest =
        sha256_hex(std::as_bytes(std::span<const double>(request.custom_target->flat())));
    if (receipt.at("request").value("target_sha256", Json()) != digest)
      return step(what, false, "the target is not the one of the receipt");
  }
  const ForgetPlan plan = plan_forget(original, request);
  const HeadView& found = inputs.model->head();
  const HeadView expected = plan.new_head_view(original.model->head());
  const auto weights = units_apart(expected.weights, found.weights);
  std::optional<std::uint64_t> bias = 0;
  if (expected.bias.has_value() != found.bias.has_value())
    bias = std::nullopt;
  else if (expected.bias)
    bias = units_apart(*expected.bias, *found.bias);
  if (!weights || !bias) return step(what, false, "has another shape or type");
  const std::uint64_t apart = std::max(*weights, *bias);
  const Json& program = receipt.at("program");
  const bool same_build = program.at("version") == kVersion &&
                          program.at("compiler") == kCompiler &&
                          program.at("architecture") == kArchitecture;
  if (apart == 0) return step(what, true, "is the same bit for bit");
  const std::string builder = fmt::format("oubli {}, {}", program.at("version").get<std::string>(),
                                          program.at("compiler").get<std::string>());
  if (same_build)
    return step(
        what, false,
        fmt::format("differs by up to {} units in the last place, although this is the build "
                    "that made it",
                    apart));
  return step(
      what, apart <= 1,
      fmt::format("differs by up to {} unit{} in the last place (made by another build: {})", apart,
                  apart == 1 ? "" : "s", builder));
}

template <typename Bits>
std::uint64_t largest_distance(std::span<const std::byte> a, std::span<const std::byte> b) {
  // Floats of either sign in the order of their values: -0 and 0 fall together.
  const auto ordered = [](Bits bits) {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    return static_cast<Bits>((bits & kSign) != 0 ? kSign - (bits & static_cast<Bits>(~kSign))
                                                 : kSign + bits);
  };
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < a.size(); i += sizeof(Bits)) {
    Bits x = 0;
    Bits y = 0;
    std::memcpy(&x, a.data() + i, sizeof x);
    std::memcpy(&y, b.data() + i, sizeof y);
    const Bits low = std::min(ordered(x), ordered(y));
    const Bits high = std::max(ordered(x), ordered(y));
    largest = std::max(largest, static_cast<std::uint64_t>(high - low));
  }
  return largest;
}

}  // namespace

std::optional<std::uint64_t> units_apart(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || !is_float(a.dtype)) return std::nullopt;
  switch (size_of(a.dtype)) {
    case 2:
      return largest_distance<std::uint16_t>(a.bytes, b.bytes);
    case 4:
      return largest_distance<std::uint32_t>(a.bytes, b.bytes);
    default:
      return largest_distance<std::uint64_t>(a.bytes, b.bytes);
  }
}

ForgetRequest request_of(const Json& receipt) try {
  ForgetRequest request;
  const Json& asked = receipt.at("request");
  request.forget = whole_numbers(asked.at("forget"));
  const auto method = method_named(asked.at("method").get<std::string>());
  const auto solver = solver_named(asked.at("solver").get<std::string>());
  if (!method || !solver)
    fail(ErrorCode::bad_input,
         "the receipt names a method or solver that this program does not know");
  request.method = *method;
  request.solver = *solver;
  request.seed = whole_number<std::uint64_t>(asked.at("seed"));
  const Json& calibration = receipt.at("calibration");
  if (calibration.is_object() && calibration.contains("samples_per_class")) {
    const Json& samples = calibration.at("samples_per_class");
    if (samples.is_number_unsigned()) request.samples.per_class = samples.get<std::size_t>();
    request.samples.random = calibration.value("samples_random", false);
    request.samples.seed = request.seed;
  }
  // Whoever made the receipt was asked; here it only matters whether the same comes out.
  request.allow_nonlinear_tail = true;
  request.ignore_accuracy = true;
  return request;
} catch (const nlohmann::json::exception& error) {
  fail(ErrorCode::bad_input, "the receipt is damaged: {}", error.what());
}

std::vector<VerifyStep> verify_receipt(const Json& receipt, const VerifyInputs& inputs) {
  try {
    std::vector<VerifyStep> steps{signature_step(receipt, inputs.public_key)};
    steps.push_back(files_step("the new model", receipt.at("output").at("files"), "model",
                               digests_of(*inputs.model)));
    if (inputs.original == nullptr) {
      steps.push_back(not_made("the original", "--original was not given"));
    } else {
      ForgetInputs original = *inputs.original;
      const InputDigests digests = digests_of(original);
      original.model_files = digests.model;  // so that they are not read again
      original.means_files = digests.means;
      if (original.data) original.data->files = digests.data;
      steps.push_back(files_step("the original", receipt.at("input").at("files"), "model",
                                 original.model_files));
      const Json& calibration = receipt.at("calibration");
      const bool by_means = calibration.is_object() && calibration.contains("means_files");
      if (original.means && by_means)
        steps.push_back(
            files_step("its means", calibration.at("means_files"), "means", original.means_files));
      if (original.data && !by_means && calibration.is_object()) {
        const Json& listed = calibration.at("data_files");
        const bool known = std::ranges::all_of(original.data->files, [&](const FileDigest& file) {
          return std::ranges::any_of(
              listed, [&](const Json& entry) { return entry.at("sha256") == file.sha256; });
        });
        steps.push_back(step("its data", known,
                             known ? "SHA-256 as in the receipt" : "is not that of the receipt"));
      }
      if (!calibration.is_object() || original.means || original.data)
        steps.push_back(recompute_step(receipt, inputs, original));
      else
        steps.push_back(
            not_made("the new head, computed anew", "neither means nor data were given"));
    }
    steps.push_back(chain_step(receipt, inputs.previous));
    return steps;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::bad_input, "the receipt is damaged: {}", error.what());
  }
}

}  // namespace oubli
