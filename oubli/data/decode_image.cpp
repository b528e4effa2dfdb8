#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "oubli/base/file.h"
#include "oubli/data/samples.h"

namespace {

// What stb_image may still allocate for the image at hand. It bounds neither what a PNG unpacks to
// nor what a JPEG's coefficients take.
thread_local std::size_t memory_left = 0;

void* bounded_realloc(void* old, std::size_t old_size, std::size_t size) {
  const std::size_t more = size - std::min(size, old_size);
  if (more > memory_left) return nullptr;
  memory_left -= more;
  void* const memory = std::realloc(old, size);
  // What a damaged file leaves undefined is zero, not what was in memory.
  if (memory != nullptr && more > 0) std::memset(static_cast<char*>(memory) + old_size, 0, more);
  return memory;
}

void* bounded_malloc(std::size_t size) { return bounded_realloc(nullptr, 0, size); }

}  // namespace

#define STBI_MALLOC bounded_malloc
#define STBI_REALLOC_SIZED bounded_realloc
#define STBI_FREE std::free
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

namespace oubli {
namespace {

// stb_image 2.27 writes beyond a table if a JPEG's Huffman table promises more than 256 codes, and
// reads beside one if it holds exactly 256 or was never defined (our fuzzing found these). So the
// segments are walked first, as it walks them: markers follow each other without gaps; after a
// start of scan comes data, up to the next FF that is followed by neither 00 nor FF nor a restart
// marker. Error{bad_input} if a table is too large or missing, or the walk breaks.
void require_sound_jpeg(std::span<const std::byte> bytes, const std::string& what) {
  const auto byte = [&](std::size_t at) -> unsigned {
    if (at >= bytes.size()) fail(ErrorCode::bad_input, "{}: a truncated JPEG image", what);
    return std::to_integer<unsigned>(bytes[at]);
  };
  if (byte(0) != 0xFF) return;  // no JPEG
  // stb_image takes FF FF D8 for a beginning too; no file has it.
  if (byte(1) != 0xD8) fail(ErrorCode::bad_input, "{}: a damaged JPEG image", what);
  std::array<bool, 32> defined{};  // Huffman tables: 16 * (0 for DC, 1 for AC) + number
  for (std::size_t at = 2;;) {
    if (byte(at) != 0xFF) fail(ErrorCode::bad_input, "{}: a damaged JPEG image", what);
    while (byte(at) == 0xFF) ++at;
    const unsigned marker = byte(at++);
    if (marker == 0xD9) return;  // end of image
    const std::size_t length = byte(at) * 256 + byte(at + 1);
    if (marker == 0xC4) {
      for (std::size_t table = at + 2; table < at + length;) {
        std::size_t codes = 0;
        for (std::size_t i = 1; i <= 16; ++i) codes += byte(table + i);
        if (codes > 255 || byte(table) >= defined.size())
          fail(ErrorCode::bad_input, "{}: a damaged JPEG image (DHT)", what);
        defined[byte(table)] = true;
        table += 17 + codes;
      }
    }
    if (marker == 0xDA) {
      const std::size_t components = byte(at + 2), after = at + 3 + 2 * components;
      const bool dc = byte(after) == 0, ac = byte(after + 1) != 0;  // the coefficients it holds
      for (std::size_t i = 0; i < components; ++i) {
        const unsigned tables = byte(at + 4 + 2 * i);
        if ((dc && !defined[tables / 16]) || (ac && !defined[16 + tables % 16]))
          fail(ErrorCode::bad_input, "{}: a damaged JPEG image (no DHT)", what);
      }
    }
    at += length;
    if (marker != 0xDA) continue;
    while (byte(at) != 0xFF || byte(at + 1) == 0 || byte(at + 1) == 0xFF ||
           (byte(at + 1) >= 0xD0 && byte(at + 1) <= 0xD7))
      ++at;
  }
}

}  // namespace

Sample decode_image(const std::filesystem::path& path, std::uint64_t spare_bytes) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.empty() || bytes.size() > std::size_t{std::numeric_limits<int>::max()}) {
    fail(ErrorCode::bad_input, "{}: {} bytes, wanted an image file", path.string(), bytes.size());
  }
  require_sound_jpeg(bytes, path.string());
  int width = 0;
  int height = 0;
  int channels = 0;
  const auto* const data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int size = static_cast<int>(bytes.size());
  const std::uint64_t most = spare_bytes + 16 * bytes.size();
  memory_left = (std::size_t{1} << 20) + 4 * most;
  if (stbi_info_from_memory(data, size, &width, &height, &channels) != 0 &&
      std::uint64_t(width) * std::uint64_t(height) * 4 > most)
    fail(ErrorCode::bad_input, "{}: {} x {} pixels in {} bytes, suspiciously many", path.string(),
         width, height, bytes.size());
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(data, size, &width, &height, &channels, 0), stbi_image_free);
  if (!pixels) {
    fail(ErrorCode::bad_input, "{}: not an image that can be read (PNG, JPEG, BMP, PGM): {}",
         path.string(), stbi_failure_reason());
  }
  file.check_unchanged();
  Sample sample;
  sample.image = true;
  sample.what = path.string();
  sample.height = static_cast<std::size_t>(height);
  sample.width = static_cast<std::size_t>(width);
  // Transparency is dropped: grey + alpha and colour + alpha.
  const auto stored = static_cast<std::size_t>(channels);
  sample.channels = stored >= 3 ? 3 : 1;
  const std::size_t count = sample.height * sample.width;
  if (stored == sample.channels) {
    sample.pixels.assign(pixels.get(), pixels.get() + count * stored);
    return sample;
  }
  sample.pixels.resize(count * sample.channels);
  for (std::size_t i = 0; i < count; ++i)
    std::copy_n(pixels.get() + i * stored, sample.channels,
                sample.pixels.data() + i * sample.channels);
  return sample;
}

}  // namespace oubli
