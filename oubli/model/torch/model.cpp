#include "oubli/model/torch/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "oubli/model/mentions.h"
#include "oubli/model/name_agreement.h"
#include "oubli/model/torch/rewrite.h"
#include "oubli/pickle/calls.h"

namespace oubli {
namespace {

using pickle::Kind;
using pickle::kNothing;
using pickle::Pickle;
using pickle::Ref;

constexpr std::size_t kMostFindings = 12;

void add_code_finding(const Pickle& pickle, std::vector<Finding>& findings) {
  std::vector<std::string> calls = pickle::foreign_calls(pickle);
  if (calls.empty()) return;
  const bool more = calls.size() > kMostFindings;
  if (more) calls.resize(kMostFindings);
  findings.push_back(
      {"", fmt::format("loading this file in Python runs code: {}{}. Here none of it "
                       "was run",
                       fmt::join(calls, ", "), more ? ", ..." : "")});
}

// Numbers of classes that are written out: they are settings, whose meaning is the owner's.
void add_count_findings(const Pickle& pickle, std::size_t classes, std::vector<Finding>& findings) {
  static constexpr std::array<std::string_view, 7> kKeys{
      "num_classes", "n_classes", "nb_classes", "num_labels", "n_labels", "nc", "classes"};
  std::set<std::string_view> found;
  for (const Ref ref : pickle.reachable(pickle.root()))
    for (const pickle::Pair& pair : pickle.pairs(ref))
      if (pickle.is(pair.key, Kind::text) && pickle.is(pair.value, Kind::integer) &&
          pickle.integer(pair.value) == static_cast<std::int64_t>(classes) &&
          std::ranges::find(kKeys, pickle.text(pair.key)) != kKeys.end())
        found.insert(pickle.text(pair.key));
  for (const std::string_view key : found)
    findings.push_back({std::string(key), fmt::format("says {}, the number of classes; it is left "
                                                      "as it is: whoever builds the model from "
                                                      "it must say one less",
                                                      classes)});
}

}  // namespace

TorchModel::TorchModel(const std::filesystem::path& path, const HeadChoice& choice)
    : ModelFile(path),
      archive_(torch::Archive::open(path)),
      tensors_(torch::find_tensors(*archive_)) {
  if (tensors_.empty())
    fail(ErrorCode::unfilterable, "{}: a PyTorch file without tensors", path.string());
  parts_ = torch::find_parts(*archive_, tensors_, choice);
  head_.weights = view(parts_.weights, weights_);
  head_.weights.shape.resize(2);  // of a 1 x 1 convolution, too
  if (parts_.bias) {
    head_.bias = view(*parts_.bias, bias_);
    if (tensors_[*parts_.bias].shape[0] != head_.classes())
      fail(ErrorCode::bad_input, "{}: {}, wanted one number per class", head_.bias->what,
           describe(*head_.bias));
  }
  validate(head_);
  names_ = torch::find_name_lists(archive_->pickle(), head_.classes());
}

TensorView TorchModel::view(std::size_t tensor, std::vector<std::byte>& storage) const {
  const torch::Tensor& its = tensors_[tensor];
  const std::string what = fmt::format("{}:{}", path().string(), its.name);
  if (!its.dtype || its.shape.empty())
    fail(ErrorCode::bad_input, "{}: {}, wanted floating-point numbers, one row per class", what,
         its.dtype_name);
  archive_->check_storage(its.key);
  const std::span<const std::byte> all = *archive_->storage(its.key);
  if (its.contiguous())
    return {*its.dtype, its.shape,
            all.subspan(its.offset * its.item_size, its.count() * its.item_size), what};
  storage.resize(its.count() * its.item_size);
  const std::size_t row_bytes = storage.size() / its.shape[0];
  for (std::size_t row = 0; row < its.shape[0]; ++row)
    copy_row(its, all, row, std::span(storage).subspan(row * row_bytes, row_bytes));
  return {*its.dtype, its.shape, storage, what};
}

std::string TorchModel::bias_name() const {
  return parts_.bias ? tensors_[*parts_.bias].name : std::string();
}

std::string TorchModel::head_name() const {
  const std::string& weights = tensors_[parts_.weights].name;
  return parts_.bias ? fmt::format("{}, {}", weights, bias_name()) : weights;
}

std::optional<std::vector<std::string>> TorchModel::class_names() const {
  if (names_.empty()) return std::nullopt;
  for (const torch::NameList& list : names_)
    if (in_another_order(names_[0].names, list.names)) return std::nullopt;
  return names_[0].names;
}

std::vector<Finding> TorchModel::findings() const {
  std::vector<Finding> findings = parts_.findings;
  for (const torch::Companion& companion : parts_.companions)
    findings.push_back(
        {tensors_[companion.tensor].name,
         fmt::format("is {}: it loses the rows of a class that is forgotten, too", companion.why)});
  for (const torch::NameList& list : names_)
    if (in_another_order(names_[0].names, list.names))
      findings.push_back({list.key, fmt::format("has the names of classes in another order than "
                                                "{}: neither is used, give --class-names",
                                                names_[0].key)});
  add_count_findings(archive_->pickle(), head_.classes(), findings);
  add_code_finding(archive_->pickle(), findings);
  return findings;
}

std::vector<std::string> TorchModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places;
  const Pickle& pickle = archive_->pickle();
  for (Ref ref = 0; ref < pickle.size() && places.size() < kMostFindings; ++ref)
    if (pickle.is(ref, Kind::text) && mentions_name(pickle.text(ref), name))
      places.push_back(fmt::format("data.pkl, byte {}", pickle.payload(ref).begin));
  archive_->for_each_other_text([&](const std::string& where, std::string_view text) {
    if (mentions_name(text, name)) places.push_back(without_name(where, name));
  });
  return places;
}

