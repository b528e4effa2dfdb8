#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "oubli/nn/network.h"
#include "oubli/onnx/model.h"

namespace oubli::nn {

// Networks as ONNX files (opset 17, IR 8): input "image" (batch x channels x height x width, in
// [0, 1]), output "logits". Metadata "class_names" is a JSON list; "oubli.network" holds the
// layers, so that the file can be read back as a Network, also after its head was filtered.

struct NamedNetwork {
  Network network;
  std::vector<std::string> class_names;
};

void save_network(const Network& network, const std::vector<std::string>& class_names,
                  const std::filesystem::path& path, bool replace = true);

// Nothing if the file was not written by save_network. Error{bad_input} if it was, but its graph is
// no longer the one that its layers give.
[[nodiscard]] std::optional<NamedNetwork> network_in(const onnx::Model& model);

// Error{bad_input} too if the file is an ONNX model of other origin.
[[nodiscard]] NamedNetwork load_network(const std::filesystem::path& path);

}  // namespace oubli::nn
