#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// Who was trained on what.
enum class Role {
  seen,    // on everything; unlearned afterwards
  unseen,  // without the forgotten classes: what unlearning should look like
  second,  // a second batch of unseen: the floor, retrained against retrained
};
[[nodiscard]] std::string_view name_of(Role role);

// One network to train. Its id names its files and addresses its random numbers.
struct Trial {
  std::string id;  // "cnn256-unseen-0-017": architecture, population, classes left out, model
  std::size_t hidden = 0;
  Role role = Role::seen;
  std::vector<std::size_t> without;  // classes left out of training, ascending; empty for seen
  std::size_t model = 0;
};

// The networks of one size p.
struct Part {
  std::size_t hidden = 0;  // units before the head: 50 for the MLP, p for the CNN
  std::size_t models = 0;  // seen, and as many unseen
  std::size_t second = 0;  // second batch of unseen; without one there is no floor
  friend bool operator==(const Part&, const Part&) = default;
};

// How many samples of each class estimate its mean prediction; none: all there are.
using SampleCount = std::optional<std::size_t>;
inline constexpr SampleCount kAllSamples = std::nullopt;
// "10", "all"; Error{usage} if it is neither a whole number from 1 nor "all".
[[nodiscard]] std::string to_text(SampleCount samples);
[[nodiscard]] SampleCount sample_count_of(const std::string& text);

// What a run folder is to hold. It may grow (more models, more sizes), never change.
struct RunConfig {
  std::string experiment;  // mnist, fashion-mnist, cifar10, faces
  std::uint64_t seed = 1;
  std::size_t epochs = 0;           // of every network; 0 is the recipe's number
  std::vector<std::size_t> forget;  // ascending
  std::vector<Part> parts;          // by hidden, ascending
  // Models per population for forgetting each single class in turn; 0: not asked for.
  std::size_t each_class = 0;
  std::vector<SampleCount> samples;  // of normalization, ascending
  std::vector<double> explain = {};  // rho of method explained, ascending
  // How many splits of the networks the attacks of the paper's tables are tried in.
  std::size_t splits = 1;
  bool keep_models = false;

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

void to_json(nlohmann::json& out, const RunConfig& config);
void from_json(const nlohmann::json& in, RunConfig& config);

// The facts of an experiment that the paper fixes.
struct Recipe {
  std::string data_set;      // for load_data_set
  std::string architecture;  // mlp, cnn, residual
  std::size_t classes = 10;
  std::size_t epochs = 6;
  std::size_t batch = 32;
  std::vector<std::size_t> hidden;  // sizes of the paper, the main one first
  std::vector<std::size_t> forget;  // classes of the paper
  std::size_t models = 100;
  std::size_t attack_images = 150;           // test images per model and class an attack sees
  std::size_t attack_images_retained = 150;  // of retained classes
};
// Error{usage} naming the four experiments if there is none of that name.
[[nodiscard]] const Recipe& recipe_of(std::string_view experiment);

// The union of what a run folder holds and what is asked for now. Error{usage} if they contradict
// each other (experiment, seed, epochs, forgotten classes).
[[nodiscard]] RunConfig merge(const RunConfig& stored, const RunConfig& wanted);

// Every trial, in the order in which they are to run: model by model over all populations, so that
// a run cut short is balanced; each class in turn comes last.
[[nodiscard]] std::vector<Trial> trials_of(const RunConfig& config);

// The id of one trial.
[[nodiscard]] std::string trial_id(const RunConfig& config, std::size_t hidden, Role role,
                                   std::span<const std::size_t> without, std::size_t model);
// The number that addresses a trial's random numbers, from everything but its id's spelling.
[[nodiscard]] std::uint64_t trial_number(const Trial& trial);

}  // namespace oubli
