#include "oubli/forget/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "oubli/base/digest.h"
#include "oubli/base/version.h"
#include "oubli/forget/claims.h"
#include "oubli/forget/curvature_verify.h"
#include "oubli/forget/made_anew.h"
#include "oubli/forget/receipt.h"
#include "oubli/forget/signature.h"
#include "oubli/forget/verify_rest.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;
using State = VerifyStep::State;

// Of whole numbers up to 64 or 127, relative to the largest.
constexpr double kNeighbours = 1.0 / 64;

VerifyStep step(std::string what, bool passed, std::string detail = {}) {
  return {std::move(what), passed ? State::passed : State::failed, std::move(detail)};
}

VerifyStep not_made(std::string what, std::string why) {
  return {std::move(what), State::not_made, std::move(why)};
}

VerifyStep signature_step(const Json& receipt, const std::optional<std::string>& public_key) {
  const char* const what = "signature";
  if (!public_key) return not_made(what, "no --key was given");
  switch (check_signature(receipt, *public_key)) {
    case SignatureState::valid:
      return step(what, true,
                  receipt["signature"]["algorithm"].get<std::string>() + ", by the given key");
    case SignatureState::invalid:
      return step(what, false, "does not fit the receipt: changed or forged");
    case SignatureState::other_key:
      return step(what, false, "is by another key than the given one");
    case SignatureState::unsigned_receipt:
      break;
  }
  return step(what, false, "the receipt is not signed");
}

// Every file that was found is in the receipt's list with this role, and none is left over.
VerifyStep files_step(const std::string& what, std::span<const Claims::File> listed,
                      const std::string& role, const std::vector<FileDigest>& found) {
  for (const FileDigest& file : found) {
    const bool known = std::ranges::any_of(listed, [&](const Claims::File& entry) {
      return entry.role == role && entry.sha256 == file.sha256;
    });
    if (!known)
      return step(
          what, false,
          fmt::format("{} has SHA-256 {}, which is not in the receipt", file.name, file.sha256));
  }
  const auto wanted =
      static_cast<std::size_t>(std::ranges::count(listed, role, &Claims::File::role));
  if (wanted != found.size())
    return step(what, false,
                fmt::format("{} files in the receipt, {} found", wanted, found.size()));
  return step(what, true, "SHA-256 as in the receipt");
}

VerifyStep head_step(const std::string& what, const Claims::Head& claimed, const HeadView& head,
                     const std::string& sha256) {
  const bool same = claimed.sha256 == sha256 && claimed.classes == head.classes();
  return step(what, same,
              same ? "SHA-256 as in the receipt"
                   : fmt::format("{} classes with SHA-256 {}, the receipt says {} with {}",
                                 head.classes(), sha256, claimed.classes, claimed.sha256));
}

// The means or the class names that were written with the new model, if they still lie beside it.
VerifyStep beside_step(const Claims::File& file, const std::filesystem::path& model) {
  const std::string what = "the new " + file.role;
  // The name is the receipt's, and must not lead anywhere else.
  const std::filesystem::path name(file.name);
  if (!is_plain_name(file.name))
    return step(what, false, fmt::format("'{}' is not the plain name of a file", file.name));
  // Named after the model or, if that was renamed, as the receipt says.
  std::error_code unknown;
  std::filesystem::path path = file.role == "means" ? means_path(model) : class_names_path(model);
  if (!std::filesystem::is_regular_file(path, unknown)) path = model.parent_path() / name;
  if (!std::filesystem::is_regular_file(path, unknown))
    return not_made(what, fmt::format("{} is not beside the new model", file.name));
  const std::string digest = sha256_file(path);
  return step(what, digest == file.sha256,
              digest == file.sha256
                  ? "SHA-256 as in the receipt"
                  : fmt::format("{} has SHA-256 {}, not that of the receipt", file.name, digest));
}

