#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/file.h"
#include "oubli/base/scratch_file.h"

namespace oubli {

// What a file says about one of its tensors, before its elements are read.
struct TensorInfo {
  std::string name;
  std::optional<DType> dtype;  // none: a type we copy but do not compute with
  std::string dtype_name;      // as the file spells it
  std::vector<std::size_t> shape;
};

// The one of that name; nullptr if there is none.
[[nodiscard]] const TensorInfo* find_tensor(std::span<const TensorInfo> tensors,
                                            std::string_view name);
// Error{bad_input} with the nearest names if there is none. `path` is for messages.
[[nodiscard]] const TensorInfo& tensor_at(std::span<const TensorInfo> tensors,
                                          std::string_view name, const std::string& path);

// A tensor and whatever keeps its bytes alive: a mapped file (no copy), or a buffer where the file
// holds it compressed or in Fortran order, or a temporary file for what is compressed and large.
// May be moved; the view stays valid.
struct LoadedTensor {
  TensorView view;
  std::shared_ptr<const MappedFile> file;  // that it was read from
  std::vector<std::byte> storage;
  std::shared_ptr<const ScratchFile> scratch;

  // What was read of it so far no longer counts as memory in use, unless it is in a buffer.
  void release() const;

  LoadedTensor() = default;
  LoadedTensor(LoadedTensor&&) noexcept = default;
  LoadedTensor& operator=(LoadedTensor&&) noexcept = default;
};

// One change of a file's tensors: `tensor` takes the place of the one called `name`, or is appended
// if there is none; without `tensor` the one called `name` is left out.
struct TensorEdit {
  std::string name;
  std::optional<TensorView> tensor;
};

// A file of named arrays: .npy (one array, named ""), .npz, .safetensors. Opening it checks every
// length, offset and shape in it against the file; Error{bad_input} says what is wrong.
class ArrayFile {
 public:
  // By content, not by name.
  [[nodiscard]] static std::unique_ptr<ArrayFile> open(const std::filesystem::path& path);
  virtual ~ArrayFile() = default;
  ArrayFile(const ArrayFile&) = delete;
  ArrayFile& operator=(const ArrayFile&) = delete;

  // ".npy", ".npz" or ".safetensors".
  [[nodiscard]] virtual std::string_view format() const = 0;
  // In the file's order.
  [[nodiscard]] virtual std::span<const TensorInfo> tensors() const = 0;
  [[nodiscard]] virtual LoadedTensor read(std::string_view name) const = 0;
  // The same file with `edits`: every other tensor, their order and the metadata are kept byte for
  // byte. The caller commits `out`.
  virtual void rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const = 0;

  // What the file says in words, beside the names of tensors: metadata, arrays of text.
  struct Words {
    std::string where;
    std::string text;
  };
  [[nodiscard]] virtual std::vector<Words> words() const { return {}; }

  [[nodiscard]] const MappedFile& file() const { return *file_; }
  [[nodiscard]] const TensorInfo* find(std::string_view name) const {
    return find_tensor(tensors(), name);
  }
  // "head.npz:W"
  [[nodiscard]] std::string what(std::string_view name) const;
  // As find(), but Error{bad_input} with the nearest names if there is none.
  [[nodiscard]] const TensorInfo& at(std::string_view name) const {
    return tensor_at(tensors(), name, file_->path().string());
  }

 protected:
  explicit ArrayFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  [[nodiscard]] const std::shared_ptr<const MappedFile>& shared_file() const { return file_; }

 private:
  std::shared_ptr<const MappedFile> file_;
};

// The array that "FILE.npy", "FILE.npz" (if it holds one array only) or "FILE.npz:NAME" names;
// .safetensors likewise.
[[nodiscard]] LoadedTensor load_array(const std::string& where);

}  // namespace oubli
