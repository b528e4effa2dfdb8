#include "python/src/means.h"

#include <utility>

#include "oubli/array/labels.h"
#include "oubli/array/row_blocks.h"
#include "oubli/base/enum_names.h"
#include "oubli/base/file.h"
#include "oubli/base/output.h"

namespace oubli::python {
namespace {

// Files of earlier versions have no scatter per feature.
bool per_feature(const StoredMeans& stored) { return stored.feature_scatter.rank() == 2; }

ClassMeans restored(const StoredMeans& stored, bool with_feature_scatter) {
  return ClassMeans::restored(
      to_matrix(stored.means), stored.counts, stored.scatter,
      with_feature_scatter ? to_float_matrix(stored.feature_scatter) : Matrix<float>());
}

void check_batch(const TensorView& values, Space space, std::size_t classes) {
  if (values.rank() != 2 || !is_float(values.dtype))
    fail(ErrorCode::bad_input, "{}: {}, wanted a float matrix of samples x {}", values.what,
         describe(values), name_of(space));
  if (space == Space::logits && values.shape[1] != classes)
    fail(ErrorCode::bad_input, "{}: {} columns, but there are {} classes", values.what,
         values.shape[1], classes);
  // Everything is looked at before anything is added.
  if (const auto floats = as_float_matrix(values))
    require_finite(*floats, values.what);
  else
    for_each_row_block(values, [](std::size_t, MatrixView<const double>) {});
}

}  // namespace

Means::Means(std::size_t classes, Space space, std::vector<std::string> class_names)
    : classes_(classes), space_(space), class_names_(std::move(class_names)) {
  if (classes == 0) fail(ErrorCode::usage, "classes: 0, wanted the number of classes");
  if (!class_names_.empty() && class_names_.size() != classes)
    fail(ErrorCode::usage, "class_names: {} names, wanted one for each of {} classes",
         class_names_.size(), classes);
}

Means::Means(StoredMeans stored)
    : classes_(stored.classes()),
      space_(stored.space),
      class_names_(stored.class_names),
      read_(std::move(stored)) {}

ClassMeans& Means::gathered(std::size_t dimensions) {
  if (read_) {
    gathered_ = restored(*read_, per_feature(*read_));
    read_.reset();
  }
  if (!gathered_) gathered_.emplace(classes_, dimensions, space_ == Space::features);
  return *gathered_;
}

void Means::update(const TensorView& values, const TensorView& labels) {
  const std::scoped_lock lock(mutex_);
  check_batch(values, space_, classes_);
  const std::vector<std::uint32_t> classes = to_labels(labels, classes_);
  if (classes.size() != values.shape[0])
    fail(ErrorCode::bad_input, "{}: {} labels for the {} samples of {}", labels.what,
         classes.size(), values.shape[0], values.what);
  const std::size_t before = read_       ? read_->means.shape[1]
                             : gathered_ ? gathered_->dimensions()
                                         : values.shape[1];
  if (values.shape[1] != before)
    fail(ErrorCode::bad_input, "{}: {} columns, the batches before had {}", values.what,
         values.shape[1], before);
  ClassMeans& means = gathered(values.shape[1]);
  if (const auto floats = as_float_matrix(values)) return means.add(*floats, classes);
  for_each_row_block(values, [&](std::size_t first, MatrixView<const double> block) {
    means.add(block, std::span(classes).subspan(first, block.rows()));
  });
}

void Means::merge(const Means& other) {
  if (this == &other) fail(ErrorCode::usage, "merge: the same object; nothing counts twice");
  const StoredMeans theirs = other.stored();
  const std::scoped_lock lock(mutex_);
  const std::size_t dimensions = theirs.means.shape[1];
  if (other.classes_ != classes_ || other.space_ != space_ ||
      (read_ && read_->means.shape[1] != dimensions) ||
      (gathered_ && gathered_->dimensions() != dimensions))
    fail(ErrorCode::usage, "merge: means of {} {} for {} classes do not go with these", dimensions,
         name_of(other.space_), other.classes_);
  if (other.class_names_ != class_names_)
    fail(ErrorCode::usage, "merge: the classes of the two have different names");
  if (!read_ && !gathered_) {
    gathered_ = restored(theirs, per_feature(theirs));
    return;
  }
  const StoredMeans ours = stored_now();
  const bool both = per_feature(ours) && per_feature(theirs);
  gathered_ = restored(ours, both);
  gathered_->merge(restored(theirs, both));
  read_.reset();
}

StoredMeans Means::stored_now() const {
  if (read_) return *read_;
  if (!gathered_) fail(ErrorCode::usage, "means: nothing was gathered yet; update() comes first");
  return store_means(space_, *gathered_, class_names_, "");
}

StoredMeans Means::stored() const {
  const std::scoped_lock lock(mutex_);
  return stored_now();
}

void Means::save(const std::filesystem::path& path, const std::string& head_sha256,
                 bool replace) const {
  prepare_output(path, replace);
  StoredMeans means = stored();
  if (!head_sha256.empty()) means.head_sha256 = head_sha256;
  AtomicFile out(path, replace);
  write_means(out, means);
  out.commit();
}

}  // namespace oubli::python
