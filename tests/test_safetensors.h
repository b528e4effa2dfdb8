#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/base/file.h"

namespace oubli::testing {

// Writes a .safetensors file of these tensors as PyTorch users have it: 8 bytes of length, a JSON
// header, the elements.
inline void write_safetensors(AtomicFile& out,
                              const std::vector<std::pair<std::string, TensorView>>& tensors) {
  const std::map<DType, std::string> codes{{DType::f16, "F16"}, {DType::bf16, "BF16"},
                                           {DType::f32, "F32"}, {DType::f64, "F64"},
                                           {DType::i64, "I64"}, {DType::i32, "I32"}};
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::size_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = std::exchange(end, end + tensor.bytes.size());
    header[name] = {
        {"dtype", codes.at(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  for (const auto& [name, tensor] : tensors) out.write(tensor.bytes);
}

}  // namespace oubli::testing
