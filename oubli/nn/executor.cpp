#include "oubli/nn/executor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "oubli/base/error.h"
#include "oubli/nn/inference.h"
#include "oubli/nn/kernels.h"

namespace oubli::nn {
namespace {

// A panel of a dense layer's weight gradient is handed on while it is in the second-level cache.
constexpr std::size_t kPanelElements = std::size_t{32} * 1024;

std::size_t panel_rows(std::size_t inputs, std::size_t units) {
  return std::clamp<std::size_t>(kPanelElements / inputs, 1, units);
}

// Dense weights take an image flattened channels first; the executor's images are channels last.
bool needs_permutation(const Graph& graph, const Op& op) {
  const Shape in = graph.values[op.input];
  return op.kind == OpKind::dense && in.channels > 1 && in.pixels() > 1;
}

void permute(const Shape& in, std::size_t units, const float* source, float* target,
             bool to_channels_last) {
  for (std::size_t u = 0; u < units; ++u)
    for (std::size_t c = 0; c < in.channels; ++c)
      for (std::size_t p = 0; p < in.pixels(); ++p) {
        const std::size_t first = u * in.size() + c * in.pixels() + p;
        const std::size_t last = u * in.size() + p * in.channels + c;
        target[to_channels_last ? last : first] = source[to_channels_last ? first : last];
      }
}

// oneDNN 2.6 writes through a null pointer when there is no memory for the code that it generates,
// so room is looked for before it is called.
void require_room_for_code() {
  constexpr std::size_t kRoom = std::size_t{64} << 20;
  void* const room =
      ::mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  ::munmap(room, kRoom);
}

std::size_t element_count_of(const Parameter& parameter) {
  std::size_t count = 1;
  for (const std::size_t size : parameter.shape) count *= size;
  return count;
}

const float* bias_of(const Op& op, ParameterStore& store) {
  return op.bias == kNone ? nullptr : store[op.bias].data();
}

}  // namespace

Executor::Executor(const Graph& graph, std::size_t batch, Mode mode, const Executor* like)
    : graph_(mode == Mode::inference ? for_inference(graph) : graph),
      batch_(batch),
      mode_(mode),
      states_(graph_.ops.size()) {
  require_room_for_code();
  const bool backward = mode != Mode::inference;
  const bool input_gradient = mode == Mode::input_gradient || mode == Mode::training_inputs;
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    const std::size_t size = batch * graph_.values[v].size();
    values_.emplace_back(size);
    gradients_.emplace_back(backward && (v != 0 || input_gradient) ? size : 0);
  }
  std::size_t scratch = 0;
  std::size_t gradient = 0;
  std::size_t workspace = 0;
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    const Shape in = graph_.values[op.input];
    const Shape out = graph_.values[op.output];
    if (op.kind == OpKind::conv) {
      const Convolution::Use use{.weight_gradient = training(),
                                 .input_gradient = backward && !gradients_[op.input].empty()};
      const Convolution& made =
          convolutions_
              .try_emplace(i, op, in, out, batch, use,
                           like == nullptr ? nullptr : &like->convolutions_.at(i))
              .first->second;
      workspace = std::max(workspace, made.workspace_size());
      if (backward) gradient = std::max(gradient, made.home_size());
      if (op.accumulate) scratch = std::max(scratch, batch * in.size());
    } else if (op.kind == OpKind::dense) {
      scratch = std::max(scratch, batch * out.size());
      if (backward) gradient = std::max(gradient, panel_rows(in.size(), out.size()) * in.size());
    } else if (op.kind == OpKind::batch_norm) {
      states_[i].mean = Buffer(in.channels);
      states_[i].inverse = Buffer(in.channels);
    } else if ((op.kind == OpKind::max_pool && backward) || op.kind == OpKind::global_max_pool) {
      states_[i].places = kernels::Places(op, batch * out.size());
    }
    if (backward) gradient = std::max(gradient, out.channels);
    scratch = std::max(scratch, out.channels);
  }
  workspace_ = Buffer(workspace);
  for (auto& [index, convolution] : convolutions_) convolution.set_workspace(workspace_.data());
  scratch_ = Buffer(scratch);
  gradient_ = Buffer(gradient);
}