// Old numbers to new ones, as the request and the two heads leave no choice about.
VerifyStep classes_step(const Claims& claims) {
  const char* const what = "the list of classes";
  bool right = claims.classes.size() == claims.head_before.classes;
  std::size_t next = 0;
  for (std::size_t j = 0; right && j < claims.classes.size(); ++j) {
    const bool forgotten = std::ranges::binary_search(claims.request.forget, j);
    right = claims.classes[j].before == j &&
            claims.classes[j].after == (forgotten ? std::nullopt : std::optional(next));
    if (!forgotten) ++next;
  }
  right = right && next == claims.head_after.classes;
  return step(what, right,
              right ? "is that of the request" : "does not fit the request and the two heads");
}

VerifyStep chain_step(const Claims& claims, const std::optional<std::filesystem::path>& previous) {
  const char* const what = "earlier receipt";
  if (!claims.previous && !previous) return not_made(what, "there is none: the first of its chain");
  if (!previous)
    return not_made(what,
                    fmt::format("it has SHA-256 {}; --previous was not given", *claims.previous));
  if (claims.previous != sha256_file(*previous))
    return step(what, false, fmt::format("{} is not the one named", previous->string()));
  const Json earlier = parse_receipt(read_text_file(*previous), previous->string());
  const bool linked = is_output_of(earlier, claims.before.front().sha256);
  return step(what, linked,
              linked ? "is the one named, and its output was this request's input"
                     : "its output was not this request's input");
}

// Features of single precision from another engine, or from other instructions of the processor,
// differ by rounding, and solving for the filter magnifies that by 1 / conditioning at most. The
// largest seen on trained networks, ONNX Runtime against the built-in engine: 6e-6 at a
// conditioning of 0.14, where this allows 1.1e-4. That another engine ran it is only what the
// receipt says: unless it is signed, 1024 roundings of single precision, in which features are
// kept, are the most.
double explained_by_engine(const ForgetPlan& plan, DType dtype, bool is_signed) {
  constexpr double kRoundings = 256;
  const double kMost = is_signed ? 1e-3 : 1024 * unit_roundoff(DType::f32);
  const double conditioning = plan.filtration.solver ? plan.filtration.solver->conditioning : 1;
  // S, too, is made of features, and 1 / lambda magnifies its errors.
  const auto& explanation = plan.filtration.explanation;
  const double spread = explanation && explanation->rows > 0 ? 1 / explanation->rho : 0;
  const double features = kRoundings * unit_roundoff(DType::f32) * (1 / conditioning + spread);
  return 2 * unit_roundoff(dtype) + (features < kMost ? features : kMost);
}

// How the inputs or labels of this run differ from those of the receipt's, as a hint.
std::string differences_of_runs(const Claims& claims, const CalibrationRun* run) {
  if (run == nullptr || !claims.run) return "";
  const RunReport& here = run->report();
  std::string text;
  if (here.preparation != claims.run->inputs)
    text += fmt::format(
        "; inputs were made as '{}', the receipt says '{}' (--scale, --mean, --std, --layout, "
        "--size)",
        here.preparation, claims.run->inputs);
  if (here.labels != claims.run->labels)
    text += fmt::format("; here {}, the receipt says: {} (--class-names)", here.labels,
                        claims.run->labels);
  return text;
}

std::string engine(const std::string& runtime, const std::string& instructions) {
  return fmt::format("{}, {}", runtime,
                     instructions.empty() ? "unknown instructions" : instructions);
}

// What keeps the new head from being computed anew: a target or seed that was not given, or is
// another.
std::optional<VerifyStep> wrong_secrets(const Claims& claims, const VerifyInputs& inputs,
                                        const ForgetRequest& request) {
  if (request.method == Method::custom) {
    if (!inputs.custom_target) return not_made(kComputedAnew, "method custom needs --target");
    const std::string digest =
        sha256_hex(std::as_bytes(std::span<const double>(request.custom_target->flat())));
    if (claims.target_sha256 != digest)
      return step(kComputedAnew, false, "the target is not the one of the receipt");
  }
  if (claims.seed_sha256) {
    if (!inputs.seed)
      return not_made(kComputedAnew, "the receipt holds a digest of the seed only: give --seed");
    if (*claims.seed_sha256 != seed_digest(*inputs.seed))
      return step(kComputedAnew, false, "the seed is not the one of the receipt");
  }
  return std::nullopt;
}

