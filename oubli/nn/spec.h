#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace oubli::nn {

enum class LayerKind {
  dense,
  conv,
  max_pool,
  global_max_pool,
  global_average_pool,
  batch_norm,
  relu,
  sigmoid,
  residual,
};

// `same` as TensorFlow has it: output = ceil(input / stride), the odd row or column of padding at
// the bottom and right.
enum class Padding { valid, same };

struct LayerSpec {
  LayerKind kind = LayerKind::relu;
  std::size_t units = 0;   // dense: outputs; conv: filters
  std::size_t kernel = 0;  // conv, max_pool: side of the square window
  std::size_t stride = 1;  // conv, max_pool
  Padding padding = Padding::valid;
  bool bias = true;                 // dense, conv
  std::vector<LayerSpec> branch;    // residual: branch(x) + shortcut(x)
  std::vector<LayerSpec> shortcut;  // residual: empty means x itself

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

// A classifier of images: `layers` compute the features, a dense head with bias, not listed, the
// logits. Images that meet a dense layer are flattened, channels first. Weights start
// Glorot-uniform, biases zero; batch normalisation as in Keras (momentum 0.99, epsilon 1e-3).
struct NetworkSpec {
  std::string name;
  std::size_t channels = 1;
  std::size_t height = 1;
  std::size_t width = 1;
  std::size_t classes = 2;
  std::vector<LayerSpec> layers;

  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

inline constexpr float kBatchNormMomentum = 0.99F;
inline constexpr float kBatchNormEpsilon = 1e-3F;

[[nodiscard]] LayerSpec dense(std::size_t units);
[[nodiscard]] LayerSpec conv(std::size_t filters, std::size_t kernel, std::size_t stride = 1,
                             Padding padding = Padding::valid, bool bias = true);
[[nodiscard]] LayerSpec max_pool(std::size_t size);

// The networks of the paper's experiments.
// MNIST: 784 - 50 relu - classes.
[[nodiscard]] NetworkSpec mlp_network(std::size_t classes = 10);
// CIFAR-10: two convolutions with pooling, one dense layer of p features.
[[nodiscard]] NetworkSpec cnn_network(std::size_t features, std::size_t classes = 10);
// AT&T faces: five residual blocks with projections and batch normalisation, 256 features.
[[nodiscard]] NetworkSpec residual_network(std::size_t classes = 40);
// Faces at half size: 1000 - 300 sigmoid units.
[[nodiscard]] NetworkSpec inversion_network(std::size_t classes = 4);

// Error{usage}, saying which layer and why, if the layers do not fit each other or the images.
void check(const NetworkSpec& spec);

// {"format": "oubli-network", "version": 1, "input": [c, h, w], "classes": k, "layers": [{"kind":
// "conv", "units": 16, ...}, ...]}. What has its default is left out. Error{bad_input} naming
// `what`.
[[nodiscard]] nlohmann::json to_json(const NetworkSpec& spec);
[[nodiscard]] NetworkSpec network_from_json(const nlohmann::json& json, const std::string& what);

}  // namespace oubli::nn
