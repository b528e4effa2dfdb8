#include "oubli/forget/made_anew.h"

#include <ranges>

#include "oubli/base/digest.h"
#include "oubli/base/temporary_folder.h"

namespace oubli {

ForgetRequest request_to_repeat(const Claims& claims, const VerifyInputs& inputs) {
  ForgetRequest request = claims.request;
  // auto's choice depends on whether its gain was measured on data or estimated from means, and
  // either may be what is left to verify with.
  if (claims.chosen) request.solver = *claims.chosen;
  if (claims.not_explained) request.method = Method::normalization;
  if (request.method == Method::custom) request.custom_target = inputs.custom_target;
  if (claims.seed_sha256 && inputs.seed) request.seed = request.samples.seed = *inputs.seed;
  return request;
}

VerifyStep files_made_anew(const Claims& claims, const VerifyInputs& inputs,
                           const ForgetInputs& original) {
  using enum VerifyStep::State;
  std::vector<Claims::File> said;
  for (const Claims::File& file : claims.after)
    if (file.role == "model") said.push_back(file);
  if (said.empty()) return {kMadeAnew, failed, "the receipt names no file of the new model"};
  // Side files are named after the model, which is the last of them, and may name each other. The
  // name is the receipt's, and must not lead anywhere else.
  const std::filesystem::path name(said.back().name);
  if (!is_plain_name(said.back().name))
    return {kMadeAnew, failed, fmt::format("'{}' is not the plain name of a file", name.string())};
  const ForgetPlan plan = plan_forget(original, request_to_repeat(claims, inputs), inputs.stop);
  const TemporaryFolder folder;
  const StagedModel staged =
      original.model->stage(plan.new_head, plan.split().retained, folder.path() / name, true);
  if (staged.files.size() != said.size())
    return {kMadeAnew, failed,
            fmt::format("{} files; the receipt names {}", staged.files.size(), said.size())};
  for (std::size_t i = 0; i < said.size(); ++i) {
    const std::string made = sha256_file(staged.files[i]->temporary_path());
    if (staged.files[i]->path().filename() != said[i].name || made != said[i].sha256)
      return {kMadeAnew, failed,
              fmt::format("{} comes out with SHA-256 {}, the receipt says {} with {}",
                          staged.files[i]->path().filename().string(), made, said[i].name,
                          said[i].sha256)};
  }
  return {
      kMadeAnew, passed,
      fmt::format("{} as the receipt says, byte for byte",
                  said.size() == 1 ? std::string("is") : fmt::format("{} files are", said.size()))};
}

}  // namespace oubli
