#include "oubli/model/arrays/model.h"

#include "oubli/base/error.h"
#include "oubli/model/mentions.h"

namespace oubli {

ArrayModel::ArrayModel(const std::filesystem::path& path, const HeadChoice& choice)
    : ModelFile(path),
      file_(ArrayFile::open(path)),
      named_(find_named_head(file_->tensors(), choice, path.string())),
      weights_(file_->read(named_.weights)) {
  head_.weights = weights_;
  head_.transposed = named_.transposed;
  if (!named_.bias.empty()) {
    bias_ = file_->read(named_.bias);
    head_.bias = bias_;
  }
  validate(head_);
}

std::vector<std::string> ArrayModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places;
  for (const TensorInfo& info : file_->tensors())
    if (mentions_name(info.name, name)) places.push_back("tensor " + info.name);
  for (const auto& [where, text] : file_->words())
    if (mentions_name(text, name)) places.push_back(where);
  return places;
}

StagedModel ArrayModel::stage(const NewHead& head, std::span<const std::size_t> retained,
                              const std::filesystem::path& path, bool replace) const {
  StagedModel staged;
  std::vector<TensorEdit> edits{{named_.weights, head.weights.view(named_.weights)}};
  HeadChoice choice{.weights = named_.weights,
                    .bias = named_.bias,
                    .transposed = head_.transposed,
                    .classes = retained.size(),
                    .features = head_.features()};
  if (head.bias) {
    if (named_.bias.empty() && file_->format() == ".npy")
      fail(ErrorCode::unfilterable,
           "{}: the solver needs a bias, which an .npy file has no room for; use --solver paper, "
           "or save the head as .npz",
           this->path().string());
    if (named_.bias.empty()) choice.bias = name_for_new_bias(file_->tensors(), named_.weights);
    edits.push_back({*choice.bias, head.bias->view(*choice.bias)});
  }
  if (head.bias_added)
    staged.findings.push_back(
        {*choice.bias, "is new: the solver needs a bias, which the head lacked"});
  staged.files.push_back(std::make_unique<AtomicFile>(path, replace));
  file_->rewrite(*staged.files[0], edits);
  check_unchanged();
  staged.written = std::make_unique<ArrayModel>(staged.files[0]->temporary_path(), choice);
  return staged;
}

}  // namespace oubli
