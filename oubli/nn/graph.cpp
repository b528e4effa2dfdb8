#include "oubli/nn/graph.h"

#include <string>

#include "oubli/base/error.h"

namespace oubli::nn {
namespace {

// Larger networks than any machine holds are refused before their sizes can overflow.
constexpr std::size_t kMostUnits = std::size_t{1} << 24;

class Compiler {
 public:
  explicit Compiler(const NetworkSpec& spec) : spec_(spec) {}

  Graph run() {
    require(spec_.channels > 0 && spec_.height > 0 && spec_.width > 0 &&
                spec_.channels < kMostUnits && spec_.height < 65536 && spec_.width < 65536,
            "input", "sizes must be positive");
    require(spec_.classes > 0 && spec_.classes < kMostUnits, "classes", "at least 1");
    graph_.values.push_back({spec_.channels, spec_.height, spec_.width, false});
    const std::size_t value = sequence(spec_.layers, 0, "layers");
    graph_.features = value;
    add_dense(dense(spec_.classes), value, "head");
    return std::move(graph_);
  }

 private:
  static void require(bool condition, const std::string& where, const char* what) {
    if (!condition) fail(ErrorCode::usage, "network: {}: {}", where, what);
  }

  std::size_t sequence(const std::vector<LayerSpec>& layers, std::size_t value,
                       const std::string& path) {
    bool may_fuse = false;  // the last op was of this sequence: its output has no other reader
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const LayerSpec& layer = layers[i];
      const std::string where = path + "." + std::to_string(i);
      if (layer.kind == LayerKind::relu && may_fuse && fusable(graph_.ops.back())) {
        graph_.ops.back().relu = true;
        continue;
      }
      value = add_layer(layer, value, where);
      may_fuse = true;
    }
    return value;
  }

  static bool fusable(const Op& op) {
    return !op.relu && (op.kind == OpKind::conv || op.kind == OpKind::dense ||
                        op.kind == OpKind::batch_norm || op.kind == OpKind::add);
  }

  std::size_t add_layer(const LayerSpec& layer, std::size_t value, const std::string& where) {
    const Shape in = graph_.values[value];
    Op op;
    op.input = value;
    switch (layer.kind) {
      case LayerKind::dense:
        require(layer.units > 0 && layer.units < kMostUnits, where, "dense needs units");
        return add_dense(layer, value, where);
      case LayerKind::conv:
        require(layer.units > 0 && layer.units < kMostUnits, where, "conv needs units (filters)");
        op.kind = OpKind::conv;
        op.weight = parameter(where + ".weight", Parameter::Role::weight,
                              {layer.units, in.channels, layer.kernel, layer.kernel});
        if (layer.bias) op.bias = parameter(where + ".bias", Parameter::Role::bias, {layer.units});
        return windowed(op, layer, in, layer.units, where);
      case LayerKind::max_pool:
        op.kind = OpKind::max_pool;
        require(layer.padding == Padding::valid, where, "max_pool has no padding");
        return windowed(op, layer, in, in.channels, where);
      case LayerKind::global_max_pool:
      case LayerKind::global_average_pool:
        op.kind = layer.kind == LayerKind::global_max_pool ? OpKind::global_max_pool
                                                           : OpKind::global_average_pool;
        require(!in.flat, where, "pooling needs an image, a dense layer came before");
        return emit(op, {in.channels, 1, 1, false});
      case LayerKind::batch_norm:
        op.kind = OpKind::batch_norm;
        op.weight = parameter(where + ".scale", Parameter::Role::scale, {in.channels});
        op.bias = parameter(where + ".shift", Parameter::Role::shift, {in.channels});
        op.mean = parameter(where + ".mean", Parameter::Role::running_mean, {in.channels});
        op.variance =
            parameter(where + ".variance", Parameter::Role::running_variance, {in.channels});
        return emit(op, in);
      case LayerKind::relu:
        op.kind = OpKind::relu;
        return emit(op, in);
      case LayerKind::sigmoid:
        op.kind = OpKind::sigmoid;
        return emit(op, in);
      case LayerKind::residual: {
        require(!layer.branch.empty(), where, "residual needs a branch");
        op.kind = OpKind::add;
        op.input = sequence(layer.branch, value, where + ".branch");
        op.other = sequence(layer.shortcut, value, where + ".shortcut");
        const Shape a = graph_.values[op.input];
        const Shape b = graph_.values[op.other];
        if (a.channels != b.channels || a.height != b.height || a.width != b.width ||
            a.flat != b.flat)
          fail(ErrorCode::usage,
               "network: {}: the branch gives {} x {} x {}, the shortcut {} x {} x {}", where,
               a.channels, a.height, a.width, b.channels, b.height, b.width);
        return emit(op, a);
      }
    }
    fail(ErrorCode::bug, "network: {}: unknown layer kind", where);
  }

