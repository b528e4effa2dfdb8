#pragma once

// For tests: a small trained network, its data, and a request.

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "oubli/array/npz.h"
#include "oubli/base/random.h"
#include "oubli/rivals/rival.h"

namespace oubli {

// Four classes of 6 x 6 images, each bright in its own quarter, with much noise.
inline ImageSet quarter_images(std::size_t count, std::uint64_t seed = 1) {
  ImageSet set{.name = "quarters",
               .channels = 1,
               .height = 6,
               .width = 6,
               .pixels = {},
               .labels = {},
               .class_names = {"nw", "ne", "sw", "se"}};
  RandomStream random(seed, task_id("quarters"));
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint32_t>(i % 4);
    set.labels.push_back(label);
    for (std::size_t p = 0; p < 36; ++p) {
      const std::size_t quarter = p / 18 * 2 + (p % 6) / 3;
      set.pixels.push_back(
          static_cast<std::uint8_t>(random.below(170) + (quarter == label ? 80 : 0)));
    }
  }
  return set;
}

inline nn::NetworkSpec small_network() {
  return {.name = "small",
          .channels = 1,
          .height = 6,
          .width = 6,
          .classes = 4,
          .layers = {nn::dense(12), nn::LayerSpec{}}};
}

// A convolution that pads, one that does not, pooling between them, and a dense layer.
inline nn::NetworkSpec small_convolutions() {
  const nn::LayerSpec relu{};
  return {.name = "small-conv",
          .channels = 1,
          .height = 6,
          .width = 6,
          .classes = 4,
          .layers = {nn::conv(4, 3, 1, nn::Padding::same), relu, nn::max_pool(2), nn::conv(6, 2),
                     relu, nn::dense(8), relu}};
}

// The same without the dense layer: the features are a convolution's.
inline nn::NetworkSpec only_convolutions() {
  nn::NetworkSpec spec = small_convolutions();
  spec.layers.resize(spec.layers.size() - 2);
  return spec;
}

struct TestRequest {
  nn::NetworkSpec spec = small_network();
  ImageSet train = quarter_images(1200);
  nn::TrainOptions recipe{.epochs = 6,
                          .batch = 32,
                          .optimizer = {.learning_rate = 5e-3},
                          .seed = 7,
                          .model = 3,
                          .without = {}};
  nn::Network network = nn::train(spec, train, recipe);

  [[nodiscard]] RivalInput input(std::vector<std::size_t> forget = {2}) const {
    return {.network = network,
            .train = train,
            .split = split_for_deletion(4, forget),
            .recipe = recipe};
  }
};

// Images as `forget --data` takes them.
inline void save_images(const ImageSet& set, const std::filesystem::path& path) {
  std::vector<std::int64_t> labels(set.labels.begin(), set.labels.end());
  AtomicFile out(path);
  NpzWriter writer(out);
  writer.add(
      "x",
      {DType::u8, {set.size(), set.height, set.width}, std::as_bytes(std::span(set.pixels)), "x"});
  writer.add("y", {DType::i64, {labels.size()}, std::as_bytes(std::span(labels)), "y"});
  writer.finish();
  out.commit();
}

// One for all tests of a program: none of them changes it.
inline const TestRequest& test_request() {
  static const TestRequest request;
  return request;
}
inline const TestRequest& convolution_request() {
  static const TestRequest request{.spec = small_convolutions()};
  return request;
}

}  // namespace oubli
