#include "oubli/nn/fold.h"

#include <cmath>
#include <string>

#include "oubli/nn/graph.h"

namespace oubli::nn {
namespace {

// Walks layers and parameters side by side, in the order in which compile() lists parameters.
class Folder {
 public:
  explicit Folder(const std::vector<Parameter>& parameters) : old_(parameters) {}

  std::vector<LayerSpec> sequence(const std::vector<LayerSpec>& layers) {
    std::vector<LayerSpec> result;
    for (const LayerSpec& layer : layers) {
      const bool foldable =
          layer.kind == LayerKind::batch_norm && !result.empty() &&
          (result.back().kind == LayerKind::conv || result.back().kind == LayerKind::dense);
      if (foldable) {
        fold_into(result.back());
        continue;
      }
      LayerSpec copy = layer;
      switch (layer.kind) {
        case LayerKind::conv:
        case LayerKind::dense:
          take(layer.bias ? 2 : 1);
          break;
        case LayerKind::batch_norm:
          take(4);
          break;
        case LayerKind::residual:
          copy.branch = sequence(layer.branch);
          copy.shortcut = sequence(layer.shortcut);
          break;
        default:
          break;
      }
      result.push_back(std::move(copy));
    }
    return result;
  }

  void take(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values_.push_back(old_[next_++].values);
  }

  std::vector<std::vector<float>> values() && { return std::move(values_); }

 private:
  void fold_into(LayerSpec& layer) {
    if (!layer.bias) values_.emplace_back(layer.units, 0.0F);
    layer.bias = true;
    std::vector<float>& bias = values_.back();
    std::vector<float>& weight = values_[values_.size() - 2];
    const std::vector<float>& scale = old_[next_].values;
    const std::vector<float>& shift = old_[next_ + 1].values;
    const std::vector<float>& mean = old_[next_ + 2].values;
    const std::vector<float>& variance = old_[next_ + 3].values;
    next_ += 4;
    const std::size_t row = weight.size() / layer.units;
    for (std::size_t u = 0; u < layer.units; ++u) {
      const double factor =
          static_cast<double>(scale[u]) /
          std::sqrt(static_cast<double>(variance[u]) + static_cast<double>(kBatchNormEpsilon));
      for (std::size_t i = 0; i < row; ++i) {
        float& w = weight[u * row + i];
        w = static_cast<float>(static_cast<double>(w) * factor);
      }
      bias[u] = static_cast<float>((static_cast<double>(bias[u]) - static_cast<double>(mean[u])) *
                                       factor +
                                   static_cast<double>(shift[u]));
    }
  }

  const std::vector<Parameter>& old_;
  std::size_t next_ = 0;
  std::vector<std::vector<float>> values_;
};

}  // namespace

Folded fold_batch_norm(const NetworkSpec& spec, const std::vector<Parameter>& parameters) {
  Folder folder(parameters);
  Folded folded{spec, {}};
  folded.spec.layers = folder.sequence(spec.layers);
  folder.take(2);  // the head
  folded.parameters = compile(folded.spec).parameters;
  std::vector<std::vector<float>> values = std::move(folder).values();
  for (std::size_t p = 0; p < values.size(); ++p)
    folded.parameters[p].values = std::move(values[p]);
  return folded;
}

}  // namespace oubli::nn
