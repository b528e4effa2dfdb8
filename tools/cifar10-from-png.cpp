// cifar10-from-png SHEET.png LABELS.json FIRST OUT.bin: one batch of CIFAR-10 in its binary form
// from a sheet with one image per row (32 x 32 RGB pixels, row after row) and labels FIRST ... of a
// JSON list. Built and run by get-data, which checks the result against the published digests.
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#include <stb_image.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  constexpr int kPixels = 32 * 32;
  int width = 0;
  int images = 0;
  int channels = 0;
  unsigned char* sheet = stbi_load(argv[1], &width, &images, &channels, 3);
  if (sheet == nullptr || width != kPixels) {
    std::fprintf(stderr, "%s: not a sheet of 32 x 32 images\n", argv[1]);
    return 3;
  }
  std::ifstream label_file(argv[2]);
  const auto labels = nlohmann::json::parse(label_file).get<std::vector<int>>();
  const auto first = static_cast<std::size_t>(std::atoi(argv[3]));
  const auto count = static_cast<std::size_t>(images);
  if (first + count > labels.size()) {
    std::fprintf(stderr, "%s: %zu labels, wanted %zu\n", argv[2], labels.size(), first + count);
    return 3;
  }
  std::vector<char> out;
  out.reserve(count * (3 * kPixels + 1));
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<char>(labels[first + i]));
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < kPixels; ++p)
        out.push_back(static_cast<char>(sheet[(i * kPixels + p) * 3 + c]));
  }
  stbi_image_free(sheet);
  std::ofstream file(argv[4], std::ios::binary);
  file.write(out.data(), static_cast<std::streamsize>(out.size()));
  return file.flush() ? 0 : 6;
}
