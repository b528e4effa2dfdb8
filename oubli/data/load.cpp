#include "oubli/data/load.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/names.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

// Far above any idx file of images; a compressed file that claims more is refused.
constexpr std::size_t kMostBytes = std::size_t{4} << 30;

std::vector<std::uint8_t> unzip(const fs::path& path) {
  const MappedFile watched(path);
  // As for .npz: enough for any honest file, while a small one cannot ask for a large memory.
  const std::uint64_t most = (std::uint64_t{64} << 20) + 16 * watched.bytes().size();
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) fail(ErrorCode::io, "{}: cannot be opened", path.string());
  std::vector<std::uint8_t> bytes;
  constexpr std::size_t kStep = std::size_t{1} << 16;
  int got = 0;
  do {
    const std::size_t begin = bytes.size();
    bytes.resize(begin + kStep);
    got = gzread(file, bytes.data() + begin, static_cast<unsigned>(kStep));
    bytes.resize(begin + static_cast<std::size_t>(std::max(got, 0)));
  } while (got > 0 && bytes.size() <= most);
  const int closed = gzclose_r(file);
  if (bytes.size() > most)
    fail(ErrorCode::bad_input,
         "{}: unpacks to more than {} bytes, suspiciously many; unpack it first", path.string(),
         most);
  watched.check_unchanged();
  if (got < 0 || closed != Z_OK) fail(ErrorCode::bad_input, "{}: damaged gzip file", path.string());
  return bytes;
}

std::vector<std::uint8_t> read_bytes(const fs::path& path) {
  if (path.extension() == ".gz") return unzip(path);
  const MappedFile file(path);
  const auto* begin = reinterpret_cast<const std::uint8_t*>(file.bytes().data());
  std::vector<std::uint8_t> bytes(begin, begin + file.bytes().size());
  file.check_unchanged();
  return bytes;
}

// The sizes in the header of an idx file of bytes; `bytes` loses the header.
std::vector<std::size_t> take_idx_header(std::vector<std::uint8_t>& bytes, std::size_t dimensions,
                                         const fs::path& path) {
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header || bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 ||
      bytes[3] != dimensions)
    fail(ErrorCode::bad_input, "{}: not an idx file of bytes with {} dimensions", path.string(),
         dimensions);
  std::vector<std::size_t> sizes;
  std::size_t total = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::uint8_t* p = bytes.data() + 4 + 4 * d;
    const std::size_t size =
        std::size_t{p[0]} << 24 | std::size_t{p[1]} << 16 | std::size_t{p[2]} << 8 | p[3];
    if (size != 0 && total > kMostBytes / size)
      fail(ErrorCode::bad_input, "{}: its header claims more than {} bytes", path.string(),
           kMostBytes);
    total *= size;
    sizes.push_back(size);
  }
  if (bytes.size() - header != total)
    fail(ErrorCode::bad_input, "{}: {} bytes after the header, which wants {}", path.string(),
         bytes.size() - header, total);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return sizes;
}

struct Pgm {
  std::size_t width = 0;
  std::size_t height = 0;
  std::span<const std::byte> pixels;
};

