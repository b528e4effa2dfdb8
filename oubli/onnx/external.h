#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "oubli/onnx/wire.h"

// External data: tensors whose elements stand in other files. They may be anywhere in a model:
// initializers, attributes of nodes, and both again in subgraphs, functions and training graphs.
// ONNX Runtime reads them wherever they are.
namespace oubli::onnx {

// Every location that the model names, each once, in the order of the file. Error{bad_input} if
// graphs are nested too deep.
[[nodiscard]] std::vector<std::string> external_locations(std::span<const std::byte> model,
                                                          const std::string& what);

// Names the file `to` wherever the model names `from`.
void rename_location(Message& model, const std::string& from, const std::string& to,
                     const std::string& what);

}  // namespace oubli::onnx
