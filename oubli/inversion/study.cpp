#include "oubli/inversion/study.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "oubli/base/error.h"
#include "oubli/base/progress.h"
#include "oubli/base/workers.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"
#include "oubli/inversion/similarity.h"

namespace oubli {
namespace {

InvertibleModel invertible(const nn::Network& network) {
  const auto row = [](std::span<const float> values) {
    return MatrixView<const float>(values.data(), 1, values.size());
  };
  const auto copy = [](const Matrix<float>& matrix) {
    return std::vector<float>(matrix.flat().begin(), matrix.flat().end());
  };
  return {[=, &network](std::span<const float> image) { return copy(network.logits(row(image))); },
          [=, &network](std::span<const float> image, std::span<const float> dlogits) {
            return copy(network.input_gradient(row(image), row(dlogits)));
          }};
}

// The class means, and what distinguishes each class from the average of them.
struct Faces {
  explicit Faces(std::vector<std::vector<float>> class_means) : means(std::move(class_means)) {
    const std::size_t pixels = means.front().size();
    for (const auto& mean : means) scaled.push_back(min_max_scaled(mean));
    own = means;
    for (std::size_t i = 0; i < pixels; ++i) {
      double average = 0;
      for (const auto& mean : means)
        average += static_cast<double>(mean[i]) / static_cast<double>(means.size());
      for (auto& image : own) image[i] -= static_cast<float>(average);
    }
  }
  std::vector<std::vector<float>> means, scaled, own;
};

Likeness likeness(const Faces& faces, const ImageSet& data, std::span<const float> image,
                  std::uint32_t target, const std::vector<float>* before) {
  Likeness out;
  out.correlation = correlation(image, faces.means[target]);
  out.ssim =
      ssim(min_max_scaled(image), faces.scaled[target], data.channels, data.height, data.width);
  out.own = correlation(image, faces.own[target]);
  out.recognised = true;
  for (std::size_t j = 0; j < faces.own.size(); ++j)
    if (j != target && correlation(image, faces.own[j]) >= out.own) out.recognised = false;
  if (before != nullptr) out.unchanged = correlation(image, *before);
  return out;
}

// Everything about one network.
class Attacker {
 public:
  Attacker(const InversionStudy& study, const ImageSet& data, const Faces& faces,
           std::size_t number)
      : study_(study), data_(data), faces_(faces), number_(number) {}

  void before(const nn::Network& network) {
    for (std::uint32_t target = 0; target < data_.classes(); ++target) {
      before_.push_back(
          invert(invertible(network), InversionGoal::output(target), study_.start, study_.descent));
      add("before", std::nullopt, target, false, before_.back());
    }
  }

  // `network` has lost the output of `forgotten`, or never had it.
  void after(const nn::Network& network, const std::string& state, std::uint32_t forgotten) {
    const InvertibleModel model = invertible(network);
    for (std::uint32_t target = 0; target < data_.classes(); ++target) {
      throw_if_stopped_here();
      const std::size_t output = target > forgotten ? target - 1 : target;
      const InversionGoal goal = target == forgotten ? InversionGoal::cut_output(study_.guess)
                                                     : InversionGoal::output(output, study_.guess);
      add(state, forgotten, target, false, invert(model, goal, study_.start, study_.descent));
    }
    add(state, forgotten, forgotten, true,
        invert(model, InversionGoal::ghost(), study_.start, study_.descent));
  }

  [[nodiscard]] std::vector<Reconstruction> take() { return std::move(found_); }

 private:
  void throw_if_stopped_here() const {
    if (study_.stop.stop_requested()) throw Error(ErrorCode::interrupted, "interrupted");
  }

  void add(const std::string& state, std::optional<std::uint32_t> forgotten, std::uint32_t target,
           bool ghost, std::vector<float> image) {
    Reconstruction r{.network = number_,
                     .state = state,
                     .forgotten = forgotten,
                     .target = target,
                     .ghost = ghost,
                     .image = {},
                     .likeness = likeness(faces_, data_, image, target, &before_[target])};
    if (number_ == 0) r.image = std::move(image);
    found_.push_back(std::move(r));
  }