Pgm parse_pgm(std::span<const std::byte> bytes, const fs::path& path) {
  const std::string_view text = as_text(bytes);
  if (!text.starts_with("P5"))
    fail(ErrorCode::bad_input, "{}: not a binary PGM image (P5)", path.string());
  std::size_t at = 2;
  const auto space = [&](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  const auto next_number = [&] {
    while (at < text.size() && (space(text[at]) || text[at] == '#')) {
      if (text[at] == '#')
        while (at < text.size() && text[at] != '\n') ++at;
      else
        ++at;
    }
    std::size_t value = 0;
    const std::size_t begin = at;
    while (at < text.size() && at < begin + 6 && text[at] >= '0' && text[at] <= '9')
      value = value * 10 + static_cast<std::size_t>(text[at++] - '0');
    if (at == begin) fail(ErrorCode::bad_input, "{}: damaged PGM header", path.string());
    return value;
  };
  Pgm image;
  image.width = next_number();
  image.height = next_number();
  const std::size_t most = next_number();
  if (most == 0 || most > 255)
    fail(ErrorCode::bad_input, "{}: largest grey value {}, wanted 1 to 255", path.string(), most);
  if (at >= text.size() || !space(text[at]) || bytes.size() - at - 1 != image.width * image.height)
    fail(ErrorCode::bad_input, "{}: its header ({} x {}) does not fit its {} bytes", path.string(),
         image.width, image.height, bytes.size());
  image.pixels = bytes.subspan(at + 1);
  return image;
}

std::vector<fs::path> sorted_entries(const fs::path& folder, bool folders) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (folders ? entry.is_directory() : entry.path().extension() == ".pgm")
      entries.push_back(entry.path());
  if (error) fail(ErrorCode::io, "{}: {}", folder.string(), error.message());
  std::ranges::sort(entries, [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return entries;
}

std::vector<std::string> numbered_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

// The file itself or its compressed form.
fs::path plain_or_gz(const fs::path& path) {
  const fs::path zipped = path.string() + ".gz";
  return !fs::exists(path) && fs::exists(zipped) ? zipped : path;
}

ImageSet load_mnist_like(const fs::path& folder, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  return load_idx(plain_or_gz(folder / (prefix + "-images-idx3-ubyte")),
                  plain_or_gz(folder / (prefix + "-labels-idx1-ubyte")));
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      while (i < a.size() && a[i] == '0') ++i;
      while (j < b.size() && b[j] == '0') ++j;
      std::size_t i_end = i;
      std::size_t j_end = j;
      while (i_end < a.size() && digit(a[i_end])) ++i_end;
      while (j_end < b.size() && digit(b[j_end])) ++j_end;
      if (i_end - i != j_end - j) return i_end - i < j_end - j;
      const int order = a.substr(i, i_end - i).compare(b.substr(j, j_end - j));
      if (order != 0) return order < 0;
      i = i_end;
      j = j_end;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // equal but for leading zeros
}

ImageSet load_idx(const fs::path& images, const fs::path& labels) {
  ImageSet set;
  set.name = images.filename().string();
  set.pixels = read_bytes(images);
  const auto sizes = take_idx_header(set.pixels, 3, images);
  std::vector<std::uint8_t> label_bytes = read_bytes(labels);
  const std::size_t count = take_idx_header(label_bytes, 1, labels)[0];
  if (count != sizes[0])
    fail(ErrorCode::bad_input, "{}: {} labels for the {} images of {}", labels.string(), count,
         sizes[0], images.string());
  set.channels = 1;
  set.height = sizes[1];
  set.width = sizes[2];
  set.labels.assign(label_bytes.begin(), label_bytes.end());
  if (!set.labels.empty())
    set.class_names = numbered_names(*std::ranges::max_element(set.labels) + 1);
  return set;
}

ImageSet load_cifar(std::span<const fs::path> batches) {
  constexpr std::size_t kImage = std::size_t{3} * 32 * 32;
  ImageSet set;
  set.name = "cifar10";
  set.channels = 3;
  set.height = set.width = 32;
  set.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                     "dog",      "frog",       "horse", "ship", "truck"};
  for (const fs::path& path : batches) {
    const std::vector<std::uint8_t> bytes = read_bytes(path);
    if (bytes.empty() || bytes.size() % (kImage + 1) != 0)
      fail(ErrorCode::bad_input, "{}: {} bytes, wanted a multiple of {}", path.string(),
           bytes.size(), kImage + 1);
    for (std::size_t at = 0; at < bytes.size(); at += kImage + 1) {
      if (bytes[at] >= set.classes())
        fail(ErrorCode::bad_input, "{}: label {} of image {}, wanted 0 to 9", path.string(),
             bytes[at], at / (kImage + 1));
      set.labels.push_back(bytes[at]);
      const auto image = bytes.begin() + static_cast<std::ptrdiff_t>(at + 1);
      set.pixels.insert(set.pixels.end(), image, image + kImage);
    }
  }
  return set;
}

ImageSet load_pgm_folder(const fs::path& folder) {
  ImageSet set;
  set.name = folder.filename().string();
  set.channels = 1;
  for (const fs::path& class_folder : sorted_entries(folder, true)) {
    const std::vector<fs::path> images = sorted_entries(class_folder, false);
    if (images.empty()) continue;
    for (const fs::path& path : images) {
      const MappedFile file(path);
      const Pgm image = parse_pgm(file.bytes(), path);
      if (set.labels.empty()) {
        set.height = image.height;
        set.width = image.width;
      } else if (image.height != set.height || image.width != set.width) {
        fail(ErrorCode::bad_input, "{}: {} x {} pixels, the images before it have {} x {}",
             path.string(), image.width, image.height, set.width, set.height);
      }
      const auto* pixels = reinterpret_cast<const std::uint8_t*>(image.pixels.data());
      set.pixels.insert(set.pixels.end(), pixels, pixels + image.pixels.size());
      file.check_unchanged();
      set.labels.push_back(static_cast<std::uint32_t>(set.class_names.size()));
    }
    set.class_names.push_back(class_folder.filename().string());
  }
  if (set.labels.empty())
    fail(ErrorCode::bad_input, "{}: no folders with .pgm images", folder.string());
  return set;
}

const std::vector<std::string>& data_set_names() {
  static const std::vector<std::string> names = {"fashion-mnist", "mnist", "cifar10", "faces"};
  return names;
}

fs::path data_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  if (const std::string folder = variable("OUBLI_DATA"); !folder.empty()) return folder;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "oubli";
  return fs::path(variable("HOME")) / ".cache" / "oubli";
}

ImageSet load_data_set(const std::string& name, Split split) {
  if (std::ranges::find(data_set_names(), name) == data_set_names().end())
    fail(ErrorCode::usage, "no data set '{}'; there are: {}", name,
         fmt::join(data_set_names(), ", "));
  const fs::path folder = data_folder() / name;
  if (!fs::is_directory(folder))
    fail(ErrorCode::missing, "{}: the data set {} is not there; get it with: oubli get-data {}",
         folder.string(), name, name);
  ImageSet set;
  if (name == "cifar10") {
    std::vector<fs::path> batches;
    if (split == Split::train)
      for (int i = 1; i <= 5; ++i) batches.push_back(folder / fmt::format("data_batch_{}.bin", i));
    else
      batches.push_back(folder / "test_batch.bin");
    set = load_cifar(batches);
  } else if (name == "faces") {
    set = load_pgm_folder(folder);
  } else {
    set = load_mnist_like(folder, split);
    if (name == "fashion-mnist")
      set.class_names = {"t-shirt", "trouser", "pullover", "dress", "coat",
                         "sandal",  "shirt",   "sneaker",  "bag",   "ankle-boot"};
  }
  set.name = name;
  return set;
}

}  // namespace oubli
