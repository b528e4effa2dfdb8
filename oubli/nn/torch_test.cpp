// The networks of the paper, whole and at their batch sizes, against PyTorch in double precision:
// the same weights must give the same loss, logits and gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "oubli/array/dtype.h"
#include "oubli/base/file.h"
#include "oubli/base/random.h"
#include "oubli/nn/gradient_collector.h"
#include "oubli/nn/images.h"
#include "oubli/nn/kernels.h"
#include "tests/test_paths.h"

namespace oubli::nn {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPython = "/usr/bin/python3";

bool have_torch() {
  static const bool have =
      std::system((std::string(kPython) + " -c 'import torch' 2>/dev/null").c_str()) == 0;
  return have;
}

template <typename T>
void write_raw(const fs::path& path, const std::vector<T>& values) {
  write_file(path, std::as_bytes(std::span(values)));
}

std::vector<double> read_doubles(const fs::path& path) {
  const MappedFile file(path);
  std::vector<double> values(file.bytes().size() / sizeof(double));
  decode(DType::f64, file.bytes(), std::span(values));
  return values;
}

struct Case {
  std::string name;
  NetworkSpec spec;
  std::size_t batch;
};

class Torch : public ::testing::TestWithParam<Case> {};

TEST_P(Torch, SameLossAndGradients) {
  if (!have_torch()) GTEST_SKIP() << "no PyTorch for " << kPython << " (package python3-torch)";
  const auto& [name, spec, batch] = GetParam();
  const fs::path folder = fs::path(::testing::TempDir()) / ("torch-" + name);
  fs::create_directories(folder);

  const SingleThread single;
  const Network network(spec, 11, 3);
  const Shape shape{spec.channels, spec.height, spec.width, false};
  RandomStream random(12, task_id("torch test"));
  std::vector<float> images(batch * shape.size());
  for (float& v : images) v = static_cast<float>(random.uniform());
  std::vector<std::uint32_t> labels(batch);
  for (std::uint32_t& label : labels)
    label = static_cast<std::uint32_t>(random.below(spec.classes));
  nlohmann::json parameters = nlohmann::json::array();
  std::vector<float> all;
  for (const Parameter& p : network.parameters()) {
    parameters.push_back({{"name", p.name}, {"shape", p.shape}, {"trained", p.trained()}});
    all.insert(all.end(), p.values.begin(), p.values.end());
  }
  write_file(folder / "spec.json",
             nlohmann::json{{"network", to_json(spec)}, {"parameters", parameters}}.dump());
  write_raw(folder / "parameters.f32", all);
  write_raw(folder / "images.f32", images);
  write_raw(folder / "labels.u32", labels);
  const std::string command = std::string(kPython) + " " + testing::source_folder() +
                              "/oubli/nn/torch_oracle.py " + folder.string();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;

  Executor executor(compile(spec), batch, Executor::Mode::training);
  ParameterStore store = executor.import_parameters(network.parameters());
  for (std::size_t i = 0; i < batch; ++i)
    to_channels_last(shape, std::span(images).subspan(i * shape.size(), shape.size()),
                     executor.input().data() + i * shape.size());
  executor.prepare(store);
  executor.forward(store);
  const double loss = kernels::cross_entropy(executor.logits(), spec.classes, labels,
                                             executor.logits_gradient().data());
  GradientCollector collector(store);
  executor.backward(store, &collector);

  // Single precision against double, over at most some thousand terms per sum: 1e-5 of the size of
  // the values; a relu whose input rounds to the other side of zero moves a gradient by little, but
  // more than that.
  const auto expected_loss =
      nlohmann::json::parse(read_text_file(folder / "result.json")).at("loss").get<double>();
  EXPECT_NEAR(loss, expected_loss, 1e-5 * (1 + expected_loss));
  const std::vector<double> logits = read_doubles(folder / "logits.f64");
  ASSERT_EQ(logits.size(), executor.logits().size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    ASSERT_NEAR(static_cast<double>(executor.logits()[i]), logits[i], 1e-4) << i;
  const std::vector<double> gradients = read_doubles(folder / "gradients.f64");
  std::size_t at = 0;
  for (const Parameter& ours : executor.export_parameters(collector.gradients())) {
    if (!ours.trained()) continue;
    double distance = 0;
    double norm = 0;
    for (const float g : ours.values) {
      const double theirs = gradients.at(at++);
      distance += (static_cast<double>(g) - theirs) * (static_cast<double>(g) - theirs);
      norm += theirs * theirs;
    }
    EXPECT_LE(std::sqrt(distance), 1e-3 * std::sqrt(norm) + 1e-9) << ours.name;
  }
  EXPECT_EQ(at, gradients.size());
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Networks, Torch,
                         ::testing::Values(Case{"Mlp", mlp_network(), 32},
                                           Case{"Cnn64", cnn_network(64), 32},
                                           Case{"Cnn256Rest", cnn_network(256), 16},
                                           Case{"Cnn1024", cnn_network(1024), 32},
                                           Case{"Residual", residual_network(), 8},
                                           Case{"Inversion", inversion_network(), 32}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace oubli::nn