ParameterStore Executor::import_parameters(const std::vector<Parameter>& parameters) const {
  ParameterStore store(parameters.size());
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    for (const std::size_t p : {op.weight, op.bias, op.mean, op.variance}) {
      if (p == kNone) continue;
      const std::vector<float>& plain = parameters[p].values;
      OUBLI_ASSERT(plain.size() == element_count_of(graph_.parameters[p]));
      if (op.kind == OpKind::conv && p == op.weight) {
        store[p] = Buffer(convolutions_.at(i).home_size());
        convolutions_.at(i).import_weights(plain, store[p].data());
        continue;
      }
      store[p] = Buffer(plain.size());
      if (p == op.weight && needs_permutation(graph_, op))
        permute(graph_.values[op.input], graph_.values[op.output].size(), plain.data(),
                store[p].data(), true);
      else
        std::ranges::copy(plain, store[p].data());
    }
  }
  return store;
}

std::vector<Parameter> Executor::export_parameters(const ParameterStore& store) const {
  std::vector<Parameter> parameters = graph_.parameters;
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    for (const std::size_t p : {op.weight, op.bias, op.mean, op.variance}) {
      if (p == kNone) continue;
      std::vector<float>& plain = parameters[p].values;
      plain.resize(element_count_of(parameters[p]));
      if (op.kind == OpKind::conv && p == op.weight)
        convolutions_.at(i).export_weights(store[p].data(), plain);
      else if (p == op.weight && needs_permutation(graph_, op))
        permute(graph_.values[op.input], graph_.values[op.output].size(), store[p].data(),
                plain.data(), false);
      else
        std::ranges::copy(store[p].span(), plain.begin());
    }
  }
  return parameters;
}

void Executor::prepare(const ParameterStore& store) {
  for (auto& [index, convolution] : convolutions_)
    convolution.prepare(store[graph_.ops[index].weight].data());
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    if (op.packed)
      packed_.insert_or_assign(i,
                               PackedDense(store[op.weight].data(), graph_.values[op.input].size(),
                                           graph_.values[op.output].size()));
  }
}

void Executor::forward(ParameterStore& store) {
  for (std::size_t i = 0; i < graph_.ops.size(); ++i) forward_op(i, store);
}

void Executor::forward_dense(std::size_t index, ParameterStore& store) {
  const Op& op = graph_.ops[index];
  const std::size_t in = graph_.values[op.input].size(), out = graph_.values[op.output].size();
  const float* x = value(op.input).data();
  float* y = values_[op.output].data();
  const float* bias = bias_of(op, store);
  if (op.packed) {
    packed_.at(index).forward(x, batch_, bias, op.relu, y);
    return;
  }
  // W X^T, then transposed: faster than X W^T for every shape tried
  multiply(
      {.transpose_b = true, .m = out, .n = batch_, .k = in, .lda = in, .ldb = in, .ldc = batch_},
      store[op.weight].data(), x, scratch_.data());
  kernels::transpose(scratch_.data(), out, batch_, bias, op.relu, y);
}

void Executor::forward_batch_norm(std::size_t index, ParameterStore& store) {
  const Op& op = graph_.ops[index];
  const Shape in = graph_.values[op.input];
  const std::size_t rows = batch_ * in.pixels();
  const float* x = value(op.input).data();
  float* y = values_[op.output].data();
  const float* weight = store[op.weight].data();
  const float* bias = store[op.bias].data();
  float* mean = states_[index].mean.data();
  float* inverse = states_[index].inverse.data();
  if (training()) {
    kernels::batch_norm({rows, in.channels, op.relu, op.relu_masked}, x, weight, bias,
                        store[op.mean].data(), store[op.variance].data(), mean, inverse, y);
    return;
  }
  // mean and inverse hold shift and scale
  for (std::size_t c = 0; c < in.channels; ++c) {
    inverse[c] = weight[c] / std::sqrt(store[op.variance].data()[c] + kBatchNormEpsilon);
    mean[c] = bias[c] - store[op.mean].data()[c] * inverse[c];
  }
  kernels::scale_shift(x, rows, in.channels, inverse, mean, op.relu, y);
}

