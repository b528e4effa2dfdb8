#pragma once

// For tests only: the forward pass in double, in the plainest possible loops, channels first. It
// shares no code with the executor but the spec.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "oubli/nn/network.h"

namespace oubli::nn::reference {

struct Images {
  std::size_t count = 0;
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<double> values;

  Images() = default;
  Images(std::size_t n, std::size_t c, std::size_t h, std::size_t w)
      : count(n), channels(c), height(h), width(w), values(n * c * h * w) {}
  double& at(std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    return values[((n * channels + c) * height + y) * width + x];
  }
  [[nodiscard]] double at(std::size_t n, std::size_t c, std::size_t y, std::size_t x) const {
    return values[((n * channels + c) * height + y) * width + x];
  }
};

using Weights = std::map<std::string, std::vector<double>>;

class Forward {
 public:
  Forward(const NetworkSpec& spec, const Weights& weights, bool training)
      : spec_(spec), weights_(weights), training_(training) {}

  [[nodiscard]] Images logits(const Images& images) const {
    LayerSpec head;
    head.kind = LayerKind::dense;
    head.units = spec_.classes;
    return layer(head, features(images), "head");
  }
  [[nodiscard]] Images features(const Images& images) const {
    return sequence(spec_.layers, images, "layers");
  }
  [[nodiscard]] double loss(const Images& images, const std::vector<std::uint32_t>& labels) const {
    const Images z = logits(images);
    double total = 0;
    for (std::size_t n = 0; n < z.count; ++n) {
      double sum = 0;
      for (std::size_t c = 0; c < z.channels; ++c) sum += std::exp(z.at(n, c, 0, 0));
      total += std::log(sum) - z.at(n, labels[n], 0, 0);
    }
    return total / static_cast<double>(z.count);
  }

 private:
  [[nodiscard]] Images sequence(const std::vector<LayerSpec>& layers, Images x,
                                const std::string& path) const {
    for (std::size_t i = 0; i < layers.size(); ++i)
      x = layer(layers[i], x, path + "." + std::to_string(i));
    return x;
  }

  [[nodiscard]] Images layer(const LayerSpec& l, const Images& x, const std::string& path) const {
    switch (l.kind) {
      case LayerKind::dense:
        return dense(l, x, path);
      case LayerKind::conv:
        return window(l, x, path, l.units);
      case LayerKind::max_pool:
        return window(l, x, path, x.channels);
      case LayerKind::global_max_pool:
      case LayerKind::global_average_pool:
        return global(l, x);
      case LayerKind::batch_norm:
        return batch_norm(x, path);
      case LayerKind::relu:
      case LayerKind::sigmoid: {
        Images y = x;
        for (double& v : y.values)
          v = l.kind == LayerKind::relu ? std::max(0.0, v) : 1 / (1 + std::exp(-v));
        return y;
      }
      case LayerKind::residual: {
        Images y = sequence(l.branch, x, path + ".branch");
        const Images other = sequence(l.shortcut, x, path + ".shortcut");
        for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += other.values[i];
        return y;
      }
    }
    return x;
  }

  [[nodiscard]] Images dense(const LayerSpec& l, const Images& x, const std::string& path) const {
    const std::vector<double>& w = weights_.at(path + ".weight");
    const std::size_t inputs = x.channels * x.height * x.width;
    Images y(x.count, l.units, 1, 1);
    for (std::size_t n = 0; n < x.count; ++n)
      for (std::size_t u = 0; u < l.units; ++u) {
        double sum = l.bias ? weights_.at(path + ".bias")[u] : 0;
        for (std::size_t i = 0; i < inputs; ++i)
          sum += w[u * inputs + i] * x.values[n * inputs + i];
        y.at(n, u, 0, 0) = sum;
      }
    return y;
  }

