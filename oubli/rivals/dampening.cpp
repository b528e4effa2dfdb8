#include "oubli/rivals/dampening.h"

#include <algorithm>

#include "oubli/rivals/dense_chain.h"

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
  const DenseChain chain = dense_chain(network);
  const ChainPass pass = forward(chain, pixels(set, images));
  const auto deltas = backward(chain, pass, loss_gradient(pass.logits, labels_of(set, images)));
  std::vector<Matrix<double>> result;
  for (std::size_t l = 0; l < chain.size(); ++l) {
    Matrix<double>& squares =
        result.emplace_back(static_cast<std::size_t>(chain[l].weights.rows()),
                            static_cast<std::size_t>(chain[l].weights.cols()));
    // One sample's gradient is delta x^T, and the square of a product the product of the squares.
    eigen(squares.view()).noalias() =
        deltas[l].array().square().matrix().transpose() * pass.inputs[l].array().square().matrix();
    eigen(squares.view()) /= static_cast<double>(images.size());
  }
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
  const DenseChain old = dense_chain(input.network);
  std::vector<Unlearned> results;
  for (const double alpha : {10.0, 3.0}) {
    DenseChain chain = old;
    for (std::size_t l = 0; l < chain.size(); ++l) {
      const Matrix<double> factors = dampening_factors(all[l], forgotten[l], alpha, 1);
      chain[l].weights.array() *= eigen(factors.view()).array();
    }
    results.push_back(meter.unlearned(
        with_weights(input.network, without_outputs(std::move(chain), input.split))));
  }
  return results;
}

}  // namespace oubli
