#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/data/image_set.h"
#include "oubli/nn/spec.h"

namespace oubli::nn {

// One trained tensor, in the layout of ONNX: conv filters x channels x k x k, dense units x inputs.
struct Parameter {
  enum class Role { weight, bias, scale, shift, running_mean, running_variance };

  std::string name;  // "layers.3.branch.0.weight", "head.bias"
  Role role = Role::weight;
  std::vector<std::size_t> shape;
  std::vector<float> values;

  [[nodiscard]] bool trained() const {
    return role != Role::running_mean && role != Role::running_variance;
  }
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

// A spec with its weights: a value. It computes on the calling thread alone and keeps working
// memory between calls, so that one object must not be used by two threads at once; copies may.
// Images are n x (channels * height * width), channels first, in [0, 1]; an ImageSet's bytes are
// divided by 255.
class Network {
 public:
  // Fresh weights from (seed, model).
  Network(NetworkSpec spec, std::uint64_t seed, std::uint64_t model);
  // Error{bad_input} if names or shapes are not those of the spec.
  Network(NetworkSpec spec, std::vector<Parameter> parameters);
  ~Network();
  Network(const Network& other);
  Network(Network&& other) noexcept;
  Network& operator=(Network other) noexcept;

  [[nodiscard]] const NetworkSpec& spec() const { return spec_; }
  [[nodiscard]] std::size_t classes() const { return spec_.classes; }
  [[nodiscard]] std::size_t image_size() const {
    return spec_.channels * spec_.height * spec_.width;
  }
  [[nodiscard]] std::size_t feature_count() const { return head_weights().cols(); }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

  // n x classes and n x features. Batch normalisation uses the running statistics.
  [[nodiscard]] Matrix<float> logits(const ImageSet& images) const;
  [[nodiscard]] Matrix<float> logits(MatrixView<const float> images) const;
  [[nodiscard]] Matrix<float> features(const ImageSet& images) const;
  [[nodiscard]] Matrix<float> features(MatrixView<const float> images) const;
  // Both, in one pass.
  struct Outputs {
    Matrix<float> features, logits;
  };
  [[nodiscard]] Outputs outputs(MatrixView<const float> images) const;

  // The gradient of sum_ij logits_ij * dlogits_ij with respect to each image.
  [[nodiscard]] Matrix<float> input_gradient(MatrixView<const float> images,
                                             MatrixView<const float> dlogits) const;

  // The head: W is classes x features, b has `classes` elements.
  [[nodiscard]] MatrixView<const float> head_weights() const;
  [[nodiscard]] std::span<const float> head_bias() const;
  // Another head, e.g. with fewer classes; spec().classes follows its rows.
  void set_head(const Matrix<float>& weights, std::span<const float> bias);

 private:
  class Engine;
  [[nodiscard]] Engine& engine() const;

  NetworkSpec spec_;
  std::vector<Parameter> parameters_;
  mutable std::unique_ptr<Engine> engine_;
};

}  // namespace oubli::nn
