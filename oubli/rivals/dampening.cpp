#include "oubli/rivals/dampening.h"

#include <algorithm>

#include "oubli/rivals/layers.h"

namespace oubli {

Matrix<double> dampening_factors(MatrixView<const double> all, MatrixView<const double> forgotten,
                                 double alpha, double lambda) {
  Matrix<double> factors(all.rows(), all.cols());
  for (std::size_t i = 0; i < all.flat().size(); ++i) {
    const double of_all = all.flat()[i], of_forgotten = forgotten.flat()[i];
    factors.flat()[i] =
        of_forgotten > alpha * of_all ? std::min(lambda * of_all / of_forgotten, 1.0) : 1.0;
  }
  return factors;
}

std::vector<Matrix<double>> importances(const nn::Network& network, const ImageSet& set,
                                        std::span<const std::size_t> images) {
  std::vector<Matrix<double>> result;
  for (const RowMajorMatrix& layer : layer_weights(network))
    result.emplace_back(static_cast<std::size_t>(layer.rows()),
                        static_cast<std::size_t>(layer.cols()));
  visit_layers(network, set, images, loss_gradient(set), [&](const LayerBatch& batch) {
    auto squares = eigen(result[batch.layer].view());
    if (batch.positions == 1) {
      // An image's gradient is delta x^T, and the square of a product the product of the squares.
      squares.noalias() += batch.deltas.array().square().matrix().transpose() *
                           batch.inputs.array().square().matrix();
      return;
    }
    for (Eigen::Index row = 0; row < batch.inputs.rows(); row += batch.positions) {
      const RowMajorMatrix gradient = batch.deltas.middleRows(row, batch.positions).transpose() *
                                      batch.inputs.middleRows(row, batch.positions);
      squares.array() += gradient.array().square();
    }
  });
  for (Matrix<double>& squares : result)
    eigen(squares.view()) /= static_cast<double>(images.size());
  return result;
}

std::vector<Unlearned> selective_dampening(const RivalInput& input) {
  Meter meter;
  const TrainingImages sample = sample_images(input);
  std::vector<std::size_t> everything = sample.retained;
  everything.insert(everything.end(), sample.forgotten.begin(), sample.forgotten.end());
  const auto all = importances(input.network, input.train, everything);
  const auto forgotten = importances(input.network, input.train, sample.forgotten);
  meter.add_gradients(static_cast<double>(everything.size() + sample.forgotten.size()));
  const LayerWeights old = layer_weights(input.network);
  std::vector<Unlearned> results;
  for (const double alpha : {10.0, 3.0}) {
    LayerWeights weights = old;
    for (std::size_t l = 0; l < weights.size(); ++l) {
      const Matrix<double> factors = dampening_factors(all[l], forgotten[l], alpha, 1);
      weights[l].array() *= eigen(factors.view()).array();
    }
    results.push_back(
        meter.unlearned(without_outputs(with_weights(input.network, weights), input.split)));
  }
  return results;
}

}  // namespace oubli
