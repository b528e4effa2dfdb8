#include "oubli/data/samples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "oubli/array/array_file.h"
#include "oubli/array/labels.h"
#include "oubli/data/load.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

bool is_image_name(const fs::path& path) {
  constexpr std::array<std::string_view, 8> kEndings{".png", ".jpg", ".jpeg", ".pgm",
                                                     ".ppm", ".pnm", ".bmp",  ".jpe"};
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

class FolderSource final : public SampleSource {
 public:
  explicit FolderSource(const fs::path& folder) : SampleSource(folder.string()) {
    for (const std::string& name : class_folders(folder)) {
      const fs::path path = folder / name;
      std::vector<fs::path> images;
      for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
        if (entry.is_regular_file() && is_image_name(entry.path())) images.push_back(entry.path());
      }
      if (images.empty()) {
        fail(ErrorCode::bad_input, "{}: no images in this class's folder (PNG, JPEG, PGM, BMP)",
             path.string());
      }
      std::ranges::sort(images);
      labels_.insert(labels_.end(), images.size(), static_cast<std::uint32_t>(class_names_.size()));
      files_.insert(files_.end(), images.begin(), images.end());
      class_names_.push_back(name);
    }
    if (files_.empty()) {
      fail(ErrorCode::bad_input, "{}: wanted one subfolder of images per class, found none",
           folder.string());
    }
  }

  [[nodiscard]] Sample read(std::size_t index) const override {
    return decode_image(files_.at(index));
  }
};

// What another source holds, some classes left out.
class PartOf final : public SampleSource {
 public:
  PartOf(std::unique_ptr<SampleSource> whole, std::span<const std::string> leave_out)
      : SampleSource(whole->name()), whole_(std::move(whole)) {
    std::vector<std::optional<std::uint32_t>> places;  // by the class's number in the whole
    for (const std::string& name : whole_->class_names()) {
      const bool out = std::ranges::find(leave_out, name) != leave_out.end();
      places.push_back(out ? std::nullopt
                           : std::optional(static_cast<std::uint32_t>(class_names_.size())));
      if (!out) class_names_.push_back(name);
    }
    const bool file_each = whole_->files().size() == whole_->size();
    for (std::size_t i = 0; i < whole_->size(); ++i) {
      const auto place = places.at(whole_->labels()[i]);
      if (!place) continue;
      labels_.push_back(*place);
      indices_.push_back(i);
      if (file_each) files_.push_back(whole_->files()[i]);
    }
    if (!file_each) files_.assign(whole_->files().begin(), whole_->files().end());
    mapped_.assign(whole_->mapped().begin(), whole_->mapped().end());
    if (labels_.empty())
      fail(ErrorCode::bad_input, "{}: no class of the model among its classes", name());
  }

  [[nodiscard]] Sample read(std::size_t index) const override {
    return whole_->read(indices_.at(index));
  }

 private:
  std::unique_ptr<SampleSource> whole_;
  std::vector<std::size_t> indices_;
};

class SetSource final : public SampleSource {
 public:
  SetSource(const std::string& name, Split split)
      : SampleSource(name), set_(load_data_set(name, split)) {
    labels_ = set_.labels;
    class_names_ = set_.class_names;
  }

  [[nodiscard]] Sample read(std::size_t index) const override {
    Sample sample;
    sample.image = true;
    sample.what = fmt::format("{} image {}", name(), index);
    sample.height = set_.height;
    sample.width = set_.width;
    sample.channels = set_.channels;
    sample.pixels.resize(set_.image_size());
    const std::span<const std::uint8_t> planes = set_.image(index);
    const std::size_t count = set_.height * set_.width;
    for (std::size_t c = 0; c < set_.channels; ++c) {
      for (std::size_t i = 0; i < count; ++i)
        sample.pixels[i * set_.channels + c] = planes[c * count + i];
    }
    return sample;
  }

 private:
  ImageSet set_;
};

