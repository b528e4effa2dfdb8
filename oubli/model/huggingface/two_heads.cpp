#include "oubli/model/huggingface/two_heads.h"

#include <fmt/format.h>

#include <algorithm>

#include "oubli/base/error.h"

namespace oubli {
namespace {

std::vector<double> values_of(const TensorView& tensor) {
  std::vector<double> values(tensor.count());
  decode(tensor.dtype, tensor.bytes, values);
  return values;
}

Tensor encoded(DType dtype, std::vector<std::size_t> shape, std::span<const double> values) {
  Tensor tensor = to_tensor(values, dtype);
  tensor.shape = std::move(shape);
  return tensor;
}

// Rows `retained` as they are.
Tensor rows_of(const TensorView& tensor, std::span<const std::size_t> retained) {
  const std::size_t row = tensor.bytes.size() / tensor.shape[0];
  Tensor result{tensor.dtype, tensor.shape, {}};
  result.shape[0] = retained.size();
  for (const std::size_t j : retained) {
    const auto bytes = tensor.bytes.subspan(j * row, row);
    result.bytes.insert(result.bytes.end(), bytes.begin(), bytes.end());
  }
  return result;
}

}  // namespace

TwoHeads::Part TwoHeads::read(const std::string& weights) const {
  Part part;
  part.weights_name = weights;
  part.bias_name = weights.substr(0, weights.size() - std::string_view("weight").size()) + "bias";
  part.weights = file_->read(weights);
  part.bias = file_->read(part.bias_name);
  if (part.weights.rank() != 2 || part.bias.rank() != 1 || !is_float(part.weights.dtype) ||
      part.bias.dtype != part.weights.dtype || part.bias.count() != part.weights.shape[0])
    fail(ErrorCode::bad_input, "{}: {} with {}, wanted a matrix and one number per class",
         part.weights.what, describe(part.weights), describe(part.bias));
  return part;
}

TwoHeads::TwoHeads(const std::filesystem::path& path, std::string first, std::string second)
    : ModelFile(path), file_(ArrayFile::open(path)), first_(read(first)), second_(read(second)) {
  const TensorView& a = first_.weights;
  const TensorView& b = second_.weights;
  if (a.dtype != b.dtype || a.shape != b.shape)
    fail(ErrorCode::unfilterable, "{}: its two heads are {} and {}, wanted two of a kind",
         path.string(), describe(a), describe(b));
  const std::size_t classes = a.shape[0];
  const std::size_t features = a.shape[1];
  std::vector<double> both(2 * a.count());
  const std::vector<double> left = values_of(a);
  const std::vector<double> right = values_of(b);
  for (std::size_t j = 0; j < classes; ++j)
    for (std::size_t i = 0; i < features; ++i) {
      both[2 * j * features + i] = left[j * features + i] / 2;
      both[(2 * j + 1) * features + i] = right[j * features + i] / 2;
    }
  weights_ = encoded(a.dtype, {classes, 2 * features}, both);
  const std::vector<double> halves = values_of(weights_.view(""));
  if (halves != both)
    fail(ErrorCode::unfilterable, "{}: numbers so small that they cannot be halved exactly",
         path.string());
  std::vector<double> mean = values_of(first_.bias);
  const std::vector<double> other = values_of(second_.bias);
  for (std::size_t j = 0; j < classes; ++j) mean[j] = (mean[j] + other[j]) / 2;
  bias_ = encoded(a.dtype, {classes}, mean);
  head_.weights = weights_.view(fmt::format("{}:{}", path.string(), head_name()));
  head_.bias = bias_.view("the mean of both biases");
  validate(head_);
}

std::string TwoHeads::head_name() const {
  return fmt::format("{}, {}", first_.weights_name, second_.weights_name);
}

std::vector<Finding> TwoHeads::findings() const {
  return {{head_name(),
           "are two heads that are averaged; their features are taken side by side, "
           "first those of the first"}};
}

StagedModel TwoHeads::stage(const NewHead& head, std::span<const std::size_t> retained,
                            const std::filesystem::path& path, bool replace) const {
  const std::size_t features = head_.features() / 2;
  const std::vector<double> both = values_of(head.weights.view("the new weights"));
  std::vector<double> left, right;
  for (std::size_t j = 0; j < retained.size(); ++j)
    for (std::size_t i = 0; i < features; ++i) {
      left.push_back(2 * both[2 * j * features + i]);
      right.push_back(2 * both[(2 * j + 1) * features + i]);
    }
  const std::vector<std::size_t> shape{retained.size(), features};
  const Tensor first = encoded(head.weights.dtype, shape, left);
  const Tensor second = encoded(head.weights.dtype, shape, right);
  // Biases that are only fewer stay as they are. New ones are the same in both, so that their mean
  // is what it should be to the last bit.
  const bool fewer = rows_of(*head_.bias, retained).bytes == head.bias->bytes;
  const Tensor first_bias = fewer ? rows_of(first_.bias, retained) : *head.bias;
  const Tensor second_bias = fewer ? rows_of(second_.bias, retained) : *head.bias;
  const std::vector<TensorEdit> edits{{first_.weights_name, first.view("first")},
                                      {first_.bias_name, first_bias.view("first")},
                                      {second_.weights_name, second.view("second")},
                                      {second_.bias_name, second_bias.view("second")}};
  StagedModel staged;
  if (!fewer)
    staged.findings.push_back({fmt::format("{}, {}", first_.bias_name, second_.bias_name),
                               "are the same now: what counts is their mean"});
  staged.files.push_back(std::make_unique<AtomicFile>(path, replace));
  file_->rewrite(*staged.files[0], edits);
  check_unchanged();
  staged.written = std::make_unique<TwoHeads>(staged.files[0]->temporary_path(),
                                              first_.weights_name, second_.weights_name);
  return staged;
}

}  // namespace oubli
