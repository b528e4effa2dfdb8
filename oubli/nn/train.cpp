#include "oubli/nn/train.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "oubli/base/class_split.h"
#include "oubli/base/error.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/random.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/images.h"
#include "oubli/nn/kernels.h"
#include "oubli/nn/optimizer.h"

namespace oubli::nn {
namespace {

// The samples to train on: `fill` writes sample i, converted, to its place in a batch; `fetch`
// tells the processor that sample i is wanted soon (shuffled samples are far apart in memory).
struct Samples {
  std::vector<std::uint32_t> labels;
  std::function<void(std::size_t i, float* target)> fill;
  std::function<void(std::size_t i)> fetch;
};

constexpr std::size_t kFetchAhead = 4;

void prefetch(const void* data, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const auto* byte = static_cast<const char*>(data);
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(byte + at);
}

void check_options(const TrainOptions& options) {
  if (options.batch == 0) fail(ErrorCode::usage, "batch: at least 1");
  const Optimizer& o = options.optimizer;
  if (!(o.learning_rate > 0) || !(o.beta1 >= 0 && o.beta1 < 1) || !(o.beta2 >= 0 && o.beta2 < 1) ||
      !(o.epsilon > 0) || !(o.momentum >= 0 && o.momentum < 1) || !(o.weight_decay >= 0))
    fail(ErrorCode::usage, "optimizer: a rate, decay or momentum is out of range");
}

Network fit(const NetworkSpec& spec, const Samples& samples, const TrainOptions& options,
            const std::stop_token& stop, const std::function<void(const EpochReport&)>& on_epoch) {
  check_options(options);
  const std::size_t count = samples.labels.size();
  if (count == 0) fail(ErrorCode::bad_input, "no images to train on");
  const Network fresh(spec, options.seed, options.model);
  const SingleThread single;
  const Graph graph = compile(spec);
  const std::size_t batch = std::min(options.batch, count);
  Executor whole(graph, batch, Executor::Mode::training);
  std::optional<Executor> rest;
  if (count % batch != 0) rest.emplace(graph, count % batch, Executor::Mode::training, &whole);
  ParameterStore store = whole.import_parameters(fresh.parameters());
  Updater updater(options.optimizer, graph, store);

  const std::size_t image_size = graph.values.front().size();
  std::vector<std::uint32_t> order(count);
  std::vector<std::uint32_t> labels(batch);
  for (std::size_t epoch = 0; epoch < options.epochs; ++epoch) {
    std::iota(order.begin(), order.end(), 0U);
    RandomStream random(options.seed, task_id("shuffle", {options.model, epoch}));
    random.shuffle(std::span(order));
    double loss = 0;
    for (std::size_t first = 0; first < count; first += batch) {
      throw_if_stopped(stop);
      const std::size_t size = std::min(batch, count - first);
      Executor& executor = size == batch ? whole : *rest;
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint32_t sample = order[first + i];
        samples.fetch(order[std::min(first + i + kFetchAhead, count - 1)]);
        samples.fill(sample, executor.input().data() + i * image_size);
        labels[i] = samples.labels[sample];
      }
      executor.prepare(store);
      executor.forward(store);
      loss += static_cast<double>(size) * kernels::cross_entropy(executor.logits(), spec.classes,
                                                                 {labels.data(), size},
                                                                 executor.logits_gradient().data());
      updater.begin_step();
      executor.backward(store, &updater);
    }
    loss /= static_cast<double>(count);
    if (!std::isfinite(loss))
      fail(
          ErrorCode::unfilterable,
          "training of model {} diverged in epoch {}: its loss is not a finite number; try a lower "
          "learning rate",
          options.model, epoch + 1);
    if (on_epoch) on_epoch({epoch, loss});
  }
  return {spec, whole.export_parameters(store)};
}

// Indices of the images that stay, and their new labels.
std::vector<std::size_t> retained_images(const ImageSet& set, const ClassSplit& split,
                                         std::vector<std::uint32_t>& labels) {
  std::vector<std::size_t> images;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const auto label = split.new_index(set.labels[i]);
    if (!label) continue;
    images.push_back(i);
    labels.push_back(static_cast<std::uint32_t>(*label));
  }
  return images;
}

}  // namespace

Network train(const NetworkSpec& spec, const ImageSet& set, const TrainOptions& options,
              const std::stop_token& stop,
              const std::function<void(const EpochReport&)>& on_epoch) {
  if (set.channels != spec.channels || set.height != spec.height || set.width != spec.width)
    fail(ErrorCode::usage, "{}: images of {} x {} x {}, the network takes {} x {} x {}", set.name,
         set.channels, set.height, set.width, spec.channels, spec.height, spec.width);
  const ClassSplit split = split_classes(set.classes(), options.without);
  if (spec.classes != split.retained.size())
    fail(ErrorCode::usage, "the network has {} classes, the images to train on {}", spec.classes,
         split.retained.size());
  Samples samples;
  const std::vector<std::size_t> images = retained_images(set, split, samples.labels);
  const Shape shape{spec.channels, spec.height, spec.width, false};
  samples.fill = [&](std::size_t i, float* target) {
    to_channels_last(shape, set.image(images[i]), target);
  };
  samples.fetch = [&](std::size_t i) { prefetch(set.image(images[i]).data(), set.image_size()); };
  return fit(spec, samples, options, stop, on_epoch);
}

Network refit_head(const Network& network, const ImageSet& set, const TrainOptions& options,
                   const std::stop_token& stop) {
  const ClassSplit split = split_classes(set.classes(), options.without);
  Samples samples;
  const std::vector<std::size_t> images = retained_images(set, split, samples.labels);
  const Matrix<float> features = network.features(select_images(set, images));
  samples.fill = [&](std::size_t i, float* target) { std::ranges::copy(features.row(i), target); };
  samples.fetch = [&](std::size_t i) {
    prefetch(features.row(i).data(), features.cols() * sizeof(float));
  };
  const NetworkSpec head{
      .name = "head", .channels = features.cols(), .classes = split.retained.size(), .layers = {}};
  const Network trained = fit(head, samples, options, stop, {});
  Network result = network;
  const auto weights = trained.head_weights();
  result.set_head(
      Matrix<float>(weights.rows(), weights.cols(), {weights.flat().begin(), weights.flat().end()}),
      trained.head_bias());
  return result;
}

void ScoreSum::add(std::span<const float> logits, std::uint32_t label) {
  if (label >= logits.size())
    fail(ErrorCode::bad_input, "label {} of row {}: there are {} logits", label, sum_.count,
         logits.size());
  const auto top = std::ranges::max_element(logits);
  if (static_cast<std::size_t>(top - logits.begin()) == label) sum_.accuracy += 1;
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - static_cast<double>(*top));
  sum_.loss += std::log(sum) - (static_cast<double>(logits[label]) - static_cast<double>(*top));
  ++sum_.count;
}

Score ScoreSum::score() const {
  if (sum_.count == 0) return sum_;
  const auto count = static_cast<double>(sum_.count);
  return {.accuracy = sum_.accuracy / count, .loss = sum_.loss / count, .count = sum_.count};
}

Score score(MatrixView<const float> logits, std::span<const std::uint32_t> labels) {
  if (logits.rows() != labels.size())
    fail(ErrorCode::bad_input, "{} labels for {} rows of logits", labels.size(), logits.rows());
  ScoreSum sum;
  for (std::size_t i = 0; i < labels.size(); ++i) sum.add(logits.row(i), labels[i]);
  return sum.score();
}

}  // namespace oubli::nn
