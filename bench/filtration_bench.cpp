// The part of bench/filtration.py that is ours: from class means to a new head.
//   filtration_bench files DIR SPACE FORGOTTEN REPEATS
//     of W.npy and means.npy in DIR; writes DIR/ours.npy
//   filtration_bench huge CLASSES FEATURES
//     a made-up head and means, in memory
//   filtration_bench phases CLASSES FEATURES SAMPLES FORGOTTEN
//   filtration_bench spread DIR REPEATS
//     S of method explained, of the rows of x.npy in DIR about 0; writes what it explains of a
//     vector of ones, with a share of 0.07, to DIR/ours.npy
// Prints one JSON object with seconds per phase and the peak resident memory.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "oubli/array/npy.h"
#include "oubli/base/file.h"
#include "oubli/base/random.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/filtration.h"
#include "oubli/filtration/spread.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / (1 << 20);
}

std::vector<std::size_t> first_classes(std::size_t count) {
  std::vector<std::size_t> forget(count);
  for (std::size_t c = 0; c < count; ++c) forget[c] = 2 * c;
  return forget;
}

// Uniform in [-1, 1): as good as normal for timing, and fast enough for a billion numbers.
oubli::Matrix<float> noise(std::size_t rows, std::size_t cols, std::uint64_t task) {
  oubli::Matrix<float> matrix(rows, cols);
  oubli::RandomStream random(1, task);
  for (float& value : matrix.flat())
    value = static_cast<float>(random.next_u32()) * 0x1p-31F - 1.0F;
  return matrix;
}

struct Timing {
  double solve = 0, apply = 0;
  oubli::NewHead head;
  std::string solver;
};

Timing forget(const oubli::HeadView& head, const oubli::Calibration& calibration,
              const std::vector<std::size_t>& classes,
              oubli::Solver solver = oubli::Solver::automatic) {
  Timing timing;
  auto begin = Clock::now();
  const auto filtration = oubli::Filtration::solve(head, calibration, classes, solver);
  timing.solve = seconds_since(begin);
  begin = Clock::now();
  timing.head = filtration.head_filter(head, {}).apply(head);
  timing.apply = seconds_since(begin);
  timing.solver = oubli::name_of(filtration.report().chosen);
  return timing;
}

void print(double means, const Timing& timing) {
  std::printf(
      "{\"means\": %.6f, \"solve\": %.6f, \"apply\": %.6f, \"solver\": \"%s\", \"peak_gib\": "
      "%.3f}\n",
      means, timing.solve, timing.apply, timing.solver.c_str(), peak_gib());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto number = [&](std::size_t i) {
    return std::strtoull(words.at(i).c_str(), nullptr, 10);
  };
  if (words.at(0) == "files") {
    const std::filesystem::path folder = words.at(1);
    const oubli::MappedFile weights_file(folder / "W.npy"), means_file(folder / "means.npy");
    const oubli::SharedTensor weights = oubli::parse_npy(weights_file.bytes(), "W.npy");
    const oubli::SharedTensor means = oubli::parse_npy(means_file.bytes(), "means.npy");
    const oubli::HeadView head{.weights = weights};
    const oubli::Calibration calibration{
        .space = words.at(2) == "logits" ? oubli::Space::logits : oubli::Space::features,
        .means = means};
    // A = W M of random matrices is too badly conditioned for `auto` to take the paper's solver,
    // which is what the formula is to be compared with.
    const auto solver =
        calibration.space == oubli::Space::logits ? oubli::Solver::paper : oubli::Solver::automatic;
    Timing best;
    for (std::size_t repeat = 0; repeat < number(4); ++repeat) {
      Timing timing = forget(head, calibration, first_classes(number(3)), solver);
      if (repeat == 0 || timing.solve + timing.apply < best.solve + best.apply)
        best = std::move(timing);
    }
    oubli::write_npy(folder / "ours.npy", best.head.weights.view("ours"));
    print(0, best);
  } else if (words.at(0) == "huge") {
    const oubli::Matrix<float> W = noise(number(1), number(2), 0),
                               means = noise(number(1), number(2), 1);
    const oubli::HeadView head{.weights = oubli::tensor_view(W.view(), "W")};
    const oubli::Calibration calibration{.means = oubli::tensor_view(means.view(), "means"),
                                         .within_variance = 1.0};
    print(0, forget(head, calibration, {0}));
  } else if (words.at(0) == "phases") {
    const std::size_t classes = number(1), features = number(2), samples = number(3);
    const oubli::Matrix<float> W = noise(classes, features, 0), x = noise(samples, features, 1);
    std::vector<std::uint32_t> labels;
    for (std::size_t n = 0; n < samples; ++n)
      labels.push_back(static_cast<std::uint32_t>(n % classes));
    const auto begin = Clock::now();
    oubli::ClassMeans means(classes, features);
    means.add(x.view(), labels);
    const double gathering = seconds_since(begin);
    const oubli::HeadView head{.weights = oubli::tensor_view(W.view(), "W")};
    const oubli::Calibration calibration{.means = oubli::tensor_view(means.means().view(), "means"),
                                         .within_variance = means.within_variance()};
    print(gathering, forget(head, calibration, first_classes(number(4))));
  } else if (words.at(0) == "spread") {
    const std::filesystem::path folder = words.at(1);
    const oubli::MappedFile file(folder / "x.npy");
    const oubli::SharedTensor x = oubli::parse_npy(file.bytes(), "x.npy");
    const std::vector<std::uint32_t> labels(x.shape[0]);
    const std::vector<double> centre(x.shape[1]);
    const std::vector<std::size_t> retained{0};
    constexpr double kAll = 1e300;  // every row, whatever it costs
    double best = kAll;
    std::optional<oubli::RetainedSpread> spread;
    for (std::size_t repeat = 0; repeat < number(2); ++repeat) {
      const auto begin = Clock::now();
      spread = oubli::RetainedSpread::of_samples(x, labels, retained, centre,
                                                 {.rows = labels.size(), .products = kAll});
      best = std::min(best, seconds_since(begin));
    }
    oubli::Matrix<double> ones(1, centre.size());
    for (double& value : ones.flat()) value = 1;
    const auto begin = Clock::now();
    const oubli::Matrix<double> explained = spread->explain(ones, 0.07);
    oubli::write_npy(folder / "ours.npy",
                     oubli::to_tensor<double>(explained.view()).view("explained"));
    std::printf("{\"spread\": %.6f, \"explain\": %.6f, \"rows\": %zu}\n", best,
                seconds_since(begin), spread->rows());
  } else {
    return 2;
  }
  return 0;
}
