#include "oubli/rivals/rival.h"

#include <algorithm>
#include <ctime>

#include "oubli/base/enum_names.h"
#include "oubli/base/random.h"
#include "oubli/rivals/curvature.h"
#include "oubli/rivals/dampening.h"
#include "oubli/rivals/filtering.h"
#include "oubli/rivals/projection.h"
#include "oubli/rivals/training.h"

namespace oubli {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A rival with one result.
Rival single(std::string name, std::string stage, Unlearned (*apply)(const RivalInput&)) {
  return {.name = std::move(name),
          .names = {std::move(stage)},
          .apply = [apply](const RivalInput& input) {
            std::vector<Unlearned> results;
            results.push_back(apply(input));
            return results;
          }};
}

}  // namespace

std::vector<Rival> all_rivals() {
  std::vector<Rival> rivals = filtering_rivals();
  rivals.push_back(single("refit", "refit", refit));
  rivals.push_back({"fine-tuning",
                    {"fine-tuning, 1/4 epoch", "fine-tuning, 1 epoch", "fine-tuning, 2 epochs"},
                    fine_tuning});
  rivals.push_back(
      {"ascent", {"gradient ascent", "gradient ascent, transplanted"}, gradient_ascent});
  rivals.push_back(single("random-labels", "random labels", random_labels));
  rivals.push_back({"ssd", {"SSD, alpha 10", "SSD, alpha 3"}, selective_dampening});
  rivals.push_back(single("kodge-roy", "Kodge-Roy", kodge_roy));
  rivals.push_back(single("leace", "LEACE", leace));
  rivals.push_back(single("pour-p", "POUR-P", pour_projection));
  rivals.push_back({"curvature", {"curvature step", "curvature step, guarded"}, curvature_step});
  rivals.push_back({"retraining",
                    {"retraining, 1 epoch", "retraining, 2 epochs", "retraining, 3 epochs"},
                    short_retraining});
  return rivals;
}

std::vector<Rival> rivals_named(std::span<const std::string> names) {
  std::vector<Rival> rivals = all_rivals();
  std::vector<std::string> known;
  for (const Rival& rival : rivals) known.push_back(rival.name);
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end()) fail_unnamed("method", name, known);
  if (!names.empty())
    std::erase_if(rivals, [&](const Rival& rival) {
      return rival.name != "naive" && std::ranges::find(names, rival.name) == names.end();
    });
  return rivals;
}

Meter::Meter() : begin_(thread_seconds()) {}

Unlearned Meter::unlearned(nn::Network network) const {
  return {std::move(network), gradients_, thread_seconds() - begin_};
}

TrainingImages images_of(const RivalInput& input) {
  TrainingImages images;
  for (std::size_t i = 0; i < input.train.size(); ++i)
    (input.split.forgets(input.train.labels[i]) ? images.forgotten : images.retained).push_back(i);
  return images;
}

TrainingImages sample_images(const RivalInput& input, std::size_t per_class) {
  std::vector<std::size_t> all(input.train.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<std::size_t> taken(input.split.classes);
  TrainingImages images;
  for (const std::size_t i : shuffled(all, input, "rival sample")) {
    const std::size_t label = input.train.labels[i];
    if (taken[label]++ >= per_class) continue;
    (input.split.forgets(label) ? images.forgotten : images.retained).push_back(i);
  }
  return images;
}

nn::Network without_outputs(const nn::Network& network, const ClassSplit& split) {
  const auto weights = network.head_weights();
  Matrix<float> kept(split.retained.size(), weights.cols());
  std::vector<float> bias;
  for (std::size_t i = 0; i < split.retained.size(); ++i) {
    std::ranges::copy(weights.row(split.retained[i]), kept.row(i).begin());
    bias.push_back(network.head_bias()[split.retained[i]]);
  }
  nn::Network result = network;
  result.set_head(kept, bias);
  return result;
}

std::uint64_t random_task(const RivalInput& input, const char* purpose, std::size_t round) {
  std::uint64_t request = 0;
  for (const std::size_t c : input.split.forgotten) request = task_id("without", {request, c});
  return task_id(purpose, {input.recipe.model, request, round});
}

std::vector<std::size_t> shuffled(std::span<const std::size_t> images, const RivalInput& input,
                                  const char* purpose, std::size_t round) {
  std::vector<std::size_t> order(images.begin(), images.end());
  RandomStream random(input.recipe.seed, random_task(input, purpose, round));
  random.shuffle(std::span(order));
  return order;
}

}  // namespace oubli
