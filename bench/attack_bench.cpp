// The part of bench/attack.py that is ours.
//   attack_bench attack DIR NAME WORKERS  fits on DIR/x_train.npy, y_train.npy; labels
//                                         DIR/x_test.npy and writes them to DIR/NAME.npy
//   attack_bench ks DIR WORKERS           DIR/seen.npy against DIR/unseen.npy, 1000 directions
//   attack_bench grow NAME POINTS         9 made-up features, 70 % of the points to learn from
//   attack_bench per_image DIR            DIR/pi_seen.npy against DIR/pi_unseen.npy, models x
//                                         samples x classes, sample i of class i % 10; advantages
//                                         to DIR/per_image.npy
//   attack_bench audit WORKERS            60 + 60 models, 4 classes of 500, default attacks
// Prints one JSON object: processor and wall-clock seconds.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "oubli/array/array_file.h"
#include "oubli/array/npy.h"
#include "oubli/attack/attack.h"
#include "oubli/attack/per_image.h"
#include "oubli/audit/kolmogorov_smirnov.h"
#include "oubli/audit/score_figures.h"
#include "oubli/audit/tell_apart.h"
#include "oubli/base/memory.h"

namespace {

using oubli::Matrix;
using oubli::MatrixView;

// Processor time of all threads, and elapsed time.
class Timer {
 public:
  void print(const std::string& more = "") const {
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    std::printf("{\"cpu\": %.4f, \"wall\": %.4f%s}\n", cpu() - cpu_, wall, more.c_str());
  }

 private:
  static double cpu() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double cpu_ = cpu();
};

Matrix<float> load(const std::string& file) {
  return oubli::to_float_matrix(oubli::load_array(file));
}

int attack(const std::string& folder, const std::string& name, unsigned workers) {
  const Matrix<float> x = load(folder + "/x_train.npy"), test = load(folder + "/x_test.npy");
  const auto labels = oubli::to_labels(oubli::load_array(folder + "/y_train.npy"), 2);
  const std::vector<std::uint8_t> y(labels.begin(), labels.end());
  const oubli::Attack which = oubli::value_named<oubli::Attack>(name);
  oubli::RandomStream random(1, 1);
  const Timer timer;
  const auto answers = oubli::labels_of(oubli::run_attack(which, x, y, test, random, workers));
  timer.print();
  oubli::write_npy(folder + "/" + name + ".npy",
                   {oubli::DType::u8, {answers.size()}, std::as_bytes(std::span(answers)), name});
  return 0;
}

int ks(const std::string& folder, unsigned workers) {
  const Matrix<float> seen = load(folder + "/seen.npy"), unseen = load(folder + "/unseen.npy");
  const Matrix<float> directions = load(folder + "/directions.npy");
  const Timer timer;
  const std::vector<double> distances = oubli::directional_ks(seen, unseen, directions, workers);
  double sum = 0;
  for (const double distance : distances) sum += distance;
  timer.print(", \"mean\": " + std::to_string(sum / static_cast<double>(distances.size())));
  return 0;
}

// In KiB, of this program: rusage has that of whoever started it in it.
long peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (long size = 0; word == "VmHWM:" && status >> size) return size;
  return 0;
}

// Rows of all models, stacked.
Matrix<float> load_stacked(const std::string& file, std::size_t models) {
  const oubli::SharedTensor tensor = oubli::load_array(file);
  Matrix<float> rows(models * tensor.shape[1], tensor.shape[2]);
  oubli::decode(tensor.dtype, tensor.bytes, std::span(rows.data(), rows.flat().size()));
  return rows;
}

oubli::Population population_of(const Matrix<float>& rows, std::size_t models) {
  oubli::TensorView view = oubli::tensor_view<float>(rows, "numbers");
  view.shape = {models, rows.rows() / models, rows.cols()};
  return oubli::population_of(view);
}

