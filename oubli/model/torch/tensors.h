#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/array_file.h"
#include "oubli/model/torch/archive.h"
#include "oubli/pickle/pickle.h"

namespace oubli::torch {

// A tensor in a PyTorch file: a strided view of a storage.
struct Tensor {
  std::string name;                  // keys and attributes that lead to it, joined by dots
  std::vector<std::string> aliases;  // other ways to the same object
  std::string key;                   // of its storage
  std::optional<DType> dtype;        // none: a type that is only copied
  std::string dtype_name;            // "float32"
  std::size_t item_size = 0;
  std::size_t offset = 0;  // in elements, as all of these
  std::vector<std::size_t> shape, strides;
  std::size_t storage_count = 0;  // elements of the storage

  pickle::Ref object = pickle::kNothing;  // the call that makes it
  pickle::Ref size_tuple = pickle::kNothing;
  std::vector<pickle::Ref> sizes;  // the integers of the shape
  pickle::Ref storage_size = pickle::kNothing;
  pickle::Ref module = pickle::kNothing;  // the nn.Module that holds it, in whole modules

  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] bool contiguous() const;
  // Whether each element has a place of its own in the storage.
  [[nodiscard]] bool apart() const;
  // One past its last element in the storage; `offset` if it has none.
  [[nodiscard]] std::size_t end() const;
  [[nodiscard]] bool same_view(const Tensor& other) const {
    return key == other.key && offset == other.offset && shape == other.shape &&
           strides == other.strides;
  }
  [[nodiscard]] TensorInfo info() const { return {name, dtype, dtype_name, shape}; }
};

// All tensors that the pickle's object leads to, in its order; each once. Their lengths are checked
// against the storages: Error{bad_input} if one is too short, or of another size than is said.
[[nodiscard]] std::vector<Tensor> find_tensors(const Archive& archive);

// Bytes per element of every storage that the pickle names.
[[nodiscard]] std::map<std::string, std::size_t, std::less<>> storage_item_sizes(
    const pickle::Pickle& pickle);

// Row `row` (along the first side) of a tensor, its elements in row-major order.
void copy_row(const Tensor& tensor, std::span<const std::byte> storage, std::size_t row,
              std::span<std::byte> out);
// The inverse, into a part of the storage that begins at element `begin`. Without `row_bytes`:
// zeros.
void place_row(const Tensor& tensor, std::size_t row, std::span<const std::byte> row_bytes,
               std::size_t begin, std::span<std::byte> part);

}  // namespace oubli::torch
