#include "oubli/model/onnx/stale.h"

#include "oubli/onnx/constants.h"

namespace oubli {

bool OnnxStaleCopies::holds_forgotten_row(std::span<const std::byte> bytes) {
  if (!scan_) scan_.emplace(head_, forget_);
  return !scan_->scan(bytes, 1).empty();
}

void OnnxStaleCopies::remove_nodes() {
  const onnx::Model& model = editor_.model();
  const std::vector<onnx::Node>& nodes = model.graph().nodes;
  // From the last to the first, since one may be read by the next.
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (editor_.is_removed(node->field) || node->outputs.size() != 1 ||
        editor_.is_read(node->outputs[0]))
      continue;
    const std::optional<onnx::Constant> constant = onnx::constant_value(model, node->outputs[0]);
    if (!constant || !is_float(constant->tensor.dtype) ||
        !holds_forgotten_row(constant->tensor.bytes))
      continue;
    editor_.drop_dead_node(*node);
    editor_.note(fmt::format("the {}, which nothing read, held the forgotten row and was removed",
                             node->describe()));
  }
}

void OnnxStaleCopies::remove_tensors() {
  const onnx::Model& model = editor_.model();
  for (const onnx::TensorInfo& info : model.graph().initializers) {
    if (editor_.is_removed(info.field) || editor_.is_read(info.name)) continue;
    const auto dtype = onnx::dtype_of(info.data_type);
    if (!dtype || !is_float(*dtype) || !holds_forgotten_row(model.load(info).bytes)) continue;
    editor_.drop_initializer(info.name);
    editor_.note(
        fmt::format("the unused tensor '{}' held the forgotten row and was removed", info.name));
  }
}

}  // namespace oubli