void Executor::forward_op(std::size_t index, ParameterStore& store) {
  const Op& op = graph_.ops[index];
  Shape in = graph_.values[op.input];
  Shape out = graph_.values[op.output];
  // Pooling sees blocks of channels as images of their own.
  const std::size_t blocks = op.blocked ? in.channels / kBlock : 1;
  const std::size_t images = batch_ * blocks;
  if (op.blocked) in.channels = out.channels = kBlock;
  const float* x = value(op.input).data();
  float* y = values_[op.output].data();
  switch (op.kind) {
    case OpKind::conv:
      convolutions_.at(index).forward(x, store[op.weight].data(), bias_of(op, store), y);
      break;
    case OpKind::dense:
      forward_dense(index, store);
      break;
    case OpKind::max_pool:
      kernels::max_pool(op, in, out, images, x, y,
                        mode_ == Mode::inference ? nullptr : &states_[index].places);
      break;
    case OpKind::global_max_pool:
      kernels::global_max_pool(in, images, x, y, states_[index].places);
      break;
    case OpKind::global_average_pool:
      kernels::global_average_pool(in, images, x, y);
      break;
    case OpKind::batch_norm:
      forward_batch_norm(index, store);
      break;
    case OpKind::relu:
      kernels::relu(value(op.input), y);
      break;
    case OpKind::sigmoid:
      kernels::sigmoid(value(op.input), y);
      break;
    case OpKind::add:
      kernels::add(value(op.input), value(op.other).data(), op.relu, y);
      break;
  }
}

void Executor::backward(const ParameterStore& store, GradientSink* sink) {
  for (std::size_t i = graph_.ops.size(); i-- > 0;) backward_op(i, store, sink);
}

void Executor::backward_op(std::size_t index, const ParameterStore& store, GradientSink* sink) {
  const Op& op = graph_.ops[index];
  const Shape in = graph_.values[op.input];
  const Shape out = graph_.values[op.output];
  const Buffer& y = values_[op.output];
  Buffer& dy = gradients_[op.output];
  float* dx = gradients_[op.input].data();  // null if not wanted
  if (op.relu && !op.relu_masked && op.kind != OpKind::batch_norm)
    kernels::mask_relu(y.span(), dy.data());
  switch (op.kind) {
    case OpKind::conv:
      return backward_conv(index, store, sink);
    case OpKind::dense:
      return backward_dense(op, store, sink);
    case OpKind::batch_norm:
      return backward_batch_norm(index, store, sink);
    case OpKind::max_pool:
      if (dx != nullptr)
        kernels::max_pool_backward(op, in, out, batch_, y.data(), states_[index].places, dy.data(),
                                   dx);
      break;
    case OpKind::global_max_pool:
      if (dx != nullptr)
        kernels::global_max_pool_backward(in, batch_, states_[index].places, dy.data(), dx,
                                          op.accumulate);
      break;
    case OpKind::global_average_pool:
      if (dx != nullptr)
        kernels::global_average_pool_backward(in, batch_, dy.data(), dx, op.accumulate);
      break;
    case OpKind::relu:
      kernels::mask_relu(y.span(), dy.data());
      if (dx != nullptr) kernels::deliver(dy.span(), dx, op.accumulate);
      break;
    case OpKind::sigmoid:
      if (dx != nullptr) kernels::sigmoid_backward(y.span(), dy.data(), dx, op.accumulate);
      break;
    case OpKind::add:
      if (dx != nullptr) kernels::deliver(dy.span(), dx, op.accumulate);
      if (float* other = gradients_[op.other].data(); other != nullptr)
        kernels::deliver(dy.span(), other, op.accumulate_other);
      break;
  }
}

