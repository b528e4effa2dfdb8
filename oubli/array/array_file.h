#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/file.h"

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
  [[nodiscard]] virtual SharedTensor read(std::string_view name) const = 0;
  // The same file with `edits`: every other tensor, their order and the metadata are kept byte for
  // byte. The caller commits `out`.
  virtual void rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const = 0;

  // What the file says in words, beside the names of tensors: metadata, arrays of text.
  struct Words {
    std::string where;
    std::string text;
  };
  [[nodiscard]] virtual std::vector<Words> words() const { return {}; }
  // What is compressed in the file, unpacked, one piece after another, until `visit` says false.
  virtual void for_each_packed(
      const std::function<bool(const std::string& where, std::span<const std::byte>)>&) const {}

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
  // A part of the file as it stands, as a vector of bytes.
  [[nodiscard]] SharedTensor shared_bytes(std::span<const std::byte> part, std::string name) const {
    return {{DType::u8, {part.size()}, part, std::move(name)}, file_, file_, true};
  }

 private:
  std::shared_ptr<const MappedFile> file_;
};

// The array that "FILE.npy", "FILE.npz" (if it holds one array only) or "FILE.npz:NAME" names;
// .safetensors likewise.
[[nodiscard]] SharedTensor load_array(const std::string& where);
// What its file says about it; no elements are read.
[[nodiscard]] TensorInfo array_info(const std::string& where);

}  // namespace oubli
