#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_GIF
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_PIC
#define STBI_NO_PSD
#define STBI_NO_TGA
#define STBI_MAX_DIMENSIONS 32768
#include <stb_image.h>

#include <limits>
#include <memory>

#include "oubli/base/file.h"
#include "oubli/data/samples.h"

namespace oubli {

Sample decode_image(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.empty() || bytes.size() > std::size_t{std::numeric_limits<int>::max()}) {
    fail(ErrorCode::bad_input, "{}: {} bytes, wanted an image file", path.string(), bytes.size());
  }
  int width = 0;
  int height = 0;
  int channels = 0;
  const auto* const data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  // A few bytes may promise any size; the memory must stay in proportion to what is there.
  if (stbi_info_from_memory(data, size, &width, &height, &channels) != 0 &&
      std::uint64_t(width) * std::uint64_t(height) * 4 >
          (std::uint64_t{64} << 20) + 16 * bytes.size())
    fail(ErrorCode::bad_input, "{}: {} x {} pixels in {} bytes, suspiciously many", path.string(),
         width, height, bytes.size());
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(data, size, &width, &height, &channels, 0), stbi_image_free);
  if (!pixels) {
    fail(ErrorCode::bad_input, "{}: not an image that can be read (PNG, JPEG, BMP, PGM): {}",
         path.string(), stbi_failure_reason());
  }
  Sample sample;
  sample.image = true;
  sample.what = path.string();
  sample.height = static_cast<std::size_t>(height);
  sample.width = static_cast<std::size_t>(width);
  // Transparency is dropped: grey + alpha and colour + alpha.
  const auto stored = static_cast<std::size_t>(channels);
  sample.channels = stored >= 3 ? 3 : 1;
  const std::size_t count = sample.height * sample.width;
  sample.pixels.resize(count * sample.channels);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < sample.channels; ++c) {
      sample.pixels[i * sample.channels + c] = pixels.get()[i * stored + c];
    }
  }
  return sample;
}

}  // namespace oubli