void Executor::backward_dense(const Op& op, const ParameterStore& store, GradientSink* sink) {
  const std::size_t inputs = graph_.values[op.input].size();
  const std::size_t units = graph_.values[op.output].size();
  const float* x = value(op.input).data();
  const float* dy = gradients_[op.output].data();
  if (float* dx = gradients_[op.input].data(); dx != nullptr)
    multiply({.m = batch_,
              .n = inputs,
              .k = units,
              .lda = units,
              .ldb = inputs,
              .ldc = inputs,
              .beta = op.accumulate ? 1.0F : 0.0F},
             dy, store[op.weight].data(), dx);
  if (sink == nullptr) return;
  const std::size_t panel = panel_rows(inputs, units);
  for (std::size_t row = 0; row < units; row += panel) {
    const std::size_t rows = std::min(panel, units - row);
    multiply({.transpose_a = true,
              .m = rows,
              .n = inputs,
              .k = batch_,
              .lda = units,
              .ldb = inputs,
              .ldc = inputs},
             dy + row, x, gradient_.data());
    sink->take(op.weight, row * inputs, {gradient_.data(), rows * inputs});
  }
  if (op.bias != kNone) {
    kernels::column_sums(dy, batch_, units, scratch_.data());
    sink->take(op.bias, 0, {scratch_.data(), units});
  }
}

void Executor::backward_conv(std::size_t index, const ParameterStore& store, GradientSink* sink) {
  const Op& op = graph_.ops[index];
  Convolution& convolution = convolutions_.at(index);
  const float* dy = gradients_[op.output].data();
  if (Buffer& dx = gradients_[op.input]; !dx.empty()) {
    float* target = op.accumulate ? scratch_.data() : dx.data();
    convolution.backward_input(dy, store[op.weight].data(), target);
    if (op.accumulate) kernels::deliver({target, dx.size()}, dx.data(), true);
  }
  if (sink == nullptr) return;
  convolution.backward_weights(value(op.input).data(), dy, gradient_.data());
  sink->take(op.weight, 0, {gradient_.data(), convolution.home_size()});
  if (op.bias == kNone) return;
  const Shape out = graph_.values[op.output];
  kernels::sums_in_order(dy, batch_ * out.pixels(), out.channels, scratch_.data());
  sink->take(op.bias, 0, {scratch_.data(), out.channels});
}

void Executor::backward_batch_norm(std::size_t index, const ParameterStore& store,
                                   GradientSink* sink) {
  const Op& op = graph_.ops[index];
  const Shape in = graph_.values[op.input];
  Buffer& dx = gradients_[op.input];
  OpState& state = states_[index];
  float* dy = gradients_[op.output].data();
  if (!training()) {
    if (op.relu && !op.relu_masked) kernels::mask_relu(values_[op.output].span(), dy);
    if (dx.empty()) return;
    const Buffer zero(in.channels);
    kernels::scale_shift(dy, batch_ * in.pixels(), in.channels, state.inverse.data(), zero.data(),
                         false, dy);
    kernels::deliver(gradients_[op.output].span(), dx.data(), op.accumulate);
    return;
  }
  // The image's own gradient may not be wanted, but the kernel needs a place to put it.
  Buffer unwanted(dx.empty() ? values_[op.input].size() : 0);
  kernels::batch_norm_backward({batch_ * in.pixels(), in.channels, op.relu, op.relu_masked},
                               value(op.input).data(), values_[op.output].data(),
                               store[op.weight].data(), state.mean.data(), state.inverse.data(), dy,
                               gradient_.data(), scratch_.data(),
                               dx.empty() ? unwanted.data() : dx.data(), op.accumulate);
  if (sink == nullptr) return;
  sink->take(op.weight, 0, {gradient_.data(), in.channels});
  sink->take(op.bias, 0, {scratch_.data(), in.channels});
}

std::vector<std::string> Executor::kernels() const {
  std::vector<std::string> names;
  for (const auto& [index, convolution] : convolutions_)
    for (const std::string& name : convolution.kernels()) names.push_back(name);
  return names;
}

}  // namespace oubli::nn