// The largest distance of two numbers in units in the last place; none if the heads differ in shape
// or type.
std::optional<std::uint64_t> heads_apart(const HeadView& expected, const HeadView& found) {
  if (expected.bias.has_value() != found.bias.has_value()) return std::nullopt;
  const auto weights = units_apart(expected.weights, found.weights);
  const auto bias =
      expected.bias ? units_apart(*expected.bias, *found.bias) : std::optional<std::uint64_t>(0);
  if (!weights || !bias) return std::nullopt;
  return std::max(*weights, *bias);
}

// Who computed the head then, and who does now.
struct Makers {
  bool same_build;
  bool by_means;
  bool ran;  // the means are an engine's work
  std::string builder;
  std::string theirs, mine;  // engines
  std::string hint;          // how the runs differ

  [[nodiscard]] bool same_engine() const { return mine == theirs; }
};

Makers makers_of(const Claims& claims, const ForgetInputs& original, Method method) {
  const bool by_means = needs_class_means(method);
  const bool ran = by_means && original.run != nullptr && !original.means;
  return {.same_build = claims.version == kVersion && claims.compiler == kCompiler &&
                        claims.architecture == kArchitecture,
          .by_means = by_means,
          .ran = ran,
          .builder = fmt::format("oubli {}, {}", claims.version, claims.compiler),
          .theirs = claims.run ? engine(claims.run->runtime, claims.run->instructions) : "no run",
          .mine = ran ? engine(original.run->report().runtime, original.run->report().instructions)
                      : "",
          .hint = differences_of_runs(claims, original.run)};
}

VerifyStep same_head(const FiltrationPlan& filtration) {
  return step(kComputedAnew, true,
              std::string("is the same bit for bit") +
                  (filtration.rows_summed_to_zero() && !filtration.centred
                       ? "; but the old rows sum to zero and the new ones were not centred: a "
                         "forgotten row is minus their sum"
                       : ""));
}

// By the build, and the engine where there is one, that made it.
VerifyStep not_what_it_makes(const Claims& claims, const Makers& makers, std::uint64_t apart) {
  std::string why = makers.ran ? ", although this is the build and the engine that made it"
                               : ", although this is the build that made it";
  if (!makers.hint.empty())
    why = makers.hint;
  else if (makers.by_means && !makers.ran && claims.run && !claims.means)
    why =
        fmt::format("; its means come from a run ({}), perhaps not the given ones", makers.theirs);
  return step(kComputedAnew, false,
              fmt::format("differs by up to {} units in the last place{}", apart, why));
}

VerifyStep recompute_step(const Claims& claims, const VerifyInputs& inputs,
                          const ForgetInputs& original, bool is_signed) {
  const ForgetRequest request = request_to_repeat(claims, inputs);
  if (auto wrong = wrong_secrets(claims, inputs, request)) return *std::move(wrong);
  const ForgetPlan plan = plan_forget(original, request, inputs.stop);
  const HeadView& found = inputs.model->head();
  const HeadView expected = plan.written_head_view(original.model->head());
  const auto apart = heads_apart(expected, found);
  if (!apart) return step(kComputedAnew, false, "has another shape or type");
  if (*apart == 0) return same_head(plan.filtration);

  const Makers makers = makers_of(claims, original, request.method);
  const bool elsewhere = !makers.same_build || (makers.ran && !makers.same_engine());
  // There, a number may have been rounded to its neighbour; whether there was such a place, a
  // signature vouches for.
  if (plan.rounding_check && is_signed && elsewhere) {
    const double relative = relative_difference(expected, found);
    return step(kComputedAnew, relative <= kNeighbours,
                fmt::format("differs by up to {:.1e} of the largest number in a row; neighbours on "
                            "the grid are {:.1e} apart, and it was made elsewhere ({}: {})",
                            relative, kNeighbours, makers.builder, makers.theirs));
  }
  if (makers.ran && elsewhere) {
    const double relative = relative_difference(expected, found);
    const double allowed = explained_by_engine(plan, expected.weights.dtype, is_signed);
    const bool close = relative <= allowed;
    return step(
        kComputedAnew, close,
        fmt::format("differs by up to {:.1e} of the largest number in a row; rounding "
                    "explains {:.1e} where the model ran elsewhere ({}: {}; here: {}){}{}",
                    relative, allowed, makers.builder, makers.theirs, makers.mine,
                    is_signed ? "" : ", which no signature vouches for", close ? "" : makers.hint));
  }
  if (makers.same_build) return not_what_it_makes(claims, makers, *apart);
  return step(
      kComputedAnew, *apart <= 1,
      fmt::format("differs by up to {} unit{} in the last place (made by another build: {})",
                  *apart, *apart == 1 ? "" : "s", makers.builder));
}

