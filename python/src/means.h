#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "oubli/filtration/class_means.h"
#include "oubli/forget/stored_means.h"

namespace oubli::python {

// Class means on their way: gathered batch by batch, or read from a file and added to. Several
// threads may use one object. Nothing here knows Python.
class Means {
 public:
  Means(std::size_t classes, Space space, std::vector<std::string> class_names);
  explicit Means(StoredMeans stored);

  // All of the batch, or nothing of it if a label or a number is none.
  void update(const TensorView& values, const TensorView& labels);
  void merge(const Means& other);
  // As `oubli means` writes it; `head_sha256` may be empty.
  void save(const std::filesystem::path& path, const std::string& head_sha256, bool replace) const;
  // Error{usage} before the first batch.
  [[nodiscard]] StoredMeans stored() const;

  [[nodiscard]] std::size_t classes() const { return classes_; }
  [[nodiscard]] Space space() const { return space_; }
  [[nodiscard]] const std::vector<std::string>& class_names() const { return class_names_; }

 private:
  [[nodiscard]] StoredMeans stored_now() const;  // with the lock
  [[nodiscard]] ClassMeans& gathered(std::size_t dimensions);

  mutable std::mutex mutex_;
  std::size_t classes_;
  Space space_;
  std::vector<std::string> class_names_;
  std::optional<StoredMeans> read_;     // from a file, and not added to
  std::optional<ClassMeans> gathered_;  // else, from the first batch on
};

}  // namespace oubli::python
