#include "oubli/model/onnx/stale.h"

#include "oubli/onnx/constants.h"

namespace oubli {

bool OnnxStaleCopies::holds_forgotten_row(const onnx::Constant& source) {
  const void* const id = source.initializer != nullptr
                             ? static_cast<const void*>(source.initializer)
                             : source.constant_node;
  const auto [known, is_new] = known_.emplace(id, false);
  if (!is_new) return known->second;
  const std::optional<SharedTensor> stored = onnx::load_source(editor_.model(), source);
  if (!stored || (!is_float(stored->dtype) && size_of(stored->dtype) != 1)) return false;
  if (!scan_) scan_.emplace(head_, forget_);
  return known->second = !scan_->scan(stored->bytes, 1).empty();
}

void OnnxStaleCopies::remove_nodes() {
  const onnx::Model& model = editor_.model();
  const std::vector<onnx::Node>& nodes = model.graph().nodes;
  // From the last to the first, since one may be read by the next.
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (editor_.is_removed(node->field) || node->outputs.size() != 1 ||
        editor_.is_read(node->outputs[0]))
      continue;
    const std::optional<onnx::Constant> source = onnx::constant_source(model, node->outputs[0]);
    if (!source || !holds_forgotten_row(*source)) continue;
    editor_.drop_dead_node(*node);
    editor_.note(fmt::format("the {}, which nothing read, held the forgotten row and was removed",
                             node->describe()));
  }
}

void OnnxStaleCopies::remove_tensors() {
  for (const onnx::TensorInfo& info : editor_.model().graph().initializers) {
    if (editor_.is_removed(info.field) || editor_.is_read(info.name)) continue;
    onnx::Constant source;
    source.initializer = &info;
    if (!holds_forgotten_row(source)) continue;
    editor_.drop_initializer(info.name);
    editor_.note(
        fmt::format("the unused tensor '{}' held the forgotten row and was removed", info.name));
  }
}

}  // namespace oubli
