#include "oubli/rivals/dense_chain.h"

#include <utility>

#include "oubli/base/error.h"

namespace oubli {

using Eigen::Index;

DenseChain dense_chain(const nn::Network& network) {
  const std::vector<nn::LayerSpec>& layers = network.spec().layers;
  const auto refuse = [&] {
    fail(ErrorCode::usage,
         "{}: this method is written for networks of dense layers with biases, a relu after each",
         network.spec().name);
  };
  if (layers.size() % 2 != 0) refuse();
  for (std::size_t i = 0; i < layers.size(); i += 2)
    if (layers[i].kind != nn::LayerKind::dense || !layers[i].bias ||
        layers[i + 1].kind != nn::LayerKind::relu)
      refuse();
  DenseChain chain;
  const std::vector<nn::Parameter>& parameters = network.parameters();
  OUBLI_ASSERT(parameters.size() == layers.size() + 2);
  for (std::size_t p = 0; p < parameters.size(); p += 2) {
    const std::size_t units = parameters[p].shape[0], inputs = parameters[p].shape[1];
    DenseLayer layer{.weights = RowMajorMatrix(eigen_index(units), eigen_index(inputs) + 1),
                     .relu = p + 2 < parameters.size()};
    for (std::size_t i = 0; i < units; ++i) {
      for (std::size_t j = 0; j < inputs; ++j)
        layer.weights(eigen_index(i), eigen_index(j)) =
            static_cast<double>(parameters[p].values[i * inputs + j]);
      layer.weights(eigen_index(i), eigen_index(inputs)) =
          static_cast<double>(parameters[p + 1].values[i]);
    }
    chain.push_back(std::move(layer));
  }
  return chain;
}

nn::Network with_weights(const nn::Network& network, const DenseChain& chain) {
  nn::NetworkSpec spec = network.spec();
  spec.classes = static_cast<std::size_t>(chain.back().weights.rows());
  std::vector<nn::Parameter> parameters = network.parameters();
  for (std::size_t l = 0; l < chain.size(); ++l) {
    nn::Parameter& weight = parameters[2 * l];
    nn::Parameter& bias = parameters[2 * l + 1];
    const RowMajorMatrix& values = chain[l].weights;
    weight.shape[0] = bias.shape[0] = static_cast<std::size_t>(values.rows());
    weight.values.clear();
    bias.values.clear();
    for (Index i = 0; i < values.rows(); ++i) {
      for (Index j = 0; j + 1 < values.cols(); ++j)
        weight.values.push_back(static_cast<float>(values(i, j)));
      bias.values.push_back(static_cast<float>(values(i, values.cols() - 1)));
    }
  }
  return {std::move(spec), std::move(parameters)};
}

DenseChain without_outputs(DenseChain chain, const ClassSplit& split) {
  const RowMajorMatrix head = chain.back().weights;
  chain.back().weights.resize(eigen_index(split.retained.size()), head.cols());
  for (std::size_t i = 0; i < split.retained.size(); ++i)
    chain.back().weights.row(eigen_index(i)) = head.row(eigen_index(split.retained[i]));
  return chain;
}

namespace {

RowMajorMatrix with_ones(const RowMajorMatrix& values) {
  RowMajorMatrix result(values.rows(), values.cols() + 1);
  result.leftCols(values.cols()) = values;
  result.col(values.cols()).setOnes();
  return result;
}

}  // namespace

ChainPass forward(const DenseChain& chain, const RowMajorMatrix& images) {
  ChainPass pass;
  RowMajorMatrix values = images;
  for (const DenseLayer& layer : chain) {
    pass.inputs.push_back(with_ones(values));
    values.noalias() = pass.inputs.back() * layer.weights.transpose();
    if (layer.relu) values = values.cwiseMax(0.0);
  }
  pass.logits = std::move(values);
  return pass;
}

std::vector<RowMajorMatrix> backward(const DenseChain& chain, const ChainPass& pass,
                                     const RowMajorMatrix& dlogits) {
  std::vector<RowMajorMatrix> deltas(chain.size());
  deltas.back() = dlogits;
  for (std::size_t l = chain.size() - 1; l > 0; --l) {
    const Index units = chain[l - 1].weights.rows();
    const RowMajorMatrix back = deltas[l] * chain[l].weights.leftCols(units);
    deltas[l - 1] = (pass.inputs[l].leftCols(units).array() > 0)
                        .select(back, RowMajorMatrix::Zero(back.rows(), units));
  }
  return deltas;
}

RowMajorMatrix pixels(const ImageSet& set, std::span<const std::size_t> images) {
  RowMajorMatrix rows(eigen_index(images.size()), eigen_index(set.image_size()));
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto image = set.image(images[i]);
    for (std::size_t j = 0; j < image.size(); ++j)
      rows(eigen_index(i), eigen_index(j)) = static_cast<double>(image[j]) / 255;
  }
  return rows;
}

std::vector<std::size_t> labels_of(const ImageSet& set, std::span<const std::size_t> images) {
  std::vector<std::size_t> labels;
  labels.reserve(images.size());
  for (const std::size_t i : images) labels.push_back(set.labels[i]);
  return labels;
}

RowMajorMatrix softmax(const RowMajorMatrix& logits) {
  RowMajorMatrix rows = logits.colwise() - logits.rowwise().maxCoeff();
  rows = rows.array().exp();
  rows.array().colwise() /= rows.rowwise().sum().array();
  return rows;
}

RowMajorMatrix loss_gradient(const RowMajorMatrix& logits, std::span<const std::size_t> labels) {
  RowMajorMatrix gradient = softmax(logits);
  for (std::size_t i = 0; i < labels.size(); ++i)
    gradient(eigen_index(i), eigen_index(labels[i])) -= 1;
  return gradient;
}

double accuracy_of(const RowMajorMatrix& logits, std::span<const std::size_t> labels) {
  double right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Index top = 0;
    logits.row(eigen_index(i)).maxCoeff(&top);
    if (top == eigen_index(labels[i])) ++right;
  }
  return labels.empty() ? 0 : right / static_cast<double>(labels.size());
}

}  // namespace oubli