// What cannot be finished has failed, or, where something is not there to do it with, is not made;
// either way the other steps count.
template <typename Make>
VerifyStep attempt(const std::string& what, Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted || error.code() == ErrorCode::bug) throw;
    if (error.code() == ErrorCode::missing) return not_made(what, error.what());
    return step(what, false, fmt::format("cannot be done: {}", error.what()));
  }
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

VerifyStep data_step(std::span<const Claims::File> said, std::span<const FileDigest> found) {
  const char* const what = "its data";
  const auto several = [](const auto& file) { return file.files > 1; };
  if (std::ranges::any_of(found, several) && std::ranges::none_of(said, several))
    return not_made(what,
                    "the receipt's digest of several files, of an earlier version, does not tell "
                    "one folder from all others");
  const bool known = std::ranges::all_of(found, [&](const FileDigest& file) {
    return std::ranges::find(said, file.sha256, &Claims::File::sha256) != said.end();
  });
  if (!known && std::ranges::find(said, "", &Claims::File::sha256) != said.end())
    return not_made(what, "the receipt, of an earlier version, has no digest of it");
  return step(what, known, known ? "SHA-256 as in the receipt" : "is not that of the receipt");
}

// Steps that need the old model.
void check_original(const Claims& claims, const VerifyInputs& inputs, bool is_signed,
                    std::vector<VerifyStep>& steps) {
  const auto problem = [&]() -> VerifyStep { throw Error(*inputs.problem); };
  if (inputs.original == nullptr) {
    if (!inputs.problem) {
      steps.push_back(not_made("the original", "--original was not given"));
      return;
    }
    steps.push_back(attempt("the original", problem));
    return;
  }
  ForgetInputs original = *inputs.original;
  const InputDigests digests = digests_of(original, inputs.stop);
  original.model_files = digests.model;  // so that they are not read again
  original.means_files = digests.means;
  if (original.data) original.data->files = digests.data;
  steps.push_back(files_step("the original", claims.before, "model", original.model_files));
  steps.push_back(
      head_step("the original's head", claims.head_before, original.model->head(), digests.head));
  const std::vector<std::size_t>& forget = claims.request.forget;
  std::string name;  // the model itself is the last of its files
  for (const Claims::File& file : claims.after)
    if (file.role == "model") name = file.name;
  const bool curvature = claims.request.curvature;
  steps.push_back(attempt("everything else", [&] {
    if (curvature) return curvature_rest(claims, inputs, original, name);
    const RestCheck rest = check_rest(*original.model, *inputs.model, forget, name);
    return step("everything else", rest.passed, rest.detail);
  }));
  steps.push_back(attempt("old rows", [&] {
    const RestCheck rows = check_old_rows(*original.model, *inputs.model, forget);
    const bool said = !rows.passed && !claims.rows_absent;
    return step("old rows", rows.passed || said,
                said ? rows.detail + "; the receipt says so" : rows.detail);
  }));
  if (curvature)
    steps.push_back(
        attempt("the old layer", [&] { return curvature_old_layer(inputs, original); }));
  if (inputs.problem) {
    steps.push_back(attempt(kComputedAnew, problem));
    return;
  }
  if (original.means && claims.means)
    steps.push_back(files_step("its means", *claims.means, "means", original.means_files));
  if (original.data && claims.data) steps.push_back(data_step(*claims.data, original.data->files));
  if (curvature)
    steps.push_back(
        attempt(kComputedAnew, [&] { return curvature_computed_anew(claims, inputs, original); }));
  else if (!claims.calibrated || original.means || original.data)
    steps.push_back(attempt(kComputedAnew,
                            [&] { return recompute_step(claims, inputs, original, is_signed); }));
  else
    steps.push_back(not_made(kComputedAnew, "neither means nor data were given"));
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

double relative_difference(const HeadView& a, const HeadView& b) {
  const Matrix<double> first = to_matrix(a.weights);
  const Matrix<double> second = to_matrix(b.weights);
  std::vector<double> largest(a.classes());
  std::vector<double> apart(a.classes());
  bool finite = true;
  const auto add = [&](std::size_t row, double x, double y) {
    finite = finite && std::isfinite(x) && std::isfinite(y);
    largest[row] = std::max({largest[row], std::abs(x), std::abs(y)});
    apart[row] = std::max(apart[row], std::abs(x - y));
  };
  for (std::size_t i = 0; i < first.rows(); ++i)
    for (std::size_t j = 0; j < first.cols(); ++j)
      add(a.transposed ? j : i, first(i, j), second(i, j));
  if (a.bias) {
    std::vector<double> x(a.classes());
    std::vector<double> y(a.classes());
    decode(a.bias->dtype, a.bias->bytes, std::span(x));
    decode(b.bias->dtype, b.bias->bytes, std::span(y));
    for (std::size_t j = 0; j < x.size(); ++j) add(j, x[j], y[j]);
  }
  double worst = 0;
  for (std::size_t j = 0; j < largest.size(); ++j)
    if (apart[j] > 0) worst = std::max(worst, apart[j] / largest[j]);
  return finite ? worst : std::numeric_limits<double>::infinity();
}

std::vector<VerifyStep> verify_receipt(const Json& receipt, const VerifyInputs& inputs) {
  const Claims claims = claims_of(receipt);
  std::vector<VerifyStep> steps;
  if (!inputs.attested) steps.push_back(signature_step(receipt, inputs.public_key));
  const bool is_signed =
      inputs.attested.value_or(!steps.empty() && steps.front().state == State::passed);
  const InputDigests found = digests_of(ForgetInputs{.model = inputs.model}, inputs.stop);
  steps.push_back(files_step("the new model", claims.after, "model", found.model));
  steps.push_back(
      head_step("the new model's head", claims.head_after, inputs.model->head(), found.head));
  inputs.model->check_unchanged();
  steps.push_back(classes_step(claims));
  for (const Claims::File& file : claims.after)
    if (file.role == "means" || file.role == "class names")
      steps.push_back(
          attempt("the new " + file.role, [&] { return beside_step(file, inputs.model->path()); }));
  check_original(claims, inputs, is_signed, steps);
  if (inputs.make_files) {
    const bool computed =
        inputs.original != nullptr && std::ranges::any_of(steps, [](const VerifyStep& made) {
          return made.what == kComputedAnew && made.state == State::passed;
        });
    if (!computed)
      steps.push_back(step(kMadeAnew, false, "the new head could not be computed anew"));
    else if (claims.request.curvature)
      steps.push_back(not_made(kMadeAnew,
                               "follows: the changed tensors were computed anew, and the edit was "
                               "made again for everything else"));
    else
      steps.push_back(
          attempt(kMadeAnew, [&] { return files_made_anew(claims, inputs, *inputs.original); }));
  }
  steps.push_back(chain_step(claims, inputs.previous));
  return steps;
}

}  // namespace oubli
