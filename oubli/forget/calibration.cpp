#include "oubli/forget/calibration.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "oubli/array/array_file.h"
#include "oubli/array/row_blocks.h"
#include "oubli/base/digest.h"
#include "oubli/base/names.h"
#include "oubli/base/random.h"

namespace oubli {
namespace {

// The file of "FILE.npz:NAME".
FileDigest file_of_array(std::string role, const LoadedTensor& tensor) {
  return file_named(std::move(role), tensor.file->path());
}

}  // namespace

FileDigest file_named(std::string role, const std::filesystem::path& path) {
  return {std::move(role), path.filename().string(), "", std::filesystem::file_size(path), path};
}

FileDigest digest_of(std::string role, const std::filesystem::path& path) {
  FileDigest file = file_named(std::move(role), path);
  file.sha256 = sha256_file(path);
  return file;
}

void read_digests(std::span<FileDigest> files) {
  for (FileDigest& file : files)
    if (file.sha256.empty() && !file.path.empty()) file.sha256 = sha256_file(file.path);
}

CalibrationData load_calibration(Space space, const std::string& values, const std::string& labels,
                                 std::size_t classes, std::optional<std::size_t> features) {
  struct Owner {
    LoadedTensor values;
    LoadedTensor labels;
  };
  const auto owner = std::make_shared<Owner>();
  owner->values = load_array(values);
  owner->labels = load_array(labels);
  CalibrationData data;
  data.space = space;
  data.values = owner->values.view;
  const std::string kind = space == Space::logits ? "logits" : "features";
  const std::optional<std::size_t> width = space == Space::logits ? classes : features;
  if (data.values.rank() != 2 || !is_float(data.values.dtype))
    fail(ErrorCode::bad_input, "{}: {}, wanted a float matrix of samples x {}", data.values.what,
         describe(data.values), kind);
  if (width && data.values.shape[1] != *width)
    fail(ErrorCode::bad_input, "{}: {} columns, but the model has {} {}", data.values.what,
         data.values.shape[1], *width, space == Space::logits ? "classes" : "features");
  data.labels = to_labels(owner->labels.view, classes);
  if (data.labels.size() != data.values.shape[0])
    fail(ErrorCode::bad_input, "{}: {} labels for the {} samples of {}", owner->labels.view.what,
         data.labels.size(), data.values.shape[0], data.values.what);
  data.files.push_back(file_of_array(kind, owner->values));
  if (owner->labels.file->path() != owner->values.file->path())
    data.files.push_back(file_of_array("labels", owner->labels));
  data.mapped = {owner->values.file, owner->labels.file};
  data.check_unchanged();
  data.owner = owner;
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

ClassMeans gather_means(const CalibrationData& data, std::size_t classes,
                        std::span<const std::size_t> chosen, bool every_class,
                        std::span<const std::string> class_names) {
  ClassMeans means(classes, data.values.shape[1]);
  std::size_t next = 0;
  for_each_row_block(data.values, [&](std::size_t first, MatrixView<const double> block) {
    // Runs of neighbouring samples are added at once.
    while (next < chosen.size() && chosen[next] < first + block.rows()) {
      std::size_t end = next + 1;
      while (end < chosen.size() && chosen[end] == chosen[end - 1] + 1 &&
             chosen[end] < first + block.rows())
        ++end;
      means.add(block.middle_rows(chosen[next] - first, end - next),
                std::span(data.labels).subspan(chosen[next], end - next));
      next = end;
    }
  });
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
  Matrix<float> picked(chosen.size(), values.shape[1]);
  const std::size_t row_bytes = values.shape[1] * size_of(values.dtype);
  for (std::size_t n = 0; n < chosen.size(); ++n)
    decode(values.dtype, values.bytes.subspan(chosen[n] * row_bytes, row_bytes), picked.row(n));
  return picked;
}

}  // namespace oubli