class ArraySource final : public SampleSource {
 public:
  explicit ArraySource(const fs::path& path)
      : SampleSource(path.string()), file_(ArrayFile::open(path)) {
    for (const char* name : {"x", "y"}) (void)file_->at(name);
    x_ = file_->read("x");
    const SharedTensor y = file_->read("y");
    if (y.rank() > 1) positions_.assign(y.shape.begin() + 1, y.shape.end());
    std::erase(positions_, std::size_t{1});  // n x 1 is one label for each
    labels_ = to_row_labels(y, std::size_t{1} << 31);
    if (x_.rank() < 2 || labels_.empty() || x_.shape[0] != y.shape[0]) {
      fail(ErrorCode::bad_input,
           "{}: x is {} and y {}, wanted as many rows of x as labels, or labels of as many samples",
           path.string(), describe(x_), describe(y));
    }
    files_ = {path};
    mapped_ = {x_.file};
    const std::vector<std::size_t>& shape = x_.shape;
    // Bytes in the shape of images are images; everything else is taken as it is.
    const auto is_channels = [](std::size_t n) { return n == 1 || n == 3; };
    if (x_.dtype == DType::u8 && shape.size() == 3) layout_ = Layout::grey;
    if (x_.dtype == DType::u8 && shape.size() == 4 && is_channels(shape[3]))
      layout_ = Layout::channels_last;
    if (x_.dtype == DType::u8 && shape.size() == 4 && !is_channels(shape[3]) &&
        is_channels(shape[1])) {
      layout_ = Layout::channels_first;
    }
  }

  [[nodiscard]] Sample read(std::size_t index) const override {
    Sample sample;
    sample.what = fmt::format("{}:x row {}", name(), index);
    const std::size_t size = x_.bytes.size() / x_.shape[0];
    if (read_since_.fetch_add(size) > kReadAtOnce) {
      read_since_ = 0;
      x_.release();
    }
    const std::span<const std::byte> bytes = x_.bytes.subspan(index * size, size);
    const std::vector<std::size_t> shape(x_.shape.begin() + 1, x_.shape.end());
    if (layout_ == Layout::numbers) {
      sample.array = {x_.dtype, shape, {bytes.begin(), bytes.end()}};
      return sample;
    }
    sample.image = true;
    const bool first = layout_ == Layout::channels_first;
    sample.channels = layout_ == Layout::grey ? 1 : shape[first ? 0 : 2];
    sample.height = shape[first ? 1 : 0];
    sample.width = shape[first ? 2 : 1];
    const std::size_t count = sample.height * sample.width;
    sample.pixels.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t from = first ? (i % sample.channels) * count + i / sample.channels : i;
      sample.pixels[i] = std::to_integer<std::uint8_t>(bytes[from]);
    }
    return sample;
  }

 private:
  enum class Layout { numbers, grey, channels_last, channels_first };
  std::unique_ptr<ArrayFile> file_;
  SharedTensor x_;
  Layout layout_ = Layout::numbers;
  // Rows of a mapped array stay in memory no longer than it takes to read so many bytes.
  static constexpr std::size_t kReadAtOnce = std::size_t{4} << 20;
  mutable std::atomic<std::size_t> read_since_{0};
};

}  // namespace

namespace {

std::unique_ptr<SampleSource> open_whole(const std::string& where) {
  if (fs::is_directory(where)) return std::make_unique<FolderSource>(where);
  if (fs::is_regular_file(where)) return std::make_unique<ArraySource>(where);
  const std::size_t colon = where.find(':');
  const std::string name = where.substr(0, colon);
  const std::string split = colon == std::string::npos ? "test" : where.substr(colon + 1);
  const std::vector<std::string>& known = data_set_names();
  if (std::ranges::find(known, name) == known.end() || (split != "test" && split != "train")) {
    fail(ErrorCode::usage,
         "--data {}: no such folder, .npz file or data set; wanted a folder with one subfolder of "
         "images per "
         "class, an .npz file with x and y, or one of {}",
         where, fmt::join(known, ", "));
  }
  return std::make_unique<SetSource>(name, split == "train" ? Split::train : Split::test);
}

}  // namespace

