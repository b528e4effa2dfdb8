#include "oubli/forget/calibration.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "oubli/array/array_file.h"
#include "oubli/array/labels.h"
#include "oubli/array/row_blocks.h"
#include "oubli/base/digest.h"
#include "oubli/base/names.h"
#include "oubli/base/random.h"
#include "oubli/base/scratch_file.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

// The file of "FILE.npz:NAME".
FileDigest file_of_array(std::string role, const SharedTensor& tensor) {
  FileDigest file = file_named(std::move(role), tensor.file->path());
  file.content = tensor.file->bytes();
  return file;
}

}  // namespace

FileDigest file_named(std::string role, const std::filesystem::path& path) {
  return {
      std::move(role), path.filename().string(), "", std::filesystem::file_size(path), path, {}};
}

FileDigest digest_of(std::string role, const std::filesystem::path& path) {
  FileDigest file = file_named(std::move(role), path);
  file.sha256 = sha256_file(path);
  return file;
}

namespace {

// Rows without a label go, in a copy of the others.
void leave_out_unlabelled(CalibrationData& data) {
  data.left_out = count_unlabelled(data.labels);
  if (data.left_out == 0) return;
  if (data.left_out == data.labels.size())
    fail(ErrorCode::bad_input, "{}: no row has a label: all of {} are -1 or -100", data.values.what,
         data.left_out);
  const std::size_t row_bytes = data.values.shape[1] * size_of(data.values.dtype);
  const auto kept = std::make_shared<ScratchFile>("rows of " + data.values.what);
  for (std::size_t i = 0; i < data.labels.size(); ++i)
    if (data.labels[i] != kNoLabel)
      kept->write(data.values.bytes.subspan(i * row_bytes, row_bytes));
  data.values.bytes = kept->map();
  data.values.shape[0] = data.labels.size() - data.left_out;
  data.values.owner = kept;
  data.values.mapped = true;
  std::erase(data.labels, kNoLabel);
}

}  // namespace

CalibrationData calibration_of(Space space, SharedTensor values, const TensorView& labels,
                               std::size_t classes, std::optional<std::size_t> features) {
  CalibrationData data;
  data.space = space;
  data.values = std::move(values);
  std::vector<std::size_t>& shape = data.values.shape;
  const bool several = shape.size() > 2 &&
                       std::ranges::equal(labels.shape, std::span(shape).first(shape.size() - 1));
  if (several) shape = {labels.count(), shape.back()};
  const std::optional<std::size_t> width = space == Space::logits ? classes : features;
  if (data.values.rank() != 2 || !is_float(data.values.dtype))
    fail(ErrorCode::bad_input,
         "{}: {}, wanted a float matrix of samples x {}, or more axes before the last that the "
         "labels have, too",
         data.values.what, describe(data.values), name_of(space));
  if (width && data.values.shape[1] != *width)
    fail(ErrorCode::bad_input, "{}: {} columns, but the model has {} {}", data.values.what,
         data.values.shape[1], *width, space == Space::logits ? "classes" : "features");
  if (labels.rank() > 1 && !several &&
      std::ranges::count_if(labels.shape, [](std::size_t extent) { return extent != 1; }) > 1)
    fail(ErrorCode::bad_input, "{}: {}, wanted a vector of labels for the rows of {}", labels.what,
         describe(labels), data.values.what);
  data.labels = to_row_labels(labels, classes);
  if (data.labels.size() != data.values.shape[0])
    fail(ErrorCode::bad_input, "{}: {} labels for the {} samples of {}", labels.what,
         data.labels.size(), data.values.shape[0], data.values.what);
  leave_out_unlabelled(data);
  return data;
}

CalibrationData load_calibration(Space space, const std::string& values, const std::string& labels,
                                 std::size_t classes, std::optional<std::size_t> features) {
  SharedTensor stored_values = load_array(values);
  const SharedTensor stored_labels = load_array(labels);
  CalibrationData data =
      calibration_of(space, std::move(stored_values), stored_labels, classes, features);
  data.files.push_back(file_of_array(std::string(name_of(space)), data.values));
  if (stored_labels.file->path() != data.values.file->path())
    data.files.push_back(file_of_array("labels", stored_labels));
  data.mapped = {data.values.file, stored_labels.file};
  data.check_unchanged();
  return data;
}

