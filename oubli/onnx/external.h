#pragma once

#include <map>
#include <string>
#include <vector>

#include "oubli/onnx/model.h"

// External data: tensors whose elements stand in other files. They may be anywhere in a model:
// initializers, attributes of nodes, and both again in subgraphs, functions and training graphs.
// ONNX Runtime reads them wherever they are.
namespace oubli::onnx {

// Every tensor that has its elements in another file, in the order of the model. Error{bad_input}
// if graphs are nested too deep.
[[nodiscard]] std::vector<TensorInfo> external_tensors(const Model& model);
// Every location that they name, each once, in the order of the model.
[[nodiscard]] std::vector<std::string> external_locations(const Model& model);

// Gives files their new names wherever the model's message names them; by old location.
void rename_locations(Message& model, const std::map<std::string, std::string, std::less<>>& names,
                      const std::string& what);

}  // namespace oubli::onnx
