#include "oubli/rivals/descent.h"

#include <algorithm>
#include <cmath>

#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"
#include "oubli/nn/images.h"
#include "oubli/nn/kernels.h"

namespace oubli {

Descent::Descent(const nn::Network& start, const ImageSet& set, std::size_t batch,
                 const nn::Optimizer& optimizer)
    : spec_(start.spec()),
      set_(set),
      batch_(batch),
      graph_(compile(spec_)),
      store_(executor_for(batch).import_parameters(start.parameters())),
      updater_(optimizer, graph_, store_) {}

nn::Executor& Descent::executor_for(std::size_t size) {
  const auto found = executors_.find(size);
  if (found != executors_.end()) return found->second;
  const nn::Executor* like = executors_.empty() ? nullptr : &executors_.begin()->second;
  return executors_.try_emplace(size, graph_, size, nn::Executor::Mode::training, like)
      .first->second;
}

void Descent::run(std::span<const std::size_t> images, const Loss& loss,
                  const std::stop_token& stop) {
  const nn::SingleThread single;
  const nn::Shape shape{spec_.channels, spec_.height, spec_.width, false};
  for (std::size_t first = 0; first < images.size(); first += batch_) {
    throw_if_stopped(stop);
    const auto chosen = images.subspan(first, std::min(batch_, images.size() - first));
    nn::Executor& executor = executor_for(chosen.size());
    for (std::size_t i = 0; i < chosen.size(); ++i)
      nn::to_channels_last(shape, set_.image(chosen[i]),
                           executor.input().data() + i * shape.size());
    executor.prepare(store_);
    executor.forward(store_);
    loss(chosen, executor.logits(), executor.logits_gradient());
    updater_.begin_step();
    executor.backward(store_, &updater_);
  }
  for (const nn::Buffer& buffer : store_)
    if (!std::ranges::all_of(buffer.span(), [](float w) { return std::isfinite(w); }))
      fail(ErrorCode::unfilterable, "training diverged: a weight is not a finite number");
}

nn::Network Descent::network() const {
  return {spec_, executors_.begin()->second.export_parameters(store_)};
}

Descent::Loss label_loss(std::span<const std::uint32_t> labels, std::size_t classes, float sign) {
  return [labels, classes, sign](std::span<const std::size_t> images, std::span<const float> logits,
                                 std::span<float> gradient) {
    std::vector<std::uint32_t> chosen;
    chosen.reserve(images.size());
    for (const std::size_t i : images) chosen.push_back(labels[i]);
    (void)nn::kernels::cross_entropy(logits, classes, chosen, gradient.data());
    if (sign != 1)
      for (float& g : gradient) g *= sign;
  };
}

void softmax(MatrixView<float> logits) {
  for (std::size_t i = 0; i < logits.rows(); ++i) {
    const auto row = logits.row(i);
    const float top = std::ranges::max(row);
    float sum = 0;
    for (float& z : row) sum += z = std::exp(z - top);
    for (float& z : row) z /= sum;
  }
}

Descent::Loss soft_loss(MatrixView<const float> targets,
                        const std::map<std::size_t, std::size_t>& row_of) {
  return [targets, &row_of](std::span<const std::size_t> images, std::span<const float> logits,
                            std::span<float> gradient) {
    std::ranges::copy(logits, gradient.begin());
    const MatrixView<float> rows(gradient.data(), images.size(), targets.cols());
    softmax(rows);
    for (std::size_t i = 0; i < images.size(); ++i) {
      const auto target = targets.row(row_of.at(images[i]));
      for (std::size_t j = 0; j < target.size(); ++j)
        rows(i, j) = (rows(i, j) - target[j]) / static_cast<float>(images.size());
    }
  };
}

}  // namespace oubli
