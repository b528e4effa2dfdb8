#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/patches.h"

namespace oubli {

// The part of HDF5 that Keras and h5py write, read and patched where it stands: superblocks 0 to
// 3, object headers 1 and 2 (with their check sums), groups as symbol tables, link messages or
// dense ones (fractal heap), contiguous datasets, attributes.
//
// What is trusted: nothing. The whole tree is read when the file is opened; every structure is read
// once, must lie inside the file, and no two may overlap, so that what is changed in one place
// changes nothing else. Refused for what they can lead to: soft and external links, data in other
// files, virtual datasets, groups that contain each other. Chunked, filtered and compact datasets
// are listed but cannot be read. Non-goals: writing anything that changes a file's length.

// A vector of characters, or of other elements, as an attribute or dataset holds it.
struct Hdf5Type {
  enum class Class { number, fixed_text, variable_text, other };
  Class kind = Class::other;
  std::size_t size = 0;             // of an element
  std::optional<DType> dtype = {};  // of numbers that we compute with
  std::string name = {};            // "float32", "integer of 8 bytes", "text", ...
};

struct Hdf5Attribute {
  std::string_view name;
  Hdf5Type type;
  std::vector<std::size_t> shape;  // empty: a single value
  std::span<const std::byte> value;
};

struct Hdf5Dataset {
  Hdf5Type type;
  std::vector<std::size_t> shape;
  // Why its bytes cannot be had: chunks, filters, ...; empty if they can.
  std::string unreadable;
  std::span<const std::byte> bytes;
  // Offsets in the file of what says how large it is.
  std::uint64_t dims_at = 0;
  std::optional<std::uint64_t> max_dims_at = {};
  std::uint64_t size_at = 0;
  std::uint64_t bytes_at = 0;
};

struct Hdf5Object {
  std::string path;  // "/model_weights/dense/kernel:0"; that of the first link that leads to it
  std::size_t links = 0;
  bool group = false;
  std::vector<std::pair<std::string_view, std::size_t>> members = {};  // of a group: name, object
  std::vector<Hdf5Attribute> attributes = {};
  std::optional<Hdf5Dataset> dataset = {};
};

class Hdf5File {
 public:
  // `bytes` must outlive this object. Error{bad_input} naming `what`.
  Hdf5File(std::span<const std::byte> bytes, std::string what);

  // The root first.
  [[nodiscard]] const std::vector<Hdf5Object>& objects() const { return objects_; }
  // By absolute path, or relative to `group`; nullptr if there is none.
  [[nodiscard]] const Hdf5Object* find(std::string_view path) const;
  [[nodiscard]] const Hdf5Object* find(const Hdf5Object& group, std::string_view path) const;
  [[nodiscard]] const Hdf5Attribute* attribute(const Hdf5Object& object,
                                               std::string_view name) const;
  // The texts of an attribute, without what fills up fixed lengths. Error{bad_input} if it holds
  // something else.
  [[nodiscard]] std::vector<std::string_view> texts(const Hdf5Attribute& attribute) const;
  // A contiguous dataset of floats. Error{bad_input} if it cannot be read as such.
  [[nodiscard]] TensorView tensor(const Hdf5Object& dataset) const;

  // Where in the file a text of this file stands.
  [[nodiscard]] std::uint64_t offset_of(std::string_view text) const;
  // Gives the dataset other values of the same type and no more of them; its old extent is zeroed
  // behind them. The values must outlive `patches`.
  void shrink(Patches& patches, const Hdf5Object& dataset, const TensorView& values) const;
  // Computes the check sums of all headers that `patches` touch anew. Last of all changes.
  // Error{unfilterable} if they touch what cannot be changed.
  void finish(Patches& patches) const;

 private:
  friend class Hdf5Reader;

  std::span<const std::byte> bytes_;
  std::string what_;
  std::vector<Hdf5Object> objects_;
  struct Summed {
    std::uint64_t begin, end;  // the check sum follows
  };
  std::vector<Summed> summed_;
  std::vector<Summed> blocks_;  // of fractal heaps: with check sums that are not computed here
  // Text in global heaps, by the heap's address and the object's index there.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::span<const std::byte>> heap_objects_;
};

}  // namespace oubli