// One class at a time, as in an audit: 70 of 100 models to learn from, all observers, 1, 10 and 100
// answers.
int per_image(const std::string& folder) {
  constexpr std::size_t kClasses = 10, kModels = 100, kTrain = 70;
  // In memory, as the peer's are.
  const Matrix<float> numbers[2] = {load_stacked(folder + "/pi_seen.npy", kModels),
                                    load_stacked(folder + "/pi_unseen.npy", kModels)};
  const oubli::Population populations[2] = {population_of(numbers[0], kModels),
                                            population_of(numbers[1], kModels)};
  std::vector<std::uint32_t> train, test;
  for (std::uint32_t m = 0; m < populations[0].models; ++m)
    (m < kTrain ? train : test).push_back(m);
  std::vector<double> advantages;
  const auto add = [&](const oubli::PerImageScores& found, const oubli::AnswerGroups& groups) {
    for (const std::size_t answers : {std::size_t{1}, std::size_t{10}, std::size_t{100}}) {
      const auto shares = oubli::right_shares(
          {groups.sums(found.scores[0], answers), groups.sums(found.scores[1], answers)});
      advantages.push_back(oubli::mean_std(shares[0]).mean + oubli::mean_std(shares[1]).mean - 1);
    }
  };
  const Timer timer;
  for (std::size_t label = 0; label < kClasses; ++label) {
    std::vector<std::uint32_t> samples;
    for (std::size_t i = label; i < populations[0].samples; i += kClasses)
      samples.push_back(static_cast<std::uint32_t>(i));
    Matrix<float> rows(samples.size(), populations[0].columns);
    const auto read = [&](std::size_t side, std::uint32_t network) -> MatrixView<const float> {
      oubli::read_finite(populations[side], network, samples, rows);
      return rows;
    };
    const oubli::PerImageFound found = oubli::score_images(
        {read, samples.size(), populations[0].columns, {train, train}, {test, test}});
    const oubli::AnswerGroups groups(samples.size(), 1);
    for (const oubli::NumberScores* scores : {&found.logits, &found.probabilities}) {
      add(scores->pooled, groups);
      add(scores->own, groups);
    }
    add(found.labels, groups);
  }
  timer.print(", \"peak\": " + std::to_string(peak_memory() / 1024));
  oubli::write_npy(
      folder + "/per_image.npy",
      {oubli::DType::f64, {kClasses, 5, 3}, std::as_bytes(std::span(advantages)), "advantages"});
  return 0;
}

// One class of one population: image, model and their interaction.
void make_logits(MatrixView<float> out, std::size_t images, double shift, std::uint64_t side,
                 std::size_t model) {
  oubli::RandomStream effects(1, oubli::task_id("model", {side, model}));
  std::vector<double> offset(out.cols());
  for (double& value : offset) value = effects.normal();
  for (std::size_t i = 0; i < images; ++i) {
    oubli::RandomStream image(2, oubli::task_id("image", {i}));
    const double common = image.normal();
    for (std::size_t j = 0; j < out.cols(); ++j)
      out(i, j) = static_cast<float>(3 * image.normal() + 2 * common + offset[j] +
                                     0.7 * effects.normal() + shift * static_cast<double>(j % 3));
  }
}

int grow(const std::string& name, std::size_t points) {
  const std::size_t models = std::max<std::size_t>(20, points / 2000), images = points / models / 2;
  Matrix<float> x[2];
  std::vector<std::uint8_t> y;
  const std::size_t train = models * 7 / 10;
  for (std::size_t part = 0; part < 2; ++part) {
    const std::size_t begin = part == 0 ? 0 : train, end = part == 0 ? train : models;
    x[part] = Matrix<float>((end - begin) * images * 2, 9);
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t m = begin; m < end; ++m)
        make_logits(x[part].view().middle_rows((side * (end - begin) + m - begin) * images, images),
                    images, side == 0 ? 0.4 : 0, side, m);
      if (part == 0) y.insert(y.end(), train * images, side == 0 ? 1 : 0);
    }
  }
  if (name == "ks") {
    const std::size_t half = x[0].rows() / 2;
    const Matrix<float> directions = oubli::random_directions(100, 9, 1);
    const Timer timer;
    (void)oubli::directional_ks(x[0].view().middle_rows(0, half),
                                x[0].view().middle_rows(half, half), directions);
    timer.print();
    return 0;
  }
  const oubli::Attack which = oubli::value_named<oubli::Attack>(name);
  oubli::RandomStream random(1, 1);
  const Timer timer;
  (void)oubli::run_attack(which, x[0], y, x[1], random);
  timer.print();
  return 0;
}

int audit(unsigned workers) {
  constexpr std::size_t kClasses = 4, kPerClass = 500;
  std::vector<std::uint32_t> labels(kClasses * kPerClass);
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::uint32_t>(i % kClasses);
  const auto population = [&](std::uint64_t side) {
    return oubli::Population{.name = "made",
                             .models = 60,
                             .samples = labels.size(),
                             .columns = 9,
                             .read = [side](std::size_t model, std::span<const std::uint32_t> rows,
                                            MatrixView<float> out) {
                               make_logits(out, rows.size(), side == 0 ? 0.4 : 0, side, model);
                             }};
  };
  oubli::AuditOptions options;
  options.workers = workers;
  const Timer timer;
  (void)oubli::tell_apart(population(0), population(1),
                          {.labels = labels, .classes = kClasses, .forgotten = {1}}, options);
  timer.print();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  oubli::keep_freed_memory();  // as the program does
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto number = [&](std::size_t i) {
    return static_cast<unsigned>(std::strtoul(words.at(i).c_str(), nullptr, 10));
  };
  if (words.size() == 4 && words[0] == "attack") return attack(words[1], words[2], number(3));
  if (words.size() == 3 && words[0] == "ks") return ks(words[1], number(2));
  if (words.size() == 3 && words[0] == "grow") return grow(words[1], number(2));
  if (words.size() == 2 && words[0] == "per_image") return per_image(words[1]);
  if (words.size() == 2 && words[0] == "audit") return audit(number(1));
  std::fprintf(stderr, "attack_bench: see the head of bench/attack_bench.cpp\n");
  return 2;
}