  // Convolution or maximum over windows. TensorFlow's `same`: output = ceil(input / stride), total
  // padding max((output - 1) stride + kernel - input, 0), its smaller half first.
  [[nodiscard]] Images window(const LayerSpec& l, const Images& x, const std::string& path,
                              std::size_t channels) const {
    const auto k = static_cast<long>(l.kernel);
    const auto s = static_cast<long>(l.stride);
    const auto size = [&](std::size_t in) {
      const auto n = static_cast<long>(in);
      return l.padding == Padding::same ? (n + s - 1) / s : (n - k) / s + 1;
    };
    const auto first = [&](std::size_t in) {
      return l.padding == Padding::same
                 ? std::max(0L, (size(in) - 1) * s + k - static_cast<long>(in)) / 2
                 : 0L;
    };
    Images y(x.count, channels, static_cast<std::size_t>(size(x.height)),
             static_cast<std::size_t>(size(x.width)));
    for (std::size_t n = 0; n < y.count; ++n)
      for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t oy = 0; oy < y.height; ++oy)
          for (std::size_t ox = 0; ox < y.width; ++ox) {
            double sum = l.kind == LayerKind::conv && l.bias ? weights_.at(path + ".bias")[c] : 0;
            double best = -1e300;
            for (long ky = 0; ky < k; ++ky)
              for (long kx = 0; kx < k; ++kx) {
                const long iy = static_cast<long>(oy) * s + ky - first(x.height);
                const long ix = static_cast<long>(ox) * s + kx - first(x.width);
                if (iy < 0 || ix < 0 || iy >= static_cast<long>(x.height) ||
                    ix >= static_cast<long>(x.width))
                  continue;
                const auto uy = static_cast<std::size_t>(iy);
                const auto ux = static_cast<std::size_t>(ix);
                if (l.kind == LayerKind::max_pool) {
                  best = std::max(best, x.at(n, c, uy, ux));
                  continue;
                }
                const std::vector<double>& w = weights_.at(path + ".weight");
                for (std::size_t i = 0; i < x.channels; ++i)
                  sum += x.at(n, i, uy, ux) *
                         w[((c * x.channels + i) * l.kernel + static_cast<std::size_t>(ky)) *
                               l.kernel +
                           static_cast<std::size_t>(kx)];
              }
            y.at(n, c, oy, ox) = l.kind == LayerKind::max_pool ? best : sum;
          }
    return y;
  }

  [[nodiscard]] static Images global(const LayerSpec& l, const Images& x) {
    Images y(x.count, x.channels, 1, 1);
    for (std::size_t n = 0; n < x.count; ++n)
      for (std::size_t c = 0; c < x.channels; ++c) {
        double best = -1e300;
        double sum = 0;
        for (std::size_t iy = 0; iy < x.height; ++iy)
          for (std::size_t ix = 0; ix < x.width; ++ix) {
            best = std::max(best, x.at(n, c, iy, ix));
            sum += x.at(n, c, iy, ix);
          }
        y.at(n, c, 0, 0) = l.kind == LayerKind::global_max_pool
                               ? best
                               : sum / static_cast<double>(x.height * x.width);
      }
    return y;
  }

  [[nodiscard]] Images batch_norm(const Images& x, const std::string& path) const {
    Images y = x;
    const auto rows = static_cast<double>(x.count * x.height * x.width);
    for (std::size_t c = 0; c < x.channels; ++c) {
      double mean = weights_.at(path + ".mean")[c];
      double variance = weights_.at(path + ".variance")[c];
      const auto each = [&](const auto& body) {
        for (std::size_t n = 0; n < x.count; ++n)
          for (std::size_t iy = 0; iy < x.height; ++iy)
            for (std::size_t ix = 0; ix < x.width; ++ix) body(n, iy, ix);
      };
      if (training_) {
        mean = variance = 0;
        each([&](auto n, auto iy, auto ix) { mean += x.at(n, c, iy, ix) / rows; });
        each([&](auto n, auto iy, auto ix) {
          variance += (x.at(n, c, iy, ix) - mean) * (x.at(n, c, iy, ix) - mean) / rows;
        });
      }
      each([&](auto n, auto iy, auto ix) {
        y.at(n, c, iy, ix) = (x.at(n, c, iy, ix) - mean) / std::sqrt(variance + 1e-3) *
                                 weights_.at(path + ".scale")[c] +
                             weights_.at(path + ".shift")[c];
      });
    }
    return y;
  }

  const NetworkSpec& spec_;
  const Weights& weights_;
  bool training_;
};

}  // namespace oubli::nn::reference
