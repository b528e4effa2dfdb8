#include "oubli/forget/stated_preparation.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/runtime/model_runner.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

std::optional<StatedPreparation> in_metadata(const onnx::Model& model) {
  const onnx::MetadataEntry* const range = model.metadata("Image.NominalPixelRange");
  if (range == nullptr) return std::nullopt;
  StatedPreparation stated;
  PreparationOptions& options = stated.options;
  if (range->value == "NominalRange_0_255") {
    options.scale = 1;
  } else if (range->value == "Normalized_0_1") {
    options.scale = 1 / 255.;
  } else if (range->value == "Normalized_1_1") {
    options.scale = 1 / 127.5;
    options.mean = {1};
  } else {
    stated.cannot = fmt::format("pixels are {}", range->value);
  }
  const onnx::MetadataEntry* const format = model.metadata("Image.BitmapPixelFormat");
  if (format != nullptr && format->value.starts_with("Bgr"))
    stated.cannot = "it exchanges red and blue";
  return stated;
}

std::optional<StatedPreparation> in_file(const fs::path& path) {
  constexpr std::uint64_t kLongest = std::uint64_t{16} << 20;
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable) || fs::file_size(path, unreadable) > kLongest)
    return std::nullopt;
  try {
    return parse_preparation_config(read_text_file(path), path.string());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) throw;
    return std::nullopt;
  }
}

bool is_grey(const InputShape& input) {
  const auto& extents = input.extents;
  return extents.size() == 2 || (extents.size() == 3 && (extents[0] == 1 || extents[2] == 1) &&
                                 extents[0] != 3 && extents[2] != 3);
}

bool takes_any_size(const InputShape& input) {
  return input.extents.size() == 3 && std::ranges::count_if(input.extents, [](const auto& extent) {
                                        return !extent.has_value();
                                      }) >= 2;
}

}  // namespace

std::optional<PublishedPreparation> find_published_preparation(const ModelFile& model,
                                                               const OnnxModel& run) {
  if (auto stated = in_metadata(run.model()))
    return PublishedPreparation{std::move(*stated), "the model's metadata"};
  for (const fs::path& given : {model.path(), run.path()}) {
    const fs::path path = fs::absolute(given);  // "model.onnx" alone has no folder to its left
    const fs::path own = fs::is_directory(path) ? path : path.parent_path();
    const bool inside = own.filename() == "onnx";
    for (const fs::path& folder : {own, inside ? own.parent_path() : own})
      for (const char* const name :
           {"preprocessor_config.json", "processor_config.json", "config.json"})
        if (auto stated = in_file(folder / name))
          return PublishedPreparation{std::move(*stated), name};
  }
  return std::nullopt;
}

PreparationOptions with_published(const PreparationOptions& given, const ModelFile& model,
                                  const OnnxModel& run, std::string& said) {
  said.clear();
  const auto published = find_published_preparation(model, run);
  if (!published) return given;
  const StatedPreparation& stated = published->stated;
  const InputShape input = input_shape(run.model());
  PreparationOptions taken;
  if (!given.scale && given.mean.empty() && given.standard.empty() && is_float(input.dtype)) {
    const std::string why = !stated.cannot.empty() ? stated.cannot + ", which no option can say"
                            : stated.options.mean.size() == 3 && is_grey(input)
                                ? "it is about images in colour, and the model takes grey ones"
                                : "";
    if (!why.empty()) {
      said = fmt::format("inputs are not made as {} says: {}", published->place, why);
      return given;
    }
    taken = stated.options;
    taken.size.reset();
  }
  if (!given.size && takes_any_size(input)) taken.size = stated.options.size;
  if (taken == PreparationOptions{}) return given;
  said = fmt::format("inputs are made as {} says: {}", published->place, option_words(taken));
  if (!stated.not_done.empty())
    said += fmt::format(", but without {}", fmt::join(stated.not_done, " and "));
  PreparationOptions made = given;
  if (taken.scale) {
    made.scale = taken.scale;
    made.mean = taken.mean;
    made.standard = taken.standard;
  }
  if (taken.size) made.size = taken.size;
  return made;
}

}  // namespace oubli