std::vector<std::size_t> choose_samples(std::span<const std::uint32_t> labels, std::size_t classes,
                                        const SampleChoice& choice) {
  std::vector<std::size_t> chosen;
  if (!choice.per_class) {
    for (std::size_t i = 0; i < labels.size(); ++i) chosen.push_back(i);
    return chosen;
  }
  std::vector<std::vector<std::size_t>> of_class(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) of_class[labels[i]].push_back(i);
  for (std::size_t j = 0; j < classes; ++j) {
    if (choice.random)
      RandomStream(choice.seed, task_id("calibration samples", {j}))
          .shuffle(std::span(of_class[j]));
    of_class[j].resize(std::min(of_class[j].size(), *choice.per_class));
    chosen.insert(chosen.end(), of_class[j].begin(), of_class[j].end());
  }
  std::ranges::sort(chosen);
  return chosen;
}

std::optional<std::string> warning_of_few_samples(
    std::span<const std::uint64_t> counts, const SampleChoice& choice,
    const std::function<std::string(std::size_t)>& label) {
  for (std::size_t j = 0; choice.per_class && j < counts.size(); ++j)
    if (counts[j] < *choice.per_class)
      return fmt::format("class {} has {} samples only, fewer than --samples {}", label(j),
                         counts[j], *choice.per_class);
  return std::nullopt;
}

ClassMeans gather_means(const CalibrationData& data, std::size_t classes,
                        std::span<const std::size_t> chosen, bool every_class,
                        std::span<const std::string> class_names) {
  const std::size_t width = data.values.shape[1], row_bytes = width * size_of(data.values.dtype);
  const auto floats = as_float_matrix(data.values);
  ClassMeans means(classes, width, data.space == Space::features);
  // A task has some of the classes, and adds their samples in the order in which they are stored:
  // the result is that of one thread.
  const std::size_t tasks = std::min<std::size_t>(classes, 64);
  const auto task_of = [&](std::size_t sample) { return data.labels[sample] * tasks / classes; };
  std::vector<std::vector<std::size_t>> samples_of(tasks);
  for (std::size_t i = 0; i < data.samples(); ++i) samples_of[task_of(i)].push_back(i);
  std::vector<bool> is_chosen(data.samples());
  for (const std::size_t sample : chosen) is_chosen[sample] = true;
  try {
    run_tasks(tasks, available_cores(), [&](std::size_t task, unsigned) {
      Matrix<double> decoded(1, floats ? 0 : width);
      const auto take = [&](std::size_t i, auto row) {
        if (is_chosen[i])
          means.add(row, std::span(data.labels).subspan(i, 1));
        else
          require_finite(row, data.values.what, i);
      };
      for (const std::size_t i : samples_of[task]) {
        if (floats) {
          take(i, floats->middle_rows(i, 1));
        } else {
          decode(data.values.dtype, data.values.bytes.subspan(i * row_bytes, row_bytes),
                 decoded.flat());
          take(i, MatrixView<const double>(decoded));
        }
      }
    });
  } catch (const Error&) {
    // In the words of a reader from top to bottom.
    for_each_row_block(data.values, [](std::size_t, MatrixView<const double>) {});
    throw;
  }
  if (every_class) {
    std::vector<std::string> missing;
    for (std::size_t j = 0; j < classes; ++j)
      if (means.counts()[j] == 0) missing.push_back(class_label(j, class_names));
    if (!missing.empty()) {
      const std::size_t count = missing.size();
      missing.resize(std::min<std::size_t>(count, 10));
      fail(ErrorCode::bad_input, "{}: no sample of {} of {} classes: {}{}; every class needs one",
           data.values.what, count, classes, fmt::join(missing, ", "), count > 10 ? ", ..." : "");
    }
  }
  return means;
}

Matrix<float> pick_samples(const TensorView& values, std::span<const std::size_t> chosen) {
  auto picked = Matrix<float>::for_overwrite(chosen.size(), values.shape[1]);
  const std::size_t row_bytes = values.shape[1] * size_of(values.dtype);
  for (std::size_t n = 0; n < chosen.size(); ++n)
    decode(values.dtype, values.bytes.subspan(chosen[n] * row_bytes, row_bytes), picked.row(n));
  return picked;
}

}  // namespace oubli
