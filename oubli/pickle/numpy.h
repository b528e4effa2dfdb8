#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oubli/pickle/edits.h"
#include "oubli/pickle/pickle.h"

namespace oubli::pickle {

// An array of NumPy in a pickle, in any of its spellings: _reconstruct and a state, _frombuffer
// (protocol 5), or joblib's wrapper with the elements behind it in the stream.
struct NumpyArray {
  char kind = 0;              // of the elements: f, i, u, b, U (text), S, O (objects)
  std::size_t item_size = 0;  // bytes; 8 for objects
  bool little = true;
  std::vector<std::size_t> shape;
  bool fortran = false;  // elements are in the order of columns

  std::span<const std::byte> bytes;  // of the elements, if they are no objects
  Ref objects = kNothing;            // else: the list of them

  Ref object = kNothing;
  std::vector<Ref> shapes;  // the integers of the shape
  Ref shape_tuple = kNothing;
  Ref content = kNothing;  // the value that holds the bytes; nothing: they are in the stream
  // Of an array of objects in the stream: the array inside.
  std::vector<Ref> inner_shapes;
};

// Nothing for what is no array, or one in a spelling that is not known.
[[nodiscard]] std::optional<NumpyArray> read_array(const Pickle& pickle, Ref ref);

// joblib's arrays in the stream, for Pickle's constructor.
[[nodiscard]] std::optional<Follows> joblib_stream(const Pickle& pickle, Ref object);

// Other elements, and another length of the first side (the last in `bytes`' order if fortran).
// Error{unfilterable} if the array's values have other owners.
void set_array(const Pickle& pickle, const NumpyArray& array, std::size_t rows,
               std::span<const std::byte> bytes, Edits& edits);
// The same for rows of a vector of objects: false if others need what would go.
[[nodiscard]] bool keep_objects(const Pickle& pickle, const NumpyArray& array,
                                std::span<const std::size_t> retained, Edits& edits);

// The elements of the rows `retained`, in the array's own order.
[[nodiscard]] std::vector<std::byte> rows_of(const NumpyArray& array,
                                             std::span<const std::size_t> retained);
// The elements of a vector as text: numbers, or text itself. Nothing for other types.
[[nodiscard]] std::optional<std::vector<std::string>> texts_of(const Pickle& pickle,
                                                               const NumpyArray& array);

}  // namespace oubli::pickle
