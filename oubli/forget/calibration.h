#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/file.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/solver_choice.h"

namespace oubli {

// A file that took part, for receipts: its name without folders, and what it held.
struct FileDigest {
  std::string role;  // "features", "labels", "means", ...
  std::string name;
  std::string sha256;  // empty: not read yet
  std::uint64_t bytes = 0;
  std::filesystem::path path = {};  // where to read it
  // What it holds, if it is mapped and will be read in any case.
  std::span<const std::byte> content = {};
  std::size_t files = 1;  // that the digest is of, each with its name and length
};
// The file's name and size; it is read later.
[[nodiscard]] FileDigest file_named(std::string role, const std::filesystem::path& path);
[[nodiscard]] FileDigest digest_of(std::string role, const std::filesystem::path& path);

// Logits or features of samples with known labels; of a model that answers once per position, a
// sample is a position here. The class means are estimated from it and the leak check is made on
// it.
struct CalibrationData {
  Space space = Space::features;
  SharedTensor values;                // samples x (classes or features)
  std::vector<std::uint32_t> labels;  // in the model's own numbering
  std::size_t left_out = 0;           // rows that came without a label: they are not among these
  std::vector<FileDigest> files;
  std::vector<std::shared_ptr<const MappedFile>> mapped;  // where they come from

  [[nodiscard]] std::size_t samples() const { return labels.size(); }
  // Error{bad_input} if a file changed since it was opened.
  void check_unchanged() const {
    for (const auto& file : mapped) file->check_unchanged();
  }
};

// `values` may have several axes before the last, which `labels` then have, too. Rows with a label
// of -1 or -100 are left out. Error{bad_input} if the shapes do not fit each other or the `classes`
// (and, for features, `features`) of the model.
[[nodiscard]] CalibrationData calibration_of(Space space, SharedTensor values,
                                             const TensorView& labels, std::size_t classes,
                                             std::optional<std::size_t> features);
// The same for files: `values` and `labels` name arrays as load_array() takes them.
[[nodiscard]] CalibrationData load_calibration(Space space, const std::string& values,
                                               const std::string& labels, std::size_t classes,
                                               std::optional<std::size_t> features);

// Which samples the class means are estimated from.
struct SampleChoice {
  std::optional<std::size_t> per_class;  // none: all of them
  bool random = false;                   // drawn from `seed`; else the first ones
  std::uint64_t seed = 0;
};
// Positions in ascending order.
[[nodiscard]] std::vector<std::size_t> choose_samples(std::span<const std::uint32_t> labels,
                                                      std::size_t classes,
                                                      const SampleChoice& choice);

// What to say if a class has fewer samples than that; `label` names a class to people.
[[nodiscard]] std::optional<std::string> warning_of_few_samples(
    std::span<const std::uint64_t> counts, const SampleChoice& choice,
    const std::function<std::string(std::size_t)>& label);

// Means of the chosen samples, in one pass. Error{bad_input} if a value is not finite, or a class
// has no sample at all and `every_class` is asked for.
[[nodiscard]] ClassMeans gather_means(const CalibrationData& data, std::size_t classes,
                                      std::span<const std::size_t> chosen, bool every_class,
                                      std::span<const std::string> class_names);

// The rows `chosen` (ascending), in float.
[[nodiscard]] Matrix<float> pick_samples(const TensorView& values,
                                         std::span<const std::size_t> chosen);

}  // namespace oubli
