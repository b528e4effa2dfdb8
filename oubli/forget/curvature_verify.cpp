#include "oubli/forget/curvature_verify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "oubli/base/temporary_folder.h"
#include "oubli/base/version.h"
#include "oubli/forget/curvature.h"
#include "oubli/forget/made_anew.h"
#include "oubli/forget/verify_rest.h"

namespace oubli {
namespace {

using State = VerifyStep::State;

VerifyStep answer(std::string what, bool passed, std::string detail) {
  return {std::move(what), passed ? State::passed : State::failed, std::move(detail)};
}

}  // namespace

VerifyStep curvature_rest(const Claims& claims, const VerifyInputs& inputs,
                          const ForgetInputs& original, const std::string& name) {
  const char* const what = "everything else";
  const nn::Network old = network_for_curvature(*original.model);
  const nn::Network found = network_for_curvature(*inputs.model);
  const std::vector<std::string> may_change = curvature_tensors(old);
  if (claims.tensors_changed != may_change)
    return answer(
        what, false,
        fmt::format("the receipt says that {} changed, the method may change {}",
                    fmt::join(claims.tensors_changed, ", "), fmt::join(may_change, ", ")));
  if (found.spec().layers != old.spec().layers)
    return answer(what, false, "other layers than the original's");
  const TemporaryFolder folder;
  const auto stepped = with_layer_of(*original.model, found, folder.path());
  const RestCheck rest = check_rest(*stepped, *inputs.model, claims.request.forget, name);
  return answer(what, rest.passed,
                rest.passed
                    ? fmt::format("byte for byte what the edit makes of the original; {} are "
                                  "others",
                                  fmt::join(may_change, ", "))
                    : rest.detail);
}

VerifyStep curvature_old_layer(const VerifyInputs& inputs, const ForgetInputs& original) {
  const nn::Network old = network_for_curvature(*original.model);
  const nn::Network found = network_for_curvature(*inputs.model);
  const RestCheck rows =
      check_old_layer(layer_before_head(old), layer_before_head(found), *inputs.model);
  return answer("the old layer", rows.passed, rows.detail);
}

VerifyStep curvature_computed_anew(const Claims& claims, const VerifyInputs& inputs,
                                   const ForgetInputs& original) {
  const nn::Network found = network_for_curvature(*inputs.model);
  if (original.run == nullptr)
    return {kComputedAnew, State::not_made, "the images were not given (--data)"};
  const CurvaturePlan plan = plan_curvature(original, claims.request, inputs.stop);
  const std::vector<nn::Parameter>& wanted = plan.step.network.parameters();
  if (wanted.size() != found.parameters().size())
    return answer(kComputedAnew, false, "has other tensors");
  double apart = 0;
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    const std::vector<float>& values = found.parameters()[p].values;
    double largest = 0, difference = 0;
    if (values.size() != wanted[p].values.size())
      return answer(kComputedAnew, false, fmt::format("'{}' has another shape", wanted[p].name));
    for (std::size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(wanted[p].values[i])));
      difference = std::max(difference, std::abs(static_cast<double>(wanted[p].values[i]) -
                                                 static_cast<double>(values[i])));
    }
    if (difference > 0) apart = std::max(apart, largest > 0 ? difference / largest : 1);
  }
  if (wanted == found.parameters())
    return answer(kComputedAnew, true, "it and the layer before it are the same bit for bit");
  const std::string differs = fmt::format(
      "it or the layer before it differs by up to {:.1e} of the largest number of a tensor", apart);
  const std::string instructions = original.run->report().instructions;
  const bool same_build = claims.version == kVersion && claims.compiler == kCompiler &&
                          claims.architecture == kArchitecture && claims.run &&
                          claims.run->instructions == instructions;
  if (same_build)
    return answer(kComputedAnew, false,
                  differs + ", although this build made it: perhaps of other images");
  return {kComputedAnew, State::not_made,
          fmt::format("{}; made by oubli {}, {}, {}, here {}: another build or processor need not "
                      "come to the same step, so that this says nothing",
                      differs, claims.version, claims.compiler,
                      claims.run ? claims.run->instructions : "no run", instructions)};
}

}  // namespace oubli
