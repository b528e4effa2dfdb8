#pragma once

#include <filesystem>
#include <string>

#include "oubli/array/array_file.h"

namespace oubli {

// NumPy's .npy: "\x93NUMPY", version (1.0, 2.0 or 3.0), header length, a Python dict literal with
// descr, fortran_order and shape, then the elements.
//
// Refused, with what to do: big-endian and structured types, elements missing or left over,
// shapes whose product overflows. bfloat16 has no .npy type of its own: use .safetensors.
struct NpyLayout {
  TensorInfo info;
  bool fortran_order = false;
  std::size_t data_offset = 0;  // of the first element
};

// The header of the .npy image that begins with `bytes`; `total` is the image's whole length, all
// of which must be accounted for.
[[nodiscard]] NpyLayout parse_npy_header(std::span<const std::byte> bytes, std::uint64_t total,
                                         const std::string& what);
// The tensor of a whole .npy image: a view that shares its bytes, or a reordered copy if in Fortran
// order.
[[nodiscard]] SharedTensor parse_npy(const SharedTensor& image);
[[nodiscard]] SharedTensor parse_npy(std::span<const std::byte> image, const std::string& what);

// Everything before the elements, padded so that they begin at a multiple of 64 bytes.
[[nodiscard]] std::string npy_header(DType dtype, std::span<const std::size_t> shape);

void write_npy(const std::filesystem::path& path, const TensorView& tensor, bool replace = true);

// An .npy file written piece by piece, e.g. models x samples x classes as models finish. commit()
// wants exactly as many elements as `shape` promises.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& path, DType dtype, std::vector<std::size_t> shape,
            bool replace = true);
  void append(std::span<const std::byte> elements);
  template <typename T>
  void append(MatrixView<T> rows) {
    append(std::as_bytes(rows.flat()));
  }
  void commit();

 private:
  AtomicFile file_;
  std::uint64_t wanted_bytes_;
};

// A mapped .npy file. Large ones cost no memory until touched; slice() in tensor.h takes one model
// out of models x samples x classes.
class NpyFile final : public ArrayFile {
 public:
  explicit NpyFile(std::shared_ptr<const MappedFile> file);
  [[nodiscard]] std::string_view format() const override { return ".npy"; }
  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return {&layout_.info, 1}; }
  [[nodiscard]] SharedTensor read(std::string_view name = "") const override;
  void rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const override;

 private:
  NpyLayout layout_;
};

}  // namespace oubli
