#include "oubli/model/sklearn/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/model/residue.h"
#include "oubli/pickle/calls.h"

namespace oubli {
namespace {

using pickle::Kind;
using pickle::NumpyArray;
using pickle::Ref;

DType dtype_of(const NumpyArray& array) {
  return array.item_size == 8 ? DType::f64 : array.item_size == 4 ? DType::f32 : DType::f16;
}

// Columns of a matrix in Fortran's order are rows of the transposed one.
TensorView view_of(const NumpyArray& array, std::string what) {
  std::vector<std::size_t> shape = array.shape;
  if (array.fortran) std::ranges::reverse(shape);
  return {dtype_of(array), std::move(shape), array.bytes, std::move(what)};
}

}  // namespace

SklearnModel::SklearnModel(const std::filesystem::path& path, const HeadChoice& choice)
    : ModelFile(path), file_(std::make_unique<MappedFile>(path)) {
  if (!choice.weights.empty() || (choice.bias && !choice.bias->empty()))
    fail(ErrorCode::usage,
         "{}: --weights and --bias are for files of arrays; the head of a "
         "scikit-learn model is its coef_ and intercept_",
         path.string());
  packing_ = packing_of(as_text(file_->bytes()));
  if (packing_ != Packing::none) unpacked_ = unpack_stream(file_->bytes(), path.string());
  pickle_ = std::make_unique<pickle::Pickle>(
      packing_ == Packing::none ? file_->bytes() : std::span<const std::byte>(unpacked_),
      path.string(), 0, pickle::joblib_stream);
  estimator_ = sklearn::find_estimator(*pickle_);
  head_.weights = view_of(estimator_.coef, path.string() + ":coef_");
  head_.transposed = estimator_.coef.fortran;
  if (estimator_.intercept)
    head_.bias = view_of(*estimator_.intercept, path.string() + ":intercept_");
  validate(head_);
}

std::string SklearnModel::head_name() const {
  return fmt::format("{}.coef_{}", estimator_.type, estimator_.intercept ? ", intercept_" : "");
}

std::optional<std::vector<std::string>> SklearnModel::class_names() const {
  auto names = pickle::texts_of(*pickle_, estimator_.classes);
  if (!names) return names;
  bool counts = true;  // 0, 1, 2, ...: no names
  for (std::size_t i = 0; i < names->size(); ++i)
    counts = counts && (*names)[i] == std::to_string(i);
  if (counts) return std::nullopt;
  return names;
}

std::vector<Finding> SklearnModel::findings() const {
  std::vector<Finding> findings = estimator_.findings;
  if (estimator_.shift_shows)
    findings.push_back({estimator_.type,
                        "no softmax follows its scores, so that a common shift of all of them "
                        "shows: normalization "
                        "needs --allow-nonlinear-tail; naive works as it is"});
  for (const auto& companion : estimator_.companions)
    findings.push_back(
        {companion.name, "has one entry per class: that of a class that is forgotten goes, too"});
  std::vector<std::string> calls = pickle::foreign_calls(*pickle_);
  if (calls.size() > 12) calls.resize(12);
  if (!calls.empty())
    findings.push_back({"", fmt::format("loading this file in Python runs code: {}. Here none of "
                                        "it was run",
                                        fmt::join(calls, ", "))});
  return findings;
}

void SklearnModel::check_enough_left(std::size_t left) const {
  if (left == 2)
    fail(ErrorCode::unfilterable,
         "{}: scikit-learn keeps two classes as one row of differences, from which the scores of a "
         "receipt cannot be had; forget in an .npz of coef_ and intercept_ instead",
         path().string());
}

std::vector<std::string> SklearnModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places;
  for (Ref ref = 0; ref < pickle_->size() && places.size() < 12; ++ref) {
    if (pickle_->is(ref, Kind::text) && mentions_name(pickle_->text(ref), name))
      places.push_back(fmt::format("byte {}", pickle_->payload(ref).begin));
    if (!pickle_->is(ref, Kind::object)) continue;
    const auto array = pickle::read_array(*pickle_, ref);
    if (!array || (array->kind != 'U' && array->kind != 'S')) continue;
    const auto texts = pickle::texts_of(*pickle_, *array);
    if (texts && std::ranges::any_of(
                     *texts, [&](const std::string& text) { return mentions_name(text, name); }))
      places.push_back("an array of text");
  }
  return places;
}

StagedModel SklearnModel::stage(const NewHead& head, std::span<const std::size_t> retained,
                                const std::filesystem::path& path, bool replace) const {
  check_enough_left(retained.size());
  if (head.bias_added)
    fail(ErrorCode::unfilterable,
         "{}: the solver needs a bias, and this model was fitted without one; use --solver paper",
         this->path().string());
  pickle::Edits edits(*pickle_);
  const std::size_t rows = retained.size();
  pickle::set_array(*pickle_, estimator_.coef, rows, head.weights.bytes, edits);
  if (estimator_.intercept)
    pickle::set_array(*pickle_, *estimator_.intercept, rows, head.bias->bytes, edits);
  if (estimator_.classes.kind != 'O')
    pickle::set_array(*pickle_, estimator_.classes, rows,
                      pickle::rows_of(estimator_.classes, retained), edits);
  else if (!pickle::keep_objects(estimator_.classes, retained, edits))
    fail(ErrorCode::unfilterable,
         "{}: the label of the class in classes_ is used in other places of the file",
         this->path().string());
  StagedModel staged;
  for (const auto& companion : estimator_.companions) {
    pickle::set_array(*pickle_, companion.array, rows, pickle::rows_of(companion.array, retained),
                      edits);
    staged.findings.push_back({companion.name, "its entries of forgotten classes were cut out"});
  }
  staged.files.push_back(std::make_unique<AtomicFile>(path, replace));
  PackedWriter writer(*staged.files[0], packing_);
  edits.write([&](std::span<const std::byte> piece) { writer.write(piece); });
  writer.write(pickle_->source().subspan(pickle_->end()));
  writer.finish();
  check_unchanged();
  staged.written = std::make_unique<SklearnModel>(staged.files[0]->temporary_path(), HeadChoice{});
  return staged;
}

}  // namespace oubli
