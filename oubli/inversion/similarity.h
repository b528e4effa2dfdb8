#pragma once

#include <cstddef>
#include <span>
#include <vector>

// How much a reconstruction looks like a person: figures for what the eye says.
namespace oubli {

// Linearly to [0, 1], the smallest pixel 0 and the largest 1; a constant image becomes 0.5. This is
// how reconstructions are shown.
[[nodiscard]] std::vector<float> min_max_scaled(std::span<const float> image);

// Pearson's correlation of the pixels, in [-1, 1]; 0 where one of them is constant.
[[nodiscard]] double correlation(std::span<const float> a, std::span<const float> b);

// Structural similarity [Wang, Bovik, Sheikh, Simoncelli 2004]: mean over all 11 x 11 Gaussian
// windows (standard deviation 1.5) that lie inside the image, K1 = 0.01, K2 = 0.03, pixel range 1;
// mean over channels. For images smaller than 11 pixels the window shrinks to the image.
[[nodiscard]] double ssim(std::span<const float> a, std::span<const float> b, std::size_t channels,
                          std::size_t height, std::size_t width);

}  // namespace oubli
