#include "oubli/experiment/explained_logits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "oubli/array/npy.h"
#include "oubli/base/error.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/explained.h"
#include "oubli/nn/network_file.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

// One file of explained/.
struct ExplainedFile {
  fs::path path;
  double rho;
  MeansSource source;
};

std::vector<ExplainedFile> files_of(const RunFolder& folder, const std::string& id) {
  std::vector<ExplainedFile> files;
  for (const MeansSource source : kMeansSources)
    for (const double rho : folder.config().explain)
      files.push_back({folder.explained(id, rho, source), rho, source});
  return files;
}

// Those of one source follow each other.
void save(std::span<const ExplainedFile> files, const nn::Network& network,
          std::span<const std::size_t> forget, const SamplesOf& samples) {
  std::optional<MeansSource> of;
  Matrix<float> features;
  for (const ExplainedFile& file : files) {
    const ImageSet& images = samples(file.source);
    if (of != file.source) features = network.features(images);
    of = file.source;
    const Tensor tensor = to_tensor<double>(
        explained_logits(network, features.view(), images.labels, forget, file.rho).view());
    write_npy(file.path, tensor.view(file.path.string()));
  }
}

bool is_missing(const ExplainedFile& file) { return !fs::exists(file.path); }

}  // namespace

Matrix<double> explained_logits(const nn::Network& network, MatrixView<const float> features,
                                std::span<const std::uint32_t> labels,
                                std::span<const std::size_t> forget, double rho) {
  const std::size_t classes = network.classes();
  ClassMeans means(classes, features.cols());
  means.add(features, labels);
  const std::span<const float> bias = network.head_bias();
  const HeadView head{.weights = tensor_view<float>(network.head_weights(), "head"),
                      .bias = TensorView{DType::f32, {classes}, std::as_bytes(bias), "bias"}};
  const Calibration calibration{.means = tensor_view<double>(means.means().view(), "class means"),
                                .within_variance = means.within_variance(),
                                .sample = tensor_view<float>(features, "features"),
                                .sample_labels = labels};
  const std::size_t several = forget.size() > 1 ? forget.size() : 0;
  Matrix<double> result(classes + several, classes);
  std::ranges::fill(result.flat(), std::numeric_limits<double>::quiet_NaN());
  const auto explain = [&](std::span<const std::size_t> together, std::size_t first) {
    const Explanation explanation =
        explain_means(head, calibration, split_for_deletion(classes, together), {.explain = rho});
    for (std::size_t n = 0; n < explanation.logits.rows(); ++n)
      std::ranges::copy(explanation.logits.row(n), result.row(first + n).begin());
  };
  for (std::size_t c = 0; c < classes; ++c) explain(std::span(&c, 1), c);
  if (several != 0) explain(forget, classes);
  return result;
}

std::vector<fs::path> save_explained(const RunFolder& folder, const std::string& id,
                                     const nn::Network& network, const SamplesOf& samples) {
  const std::vector<ExplainedFile> files = files_of(folder, id);
  save(files, network, folder.config().forget, samples);
  std::vector<fs::path> paths;
  for (const ExplainedFile& file : files) paths.push_back(file.path);
  return paths;
}

Matrix<double> read_explained(const RunFolder& folder, const std::string& id, double rho,
                              MeansSource source, std::span<const std::size_t> forget) {
  const fs::path path = folder.explained(id, rho, source);
  if (!fs::exists(path))
    fail(ErrorCode::missing,
         "{}: is not there: the network was trained before this was asked for, and not kept as "
         "ONNX; remove trials/{}.json and it is trained again",
         path.string(), id);
  const Matrix<double> all = to_matrix(load_array(path.string()));
  const std::size_t classes = recipe_of(folder.config().experiment).classes;
  const std::size_t several = folder.config().forget.size() > 1 ? folder.config().forget.size() : 0;
  if (all.rows() != classes + several || all.cols() != classes)
    fail(ErrorCode::bad_input, "{}: {} x {}, wanted {} x {}; remove it and run again",
         path.string(), all.rows(), all.cols(), classes + several, classes);
  OUBLI_ASSERT(forget.size() == 1 || std::ranges::equal(forget, folder.config().forget));
  const std::size_t first = forget.size() == 1 ? forget[0] : classes;
  Matrix<double> rows(forget.size(), classes);
  for (std::size_t n = 0; n < forget.size(); ++n)
    std::ranges::copy(all.row(first + n), rows.row(n).begin());
  if (std::ranges::any_of(rows.flat(), [](double v) { return std::isnan(v); }))
    fail(ErrorCode::unfilterable, "{}: too few samples of a class for method explained", id);
  return rows;
}

std::vector<Trial> not_explained(const RunFolder& folder) {
  std::vector<Trial> trials;
  for (Trial& trial : trials_of(folder.config())) {
    if (trial.role != Role::seen) continue;
    if (std::ranges::none_of(files_of(folder, trial.id), is_missing)) continue;
    const auto record = folder.record(trial.id);
    if (record && record->done) trials.push_back(std::move(trial));
  }
  return trials;
}

void explain_kept(const RunFolder& folder, const std::string& id, const SamplesOf& samples) {
  std::vector<ExplainedFile> files = files_of(folder, id);
  std::erase_if(files, [](const ExplainedFile& file) { return !is_missing(file); });
  save(files, nn::load_network(folder.model(id)).network, folder.config().forget, samples);
}

}  // namespace oubli
