#include "oubli/rivals/training.h"

#include <algorithm>

#include "oubli/base/random.h"
#include "oubli/rivals/descent.h"

namespace oubli {
namespace {

// Gradient ascent: steps of Adam at the recipe's rate, each on a batch of forgotten samples.
constexpr std::size_t kAscentSteps = 10;
// The transplant: so many retained samples, and as many forgotten ones, per epoch's samples.
constexpr std::size_t kTransplantShare = 20;

std::span<const std::size_t> first_of(const std::vector<std::size_t>& images, std::size_t count) {
  return std::span(images).first(std::min(count, images.size()));
}

// The labels of retained images by their new numbers; 0, unused, for the others.
std::vector<std::uint32_t> new_labels(const RivalInput& input) {
  std::vector<std::uint32_t> labels;
  labels.reserve(input.train.size());
  for (const std::uint32_t label : input.train.labels)
    labels.push_back(static_cast<std::uint32_t>(input.split.new_index(label).value_or(0)));
  return labels;
}

Matrix<float> probabilities(const nn::Network& network, const ImageSet& images) {
  Matrix<float> rows = network.logits(images);
  softmax(rows);
  return rows;
}

// `student` is taught the teacher's answers to forgotten samples and its own to retained ones.
nn::Network transplant(const RivalInput& input, const nn::Network& teacher, Meter& meter) {
  const nn::Network student = without_outputs(input.network, input.split);
  const TrainingImages all = images_of(input);
  const std::size_t count = all.retained.size() / kTransplantShare;
  const std::vector<std::size_t> forgotten = shuffled(all.forgotten, input, "rival transplanted");
  const std::vector<std::size_t> retained = shuffled(all.retained, input, "rival kept");
  std::vector<std::size_t> images;
  std::map<std::size_t, std::size_t> row_of;
  std::vector<float> targets;
  const auto add = [&](std::span<const std::size_t> chosen, const nn::Network& network) {
    const Matrix<float> answers = probabilities(network, select_images(input.train, chosen));
    targets.insert(targets.end(), answers.flat().begin(), answers.flat().end());
    for (const std::size_t i : chosen) {
      row_of.emplace(i, images.size());
      images.push_back(i);
    }
    meter.add_forward(static_cast<double>(chosen.size()));
  };
  add(first_of(forgotten, count), teacher);
  add(first_of(retained, count), student);
  Descent descent(student, input.train, input.recipe.batch, input.recipe.optimizer);
  const Matrix<float> rows(images.size(), student.classes(), targets);
  descent.run(shuffled(images, input, "rival distillation"), soft_loss(rows, row_of), input.stop);
  meter.add_gradients(static_cast<double>(images.size()));
  return descent.network();
}

}  // namespace

std::vector<Unlearned> fine_tuning(const RivalInput& input) {
  Meter meter;
  const std::vector<std::size_t> retained = images_of(input).retained;
  const std::vector<std::uint32_t> labels = new_labels(input);
  const nn::Network start = without_outputs(input.network, input.split);
  Descent descent(start, input.train, input.recipe.batch, input.recipe.optimizer);
  const auto loss = label_loss(labels, start.classes());
  std::vector<Unlearned> results;
  const auto run = [&](std::span<const std::size_t> images) {
    descent.run(images, loss, input.stop);
    meter.add_gradients(static_cast<double>(images.size()));
    results.push_back(meter.unlearned(descent.network()));
  };
  const std::vector<std::size_t> order = shuffled(retained, input, "rival fine-tuning", 0);
  // Whole batches, so that a stop in between changes nothing.
  const std::size_t quarter =
      (order.size() / 4 + input.recipe.batch - 1) / input.recipe.batch * input.recipe.batch;
  const std::size_t middle = std::min(quarter, order.size());
  run(std::span(order).first(middle));
  run(std::span(order).subspan(middle));
  run(shuffled(retained, input, "rival fine-tuning", 1));
  return results;
}

nn::Network ascend(const RivalInput& input, Meter& meter) {
  const std::vector<std::size_t> forgotten =
      shuffled(images_of(input).forgotten, input, "rival ascent");
  const auto images = first_of(forgotten, kAscentSteps * input.recipe.batch);
  Descent descent(input.network, input.train, input.recipe.batch, input.recipe.optimizer);
  descent.run(images, label_loss(input.train.labels, input.network.classes(), -1), input.stop);
  meter.add_gradients(static_cast<double>(images.size()));
  return descent.network();
}

std::vector<Unlearned> gradient_ascent(const RivalInput& input) {
  Meter meter;
  const nn::Network ascended = without_outputs(ascend(input, meter), input.split);
  std::vector<Unlearned> results;
  results.push_back(meter.unlearned(ascended));
  results.push_back(meter.unlearned(ascended));
  nn::Network transplanted = transplant(input, ascended, meter);
  results.back() = meter.unlearned(std::move(transplanted));
  return results;
}

std::vector<std::uint32_t> labels_with_random(const RivalInput& input) {
  std::vector<std::uint32_t> labels = new_labels(input);
  RandomStream random(input.recipe.seed, random_task(input, "rival labels"));
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (input.split.forgets(input.train.labels[i]))
      labels[i] = static_cast<std::uint32_t>(random.below(input.split.retained.size()));
  return labels;
}

Unlearned random_labels(const RivalInput& input) {
  Meter meter;
  const TrainingImages all = images_of(input);
  const std::vector<std::size_t> retained = shuffled(all.retained, input, "rival beside");
  std::vector<std::size_t> images = all.forgotten;
  const auto beside = first_of(retained, all.forgotten.size());
  images.insert(images.end(), beside.begin(), beside.end());
  const std::vector<std::uint32_t> labels = labels_with_random(input);
  const nn::Network start = without_outputs(input.network, input.split);
  Descent descent(start, input.train, input.recipe.batch, input.recipe.optimizer);
  descent.run(shuffled(images, input, "rival relabelled"), label_loss(labels, start.classes()),
              input.stop);
  meter.add_gradients(static_cast<double>(images.size()));
  return meter.unlearned(descent.network());
}

std::vector<Unlearned> short_retraining(const RivalInput& input) {
  Meter meter;
  const std::vector<std::size_t> retained = images_of(input).retained;
  const std::vector<std::uint32_t> labels = new_labels(input);
  nn::NetworkSpec spec = input.network.spec();
  spec.classes = input.split.retained.size();
  const nn::Network fresh(spec, input.recipe.seed, random_task(input, "rival retraining"));
  Descent descent(fresh, input.train, input.recipe.batch, input.recipe.optimizer);
  std::vector<Unlearned> results;
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    descent.run(shuffled(retained, input, "rival epoch", epoch), label_loss(labels, spec.classes),
                input.stop);
    meter.add_gradients(static_cast<double>(retained.size()));
    results.push_back(meter.unlearned(descent.network()));
  }
  return results;
}

}  // namespace oubli
