#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "oubli/nn/buffer.h"
#include "oubli/nn/convolution.h"
#include "oubli/nn/dense.h"
#include "oubli/nn/graph.h"
#include "oubli/nn/pooling.h"

namespace oubli::nn {

// The parameters of a network in the layouts in which an Executor computes.
using ParameterStore = std::vector<Buffer>;

// Receives gradients as the backward pass finishes them, in pieces that are still in cache: an
// optimizer may change the parameter at once, nothing reads it again in this pass.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Elements [offset, offset + gradient.size()) of the store's buffer `parameter`.
  virtual void take(std::size_t parameter, std::size_t offset, std::span<const float> gradient) = 0;
};

// Runs a graph forward and backward on batches of one size, on one thread, in memory of its own.
class Executor {
 public:
  enum class Mode {
    inference,        // forward only; batch normalisation by running statistics
    input_gradient,   // the same, and the gradient of the input
    training,         // batch statistics; gradients of the parameters
    training_inputs,  // training, and the gradient of the input
  };

  // `like` (may be null): an executor of the same graph for another batch size, whose store to
  // share.
  Executor(const Graph& graph, std::size_t batch, Mode mode, const Executor* like = nullptr);

  [[nodiscard]] std::size_t batch() const { return batch_; }
  [[nodiscard]] ParameterStore import_parameters(const std::vector<Parameter>& parameters) const;
  [[nodiscard]] std::vector<Parameter> export_parameters(const ParameterStore& store) const;

  // The images to compute on, batch x height x width x channels, to be filled by the caller.
  [[nodiscard]] std::span<float> input() {
    input_ = nullptr;
    return values_.front().span();
  }
  // Or where they are already; must stay until after forward() and backward().
  void set_input(const float* images) { input_ = images; }
  // Prepares for parameters that have changed since the last forward().
  void prepare(const ParameterStore& store);
  void forward(ParameterStore& store);
  [[nodiscard]] std::span<const float> features() const { return value(graph_.features); }
  [[nodiscard]] std::span<const float> logits() const { return values_.back().span(); }

  // To be filled before backward(): the gradient of the loss with respect to the logits.
  [[nodiscard]] std::span<float> logits_gradient() { return gradients_.back().span(); }
  // sink may be null if gradients of parameters are not wanted.
  void backward(const ParameterStore& store, GradientSink* sink);
  [[nodiscard]] std::span<const float> input_gradient() const { return gradients_.front().span(); }

  // A value of the graph after forward(), but for those that Mode::inference leaves out.
  [[nodiscard]] std::span<const float> value(std::size_t index) const {
    const std::span<const float> own = values_[index].span();
    return index == 0 && input_ != nullptr ? std::span(input_, own.size()) : own;
  }
  // Its gradient after backward(); of what a convolution or dense layer gives, before the relu.
  [[nodiscard]] std::span<const float> gradient(std::size_t index) const {
    return gradients_[index].span();
  }

  [[nodiscard]] std::vector<std::string> kernels() const;

 private:
  struct OpState {
    kernels::Places places;  // pooling
    Buffer mean;             // batch normalisation
    Buffer inverse;
  };

  [[nodiscard]] bool training() const { return mode_ >= Mode::training; }
  void forward_op(std::size_t index, ParameterStore& store);
  void forward_dense(std::size_t index, ParameterStore& store);
  void forward_batch_norm(std::size_t index, ParameterStore& store);
  void backward_op(std::size_t index, const ParameterStore& store, GradientSink* sink);
  void backward_dense(const Op& op, const ParameterStore& store, GradientSink* sink);
  void backward_conv(std::size_t index, const ParameterStore& store, GradientSink* sink);
  void backward_batch_norm(std::size_t index, const ParameterStore& store, GradientSink* sink);

  Graph graph_;
  std::size_t batch_;
  Mode mode_;
  std::vector<Buffer> values_;
  const float* input_ = nullptr;   // the images, if not in values_[0]
  std::vector<Buffer> gradients_;  // empty where not wanted
  std::vector<OpState> states_;
  std::map<std::size_t, Convolution> convolutions_;  // by op
  Buffer workspace_;                                 // theirs
  std::map<std::size_t, PackedDense> packed_;        // by op
  Buffer scratch_;
  Buffer gradient_;  // of one parameter, or one panel of it
};

}  // namespace oubli::nn