  std::size_t add_dense(const LayerSpec& layer, std::size_t value, const std::string& where) {
    Op op;
    op.kind = OpKind::dense;
    op.input = value;
    op.weight = parameter(where + ".weight", Parameter::Role::weight,
                          {layer.units, graph_.values[value].size()});
    if (layer.bias) op.bias = parameter(where + ".bias", Parameter::Role::bias, {layer.units});
    return emit(op, {layer.units, 1, 1, true});
  }

  std::size_t windowed(Op op, const LayerSpec& layer, Shape in, std::size_t channels,
                       const std::string& where) {
    require(layer.kernel > 0 && layer.stride > 0 && layer.kernel < 4096 && layer.stride < 4096,
            where, "kernel and stride must be positive");
    op.kernel = layer.kernel;
    op.stride = layer.stride;
    require(!in.flat, where, "a window needs an image, a dense layer came before");
    Shape out{channels, 0, 0, false};
    const auto axis = [&](std::size_t size, std::size_t& result, std::size_t& before,
                          std::size_t& after) {
      if (layer.padding == Padding::same) {
        result = (size + layer.stride - 1) / layer.stride;
        const std::size_t covered = (result - 1) * layer.stride + layer.kernel;
        const std::size_t padding = covered > size ? covered - size : 0;
        before = padding / 2;
        after = padding - before;
      } else {
        require(size >= layer.kernel, where, "the window is larger than the image");
        result = (size - layer.kernel) / layer.stride + 1;
      }
    };
    axis(in.height, out.height, op.pad_top, op.pad_bottom);
    axis(in.width, out.width, op.pad_left, op.pad_right);
    return emit(op, out);
  }

  std::size_t parameter(std::string name, Parameter::Role role, std::vector<std::size_t> shape) {
    graph_.parameters.push_back({std::move(name), role, std::move(shape), {}});
    return graph_.parameters.size() - 1;
  }

  std::size_t emit(Op op, Shape shape) {
    op.output = graph_.values.size();
    graph_.values.push_back(shape);
    graph_.ops.push_back(op);
    return op.output;
  }

  const NetworkSpec& spec_;
  Graph graph_;
};

}  // namespace

Graph compile(const NetworkSpec& spec) {
  Graph graph = Compiler(spec).run();
  // In the backward pass ops run in reverse: the first to reach a value sets its gradient, later
  // ones add to it.
  std::vector<std::size_t> readers(graph.values.size(), 0);
  for (std::size_t i = graph.ops.size(); i-- > 0;) {
    Op& op = graph.ops[i];
    op.accumulate = readers[op.input]++ > 0;
    if (op.other != kNone) op.accumulate_other = readers[op.other]++ > 0;
  }
  // A pooled maximum is positive exactly where the maximum's own place is: the mask of a relu
  // before the pooling is cheaper applied to the pooled gradient.
  for (std::size_t i = 1; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    Op& before = graph.ops[i - 1];
    if (op.kind == OpKind::max_pool && before.output == op.input && before.relu &&
        readers[op.input] == 1 && op.kernel == op.stride)
      op.mask_input = before.relu_masked = true;
  }
  return graph;
}

}  // namespace oubli::nn