void TorchModel::lower_sides(std::span<const std::size_t> cut, std::size_t classes,
                             pickle::Edits& edits) const {
  const Pickle& pickle = archive_->pickle();
  std::set<Ref> done;
  for (const std::size_t i : cut) {
    const Ref module = tensors_[i].module;
    if (module == kNothing || !done.insert(module).second) continue;
    for (const std::string_view name : {"out_features", "out_channels"}) {
      const Ref side = pickle.attribute(module, name);
      if (pickle.is(side, Kind::integer) &&
          pickle.integer(side) == static_cast<std::int64_t>(head_.classes()))
        edits.set_integer(side, static_cast<std::int64_t>(classes));
    }
  }
}

StagedModel TorchModel::stage(const NewHead& head, std::span<const std::size_t> retained,
                              const std::filesystem::path& path, bool replace) const {
  if (head.bias_added)
    fail(ErrorCode::unfilterable,
         "{}: the solver needs a bias, and whoever loads the file expects none; use --solver paper",
         this->path().string());
  pickle::Edits edits(archive_->pickle());
  torch::RowCut cut(*archive_, tensors_, edits);
  std::vector<std::size_t> touched{parts_.weights};
  cut.set(parts_.weights, head.weights.bytes, retained.size());
  if (parts_.bias) {
    cut.set(*parts_.bias, head.bias->bytes, retained.size());
    touched.push_back(*parts_.bias);
  }
  StagedModel staged;
  for (const torch::Companion& companion : parts_.companions) {
    const torch::Tensor& tensor = tensors_[companion.tensor];
    // The same numbers under another name are the new head there, too.
    if (tensor.same_view(tensors_[parts_.weights]))
      cut.set(companion.tensor, head.weights.bytes, retained.size());
    else if (parts_.bias && tensor.same_view(tensors_[*parts_.bias]))
      cut.set(companion.tensor, head.bias->bytes, retained.size());
    else
      cut.keep(companion.tensor, retained);
    touched.push_back(companion.tensor);
    staged.findings.push_back(
        {tensor.name,
         fmt::format("{}: the rows of forgotten classes were cut out", companion.why)});
  }
  const torch::StorageEdits& storages = cut.finish();
  lower_sides(touched, retained.size(), edits);
  for (const std::string& key : torch::cut_names(archive_->pickle(), names_, retained, edits))
    staged.findings.push_back(
        {key, "its class names are unchanged: other parts of the file refer to them"});
  staged.files.push_back(std::make_unique<AtomicFile>(path, replace));
  archive_->write(*staged.files[0], edits, storages);
  check_unchanged();
  staged.written = std::make_unique<TorchModel>(
      staged.files[0]->temporary_path(),
      HeadChoice{
          .weights = tensors_[parts_.weights].name, .bias = bias_name(), .transposed = false});
  return staged;
}

}  // namespace oubli