std::unique_ptr<SampleSource> SampleSource::open(const std::string& where,
                                                 std::span<const std::string> leave_out) {
  // A slash at the end would leave the folder without a name.
  std::string path = where;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  auto source = open_whole(path);
  const bool any = std::ranges::any_of(leave_out, [&](const std::string& name) {
    return std::ranges::find(source->class_names(), name) != source->class_names().end();
  });
  return any ? std::make_unique<PartOf>(std::move(source), leave_out) : std::move(source);
}

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<fs::path> classes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().front() != '.')
      classes.push_back(entry.path());
  std::ranges::sort(classes);
  std::vector<std::string> names;
  for (const fs::path& path : classes) names.push_back(path.filename().string());
  return names;
}

namespace {

// Where the classes called `names` stand among a model's: by name or, if no name fits and there are
// equally many, in order.
std::vector<std::optional<std::uint32_t>> places_of(std::span<const std::string> names,
                                                    std::size_t classes,
                                                    std::span<const std::string> model_names,
                                                    std::string& how) {
  std::map<std::string_view, std::uint32_t> by_name;
  for (std::size_t i = 0; i < model_names.size(); ++i)
    by_name.emplace(model_names[i], static_cast<std::uint32_t>(i));
  std::vector<std::optional<std::uint32_t>> places(names.size());
  bool any = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = by_name.find(names[i]);
    if (found == by_name.end()) continue;
    places[i] = found->second;
    any = true;
  }
  how = "classes matched by name";
  if (any || names.size() != classes) return places;
  how = "classes matched by order (no name of the data is a name of the model)";
  for (std::size_t i = 0; i < names.size(); ++i) places[i] = static_cast<std::uint32_t>(i);
  return places;
}

constexpr const char* kLabelsAreNumbers = "labels are the model's class numbers";

}  // namespace

std::vector<std::uint32_t> match_labels(const SampleSource& source, std::size_t classes,
                                        std::span<const std::string> model_names,
                                        std::string& how) {
  std::vector<std::uint32_t> labels(source.labels().begin(), source.labels().end());
  const std::span<const std::string> names = source.class_names();
  if (names.empty()) {
    for (const std::uint32_t label : labels) {
      if (label >= classes && label != kNoLabel) {
        fail(ErrorCode::bad_input, "{}: label {}, wanted 0 to {}", source.name(), label,
             classes - 1);
      }
    }
    how = kLabelsAreNumbers;
    return labels;
  }
  const auto places = places_of(names, classes, model_names, how);
  using Place = std::optional<std::uint32_t>;
  const auto unknown = std::ranges::find(places, false, &Place::has_value);
  if (std::ranges::none_of(places, &Place::has_value)) {
    fail(ErrorCode::bad_input,
         "{}: {} classes, the model has {}, and their names do not match; name the model's classes "
         "with "
         "--class-names",
         source.name(), names.size(), classes);
  }
  if (unknown != places.end()) {
    fail(ErrorCode::bad_input, "{}: class '{}' is not a class of the model, while others are",
         source.name(), names[static_cast<std::size_t>(unknown - places.begin())]);
  }
  for (std::uint32_t& label : labels) label = *places[label];
  return labels;
}

std::vector<std::optional<std::uint32_t>> known_labels(const SampleSource& source,
                                                       std::size_t classes,
                                                       std::span<const std::string> model_names,
                                                       std::string& how) {
  const std::span<const std::string> names = source.class_names();
  std::vector<std::optional<std::uint32_t>> places;
  if (!names.empty()) places = places_of(names, classes, model_names, how);
  if (names.empty()) how = kLabelsAreNumbers;
  std::vector<std::optional<std::uint32_t>> labels;
  for (const std::uint32_t label : source.labels())
    labels.push_back(!names.empty()    ? places[label]
                     : label < classes ? std::optional(label)
                                       : std::nullopt);
  return labels;
}

}  // namespace oubli
