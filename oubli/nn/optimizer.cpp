#include "oubli/nn/optimizer.h"

#include <cmath>

namespace oubli::nn {

Updater::Updater(const Optimizer& optimizer, const Graph& graph, ParameterStore& store)
    : optimizer_(optimizer), store_(store) {
  for (std::size_t p = 0; p < store.size(); ++p) {
    const bool trained = graph.parameters[p].trained();
    first_.emplace_back(trained ? store[p].size() : 0);
    second_.emplace_back(trained && optimizer.kind == Optimizer::Kind::adam ? store[p].size() : 0);
    decays_.push_back(graph.parameters[p].role == Parameter::Role::weight);
  }
}

void Updater::begin_step() {
  ++step_;
  const auto t = static_cast<double>(step_);
  // Keras' form of Adam: both bias corrections in the rate, epsilon beside the uncorrected root.
  rate_ = static_cast<float>(optimizer_.kind == Optimizer::Kind::adam
                                 ? optimizer_.learning_rate *
                                       std::sqrt(1 - std::pow(optimizer_.beta2, t)) /
                                       (1 - std::pow(optimizer_.beta1, t))
                                 : optimizer_.learning_rate);
}

void Updater::take(std::size_t parameter, std::size_t offset, std::span<const float> gradient) {
  float* __restrict w = store_[parameter].data() + offset;
  float* __restrict m = first_[parameter].data() + offset;
  const float* __restrict g = gradient.data();
  const std::size_t count = gradient.size();
  const float rate = rate_;
  if (optimizer_.kind == Optimizer::Kind::adam) {
    float* __restrict v = second_[parameter].data() + offset;
    const auto keep1 = static_cast<float>(optimizer_.beta1);
    const auto keep2 = static_cast<float>(optimizer_.beta2);
    const auto epsilon = static_cast<float>(optimizer_.epsilon);
    for (std::size_t i = 0; i < count; ++i) {
      m[i] += (1 - keep1) * (g[i] - m[i]);
      v[i] += (1 - keep2) * (g[i] * g[i] - v[i]);
      w[i] -= rate * m[i] / (std::sqrt(v[i]) + epsilon);
    }
    return;
  }
  const auto momentum = static_cast<float>(optimizer_.momentum);
  const float decay = decays_[parameter] ? static_cast<float>(optimizer_.weight_decay) : 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    m[i] = momentum * m[i] - rate * (g[i] + decay * w[i]);
    w[i] += m[i];
  }
}

}  // namespace oubli::nn
