#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Contact sheets of images as PNG.
namespace oubli {

// A grid of equal tiles with a word over each column and before each row.
struct Sheet {
  struct Tile {
    std::vector<float> pixels;  // channels x height x width in [0, 1]; empty: nothing is drawn
    bool framed = false;        // the class being forgotten
  };
  std::size_t channels = 1;  // 1 or 3
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::string> column_titles;
  std::vector<std::string> row_titles;
  std::vector<std::vector<Tile>> rows;       // as many tiles in each row as there are column titles
  std::vector<std::size_t> gap_before = {};  // columns with a wider gap before them
};

// `scale` pixels of the picture per pixel of a tile, across and down.
[[nodiscard]] std::string to_png(const Sheet& sheet, std::size_t scale = 2);

// An RGB picture, 3 bytes per pixel, row by row.
[[nodiscard]] std::string encode_png(std::size_t width, std::size_t height,
                                     std::span<const std::uint8_t> rgb);

}  // namespace oubli
