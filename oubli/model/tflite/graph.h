#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "oubli/model/tflite/flatbuffer.h"

namespace oubli {

// Types of elements that a head may have, as the file numbers them; it may hold any other number.
namespace tflite_type {
inline constexpr unsigned kFloat32 = 0, kFloat16 = 1, kInt32 = 2, kUint8 = 3, kInt8 = 9;
}

// What a TensorFlow Lite file says about one of its tensors, and where.
struct TfliteTensor {
  std::string_view name;
  std::vector<std::int32_t> shape;
  unsigned type = 0;  // tflite_type
  std::size_t buffer = 0;
  std::optional<FlatVector> shape_at, signature_at;
  // Of quantisation: value = scale (q - zero).
  std::vector<float> scales;
  std::vector<std::int64_t> zeros;
  std::optional<FlatVector> min_at, max_at, scales_at, zeros_at;
};

struct TfliteOperator {
  unsigned code = 0;
  std::uint64_t at = 0;  // its table
  std::vector<std::int32_t> inputs, outputs;
};

// The only graph of a file: tensors, operators in order of execution, buffers.
struct TfliteGraph {
  TfliteGraph(const FlatBuffer& file, const std::string& what);

  std::vector<TfliteTensor> tensors;
  std::vector<TfliteOperator> operators;
  std::vector<std::int32_t> outputs;
  std::vector<std::optional<FlatVector>> buffers;
  // How many things refer to the vector at an offset, and to a buffer.
  std::map<std::uint64_t, int> references;
  std::vector<int> buffer_readers;
  // Everything known to lie in the file: vectors with their bytes.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;
  // Text in the file that is no tensor's name: description, metadata.
  std::vector<std::pair<std::string, std::string_view>> words;

 private:
  class Reader;
};

// The last layer: a FULLY_CONNECTED whose result reaches the output through softmax and the like.
struct TfliteHead {
  std::size_t weights = 0;
  std::optional<std::size_t> bias;
  // What the layer reads where weights and bias are kept in 16 bits: their float32 of the same
  // shapes, made anew at each run.
  std::vector<std::size_t> widened;
  // Tensors with one entry per class along their last axis, from the layer's result to the output.
  std::vector<std::size_t> results;
  bool shift_shows = false;
  bool rounds_logits = false;  // they are stored in 8 bits
};

// Error{unfilterable} if there is something else behind it, or something else reads what it makes.
[[nodiscard]] TfliteHead find_tflite_head(const FlatBuffer& file, const TfliteGraph& graph,
                                          const std::string& what);

}  // namespace oubli
