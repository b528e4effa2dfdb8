#include "oubli/model/sklearn/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/model/mentions.h"
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

// Numbers of two classes that one number of a file stands for: x, and 0 or -x before it.
std::vector<double> both_of(std::span<const double> one, sklearn::TwoClasses two, bool by_turns) {
  std::vector<double> both(2 * one.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    both[by_turns ? 2 * i : i] = two == sklearn::TwoClasses::opposite ? -one[i] : 0;
    both[by_turns ? 2 * i + 1 : one.size() + i] = one[i];
  }
  return both;
}

// The inverse for numbers of two classes, of which only the difference matters.
std::vector<double> one_of(const Tensor& both, sklearn::TwoClasses two, bool by_turns) {
  std::vector<double> values(both.bytes.size() / size_of(both.dtype));
  decode(both.dtype, both.bytes, std::span<double>(values));
  std::vector<double> one(values.size() / 2);
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double first = values[by_turns ? 2 * i : i];
    const double second = values[by_turns ? 2 * i + 1 : one.size() + i];
    one[i] = (second - first) * (two == sklearn::TwoClasses::opposite ? 0.5 : 1);
  }
  return one;
}

std::vector<std::byte> encoded(std::span<const double> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  encode(dtype, values, bytes);
  return bytes;
}

// Both rows of a model that has one, as a head of two classes.
TensorView both_rows(const NumpyArray& array, sklearn::TwoClasses two, std::string what,
                     std::vector<std::byte>& storage) {
  const DType dtype = dtype_of(array);
  std::vector<double> one(array.bytes.size() / array.item_size);
  decode(dtype, array.bytes, std::span<double>(one));
  const bool by_turns = array.fortran && array.shape.size() == 2;
  storage = encoded(both_of(one, two, by_turns), dtype);
  std::vector<std::size_t> shape = array.shape;
  shape[0] = 2;
  if (array.fortran) std::ranges::reverse(shape);
  return {dtype, std::move(shape), storage, std::move(what)};
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
  const std::string coef = path.string() + ":coef_", intercept = path.string() + ":intercept_";
  const bool one_row = estimator_.one_row();
  head_.weights = one_row ? both_rows(estimator_.coef, estimator_.two, coef, weights_)
                          : view_of(estimator_.coef, coef);
  head_.transposed = estimator_.coef.fortran;
  if (estimator_.intercept)
    head_.bias = one_row ? both_rows(*estimator_.intercept, estimator_.two, intercept, bias_)
                         : view_of(*estimator_.intercept, intercept);
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
  if (left == 2 && estimator_.two == sklearn::TwoClasses::unknown)
    fail(ErrorCode::unfilterable,
         "{}: scikit-learn keeps two classes as one row, which for {} does not give the old "
         "probabilities; forget in an .npz of coef_ and intercept_ instead",
         path().string(), estimator_.type);
}

std::optional<StoredHead> SklearnModel::stored_as(const NewHead& head,
                                                  std::span<const std::size_t> /*retained*/) const {
  const bool by_turns = head_.transposed;
  if (head.weights.shape[by_turns ? 1 : 0] != 2) return std::nullopt;
  const auto stored = [&](const Tensor& both, bool turns) {
    // Rounded as one row first: that is what both are made of again.
    const std::vector<std::byte> bytes = encoded(one_of(both, estimator_.two, turns), both.dtype);
    std::vector<double> one(bytes.size() / size_of(both.dtype));
    decode(both.dtype, bytes, std::span<double>(one));
    return Tensor{both.dtype, both.shape, encoded(both_of(one, estimator_.two, turns), both.dtype)};
  };
  NewHead two{stored(head.weights, by_turns), std::nullopt, head.bias_added};
  if (head.bias) two.bias = stored(*head.bias, false);
  return StoredHead{std::move(two)};
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

void SklearnModel::for_each_packed(
    const std::function<bool(const std::string&, std::span<const std::byte>)>& visit) const {
  if (packing_ != Packing::none) visit(path().string(), unpacked_);
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
  const auto set = [&](const NumpyArray& array, const Tensor& numbers, bool by_turns) {
    if (rows == 2)
      pickle::set_array(*pickle_, array, 1,
                        encoded(one_of(numbers, estimator_.two, by_turns), numbers.dtype), edits);
    else
      pickle::set_array(*pickle_, array, rows, numbers.bytes, edits);
  };
  set(estimator_.coef, head.weights, head_.transposed);
  if (estimator_.intercept) set(*estimator_.intercept, *head.bias, false);
  if (estimator_.classes.kind != 'O')
    pickle::set_array(*pickle_, estimator_.classes, rows,
                      pickle::rows_of(estimator_.classes, retained), edits);
  else if (!pickle::keep_objects(*pickle_, estimator_.classes, retained, edits))
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