  const InversionStudy& study_;
  const ImageSet& data_;
  const Faces& faces_;
  std::size_t number_;
  std::vector<std::vector<float>> before_;
  std::vector<Reconstruction> found_;
};

void check(const InversionStudy& study, const ImageSet& data) {
  if (data.classes() < 3)
    fail(ErrorCode::usage, "{}: {} classes; forgetting one must leave at least two", data.name,
         data.classes());
  if (study.start.size() != data.image_size())
    fail(ErrorCode::usage, "the start image has {} pixels, images of {} have {}",
         study.start.size(), data.name, data.image_size());
  for (const std::uint32_t c : study.forget)
    if (c >= data.classes())
      fail(ErrorCode::usage, "class {} does not exist: {} has {}", c, data.name, data.classes());
}

}  // namespace

std::vector<std::vector<float>> class_mean_images(const ImageSet& data) {
  std::vector<std::vector<double>> sums(data.classes(), std::vector<double>(data.image_size()));
  std::vector<double> counts(data.classes());
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto image = data.image(i);
    auto& sum = sums[data.labels[i]];
    for (std::size_t j = 0; j < image.size(); ++j) sum[j] += image[j] / 255.0;
    counts[data.labels[i]] += 1;
  }
  std::vector<std::vector<float>> out(data.classes());
  for (std::size_t c = 0; c < out.size(); ++c) {
    if (counts[c] == 0)
      fail(ErrorCode::bad_input, "{}: class {} has no images", data.name, data.class_names[c]);
    for (const double sum : sums[c]) out[c].push_back(static_cast<float>(sum / counts[c]));
  }
  return out;
}

nn::Network without_class(const nn::Network& network, const ImageSet& data, std::uint32_t forgotten,
                          const Target& target) {
  const Tensor weights = to_tensor<float>(network.head_weights());
  const std::vector<double> bias_values(network.head_bias().begin(), network.head_bias().end());
  const Tensor bias = to_tensor(bias_values, DType::f32);
  HeadView head;
  head.weights = weights.view("head.weight");
  head.bias = bias.view("head.bias");

  const Matrix<float> features = network.features(data);
  ClassMeans means(data.classes(), features.cols());
  means.add(features, data.labels);
  const Tensor mean_tensor = to_tensor<double>(means.means());
  Calibration calibration;
  calibration.means = mean_tensor.view("class means");
  calibration.within_variance = means.within_variance();
  calibration.sample = tensor_view(MatrixView<const float>(features), "features");
  calibration.sample_labels = data.labels;

  const std::array<std::size_t, 1> forget{forgotten};
  // The filters as they were published, whatever the head.
  const FiltrationPlan plan =
      plan_filtration(head, calibration, forget, target, Solver::automatic, Centring::never);
  if (plan.method != target.method)
    fail(ErrorCode::bad_input, "{}: method {} cannot be carried out: {}", data.name,
         name_of(target.method), plan.explanation->too_few);
  const NewHead filtered = plan.filter.apply(head);
  const Matrix<double> wide = to_matrix(filtered.weights.view("new head.weight"));
  Matrix<float> narrow(wide.rows(), wide.cols());
  std::ranges::transform(wide.flat(), narrow.flat().begin(),
                         [](double v) { return static_cast<float>(v); });
  std::vector<float> new_bias(narrow.rows());
  if (filtered.bias)
    std::ranges::transform(to_vector(filtered.bias->view("new head.bias")), new_bias.begin(),
                           [](double v) { return static_cast<float>(v); });
  nn::Network out = network;
  out.set_head(narrow, new_bias);
  return out;
}

InversionResult run_inversion(const InversionStudy& study, const ImageSet& data,
                              const nn::Network* given) {
  check(study, data);
  const Faces faces(class_mean_images(data));
  InversionResult result;
  result.class_means = faces.means;
  result.first_images.resize(data.classes());
  for (std::size_t i = data.size(); i-- > 0;) {
    auto& image = result.first_images[data.labels[i]];
    image.clear();
    for (const std::uint8_t byte : data.image(i)) image.push_back(static_cast<float>(byte) / 255);
  }

  const std::size_t networks = given != nullptr ? 1 : study.networks;
  const bool retrain = study.retrained && given == nullptr;
  std::vector<std::vector<Reconstruction>> found(networks);
  std::vector<double> accuracy(networks);
  Progress progress("networks attacked", networks);
  run_tasks(
      networks, study.workers,
      [&](std::size_t number, unsigned) {
        nn::TrainOptions training = study.training;
        training.model = number;
        const nn::Network network =
            given != nullptr ? *given : train(study.spec, data, training, study.stop);
        accuracy[number] = nn::score(network.logits(data), data.labels).accuracy;
        Attacker attacker(study, data, faces, number);
        attacker.before(network);
        for (const std::uint32_t forgotten : study.forget) {
          for (const Method method : study.methods)
            attacker.after(
                without_class(network, data, forgotten,
                              {.method = method, .seed = training.seed, .model = number}),
                std::string(name_of(method)), forgotten);
          if (retrain) {
            training.without = {forgotten};
            nn::NetworkSpec smaller = study.spec;
            smaller.classes -= 1;
            attacker.after(train(smaller, data, training, study.stop), "retrained", forgotten);
          }
        }
        found[number] = attacker.take();
        progress.step();
      },
      study.stop);
  for (auto& part : found)
    result.reconstructions.insert(result.reconstructions.end(),
                                  std::make_move_iterator(part.begin()),
                                  std::make_move_iterator(part.end()));
  result.accuracy = std::reduce(accuracy.begin(), accuracy.end()) / static_cast<double>(networks);
  return result;
}

}  // namespace oubli
