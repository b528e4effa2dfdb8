#include "oubli/experiment/explained_logits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oubli/array/npy.h"
#include "oubli/base/error.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/explained.h"
#include "oubli/nn/network_file.h"

namespace oubli {

namespace fs = std::filesystem;

Matrix<double> explained_logits(const nn::Network& network, const ImageSet& test,
                                std::span<const std::size_t> forget, double rho) {
  const std::size_t classes = network.classes();
  const Matrix<float> features = network.features(test);
  ClassMeans means(classes, features.cols());
  means.add(features.view(), test.labels);
  const std::span<const float> bias = network.head_bias();
  const HeadView head{.weights = tensor_view<float>(network.head_weights(), "head"),
                      .bias = TensorView{DType::f32, {classes}, std::as_bytes(bias), "bias"}};
  const Calibration calibration{.means = tensor_view<double>(means.means().view(), "class means"),
                                .within_variance = means.within_variance(),
                                .sample = tensor_view<float>(features.view(), "features"),
                                .sample_labels = test.labels};
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
                                     const nn::Network& network, const ImageSet& test) {
  std::vector<fs::path> files;
  for (const double rho : folder.config().explain) {
    files.push_back(folder.explained(id, rho));
    const Tensor tensor =
        to_tensor<double>(explained_logits(network, test, folder.config().forget, rho).view());
    write_npy(files.back(), tensor.view(files.back().string()));
  }
  return files;
}

Matrix<double> read_explained(const RunFolder& folder, const std::string& id, double rho,
                              std::span<const std::size_t> forget) {
  const fs::path path = folder.explained(id, rho);
  if (!fs::exists(path))
    fail(ErrorCode::missing,
         "{}: is not there: the network was trained before method explained was asked for, and not "
         "kept as ONNX; remove trials/{}.json and it is trained again",
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
    const bool whole = std::ranges::all_of(folder.config().explain, [&](double rho) {
      return fs::exists(folder.explained(trial.id, rho));
    });
    if (whole) continue;
    const auto record = folder.record(trial.id);
    if (record && record->done) trials.push_back(std::move(trial));
  }
  return trials;
}

void explain_kept(const RunFolder& folder, const std::string& id, const ImageSet& test) {
  (void)save_explained(folder, id, nn::load_network(folder.model(id)).network, test);
}

}  // namespace oubli
