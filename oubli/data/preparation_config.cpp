#include "oubli/data/preparation_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "oubli/base/json.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

// A model that takes any size must not be made to take all memory by a file beside it.
constexpr std::size_t kLargestSide = 4096;

const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool flag(const Json& object, const char* key, bool otherwise) {
  const Json* const found = find(object, key);
  return found != nullptr && found->is_boolean() ? found->get<bool>() : otherwise;
}

// One number or several; empty if it is anything else.
std::vector<double> numbers(const Json& object, const char* key) {
  const Json* const found = find(object, key);
  if (found == nullptr) return {};
  if (found->is_number()) return {found->get<double>()};
  std::vector<double> values;
  if (found->is_array())
    for (const Json& value : *found) {
      if (!value.is_number()) return {};
      values.push_back(value.get<double>());
    }
  return values;
}

using Size = std::optional<std::pair<std::size_t, std::size_t>>;

Size sides(std::uint64_t height, std::uint64_t width) {
  const auto fits = [](std::uint64_t side) { return side > 0 && side <= kLargestSide; };
  if (!fits(height) || !fits(width)) return std::nullopt;
  return std::pair<std::size_t, std::size_t>(height, width);
}

// 224, {"height": 224, "width": 224} or {"shortest_edge": 224}.
Size size_at(const Json& object, const char* key) {
  const Json* const found = find(object, key);
  if (found == nullptr) return std::nullopt;
  const auto side = [&](const char* name) -> std::uint64_t {
    const Json* const value = find(*found, name);
    return value != nullptr && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
  };
  if (found->is_number_unsigned())
    return sides(found->get<std::uint64_t>(), found->get<std::uint64_t>());
  if (const Size both = sides(side("height"), side("width"))) return both;
  return sides(side("shortest_edge"), side("shortest_edge"));
}

// Means and deviations must be numbers that can be subtracted and divided by.
void set_statistics(StatedPreparation& stated, std::vector<double> mean,
                    std::vector<double> deviation) {
  const auto finite = [](double value) { return std::isfinite(value); };
  const auto divides = [&](double value) { return finite(value) && value != 0; };
  if (mean.empty() || deviation.empty() || !std::ranges::all_of(mean, finite) ||
      !std::ranges::all_of(deviation, divides)) {
    stated.cannot = "its mean and standard deviation are no lists of numbers";
    return;
  }
  stated.options.mean = std::move(mean);
  stated.options.standard = std::move(deviation);
}

StatedPreparation of_timm(const Json& config) {
  StatedPreparation stated;
  stated.options.scale = 1 / 255.;
  set_statistics(stated, numbers(config, "mean"), numbers(config, "std"));
  if (const auto input = numbers(config, "input_size"); input.size() == 3) {
    const auto whole = [](double side) {
      return side >= 1 && side <= static_cast<double>(kLargestSide)
                 ? static_cast<std::uint64_t>(side)
                 : 0;
    };
    stated.options.size = sides(whole(input[1]), whole(input[2]));
  }
  if (const auto crop = numbers(config, "crop_pct"); crop.size() == 1 && crop[0] != 1)
    stated.not_done.emplace_back("a centre crop");
  return stated;
}

StatedPreparation of_transformers(const Json& config) {
  StatedPreparation stated;
  for (const auto& [key, why] : {std::pair("rescale_offset", "it subtracts after scaling"),
                                 std::pair("include_top", "it divides a second time"),
                                 std::pair("do_flip_channel_order", "it exchanges red and blue")})
    if (flag(config, key, false)) stated.cannot = why;
  if (flag(config, "do_rescale", true)) {
    const auto factor = numbers(config, "rescale_factor");
    stated.options.scale = factor.size() == 1 ? factor[0] : 1 / 255.;
  } else {
    stated.options.scale = 1;
  }
  const bool has_mean = find(config, "image_mean") != nullptr;
  if (flag(config, "do_normalize", has_mean))
    set_statistics(stated, numbers(config, "image_mean"), numbers(config, "image_std"));
  const bool crops = flag(config, "do_center_crop", false);
  const Size resized = size_at(config, "size");
  const Size cropped = crops ? size_at(config, "crop_size") : std::nullopt;
  stated.options.size = cropped ? cropped : resized;
  const auto part = numbers(config, "crop_pct");
  if ((crops && cropped != resized) || (part.size() == 1 && part[0] != 1))
    stated.not_done.emplace_back("a centre crop");
  if (flag(config, "do_pad", false)) stated.not_done.emplace_back("a border");
  return stated;
}

}  // namespace

std::optional<StatedPreparation> parse_preparation_config(const std::string& text,
                                                          const std::string& what) {
  const Json document = parse_json(text, what);
  if (const Json* const timm = find(document, "pretrained_cfg");
      timm != nullptr && find(*timm, "mean") != nullptr)
    return of_timm(*timm);
  if (find(document, "mean") != nullptr && find(document, "input_size") != nullptr)
    return of_timm(document);
  const Json* const inner = find(document, "image_processor");  // of processor_config.json
  const Json& config = inner != nullptr ? *inner : document;
  for (const char* const key :
       {"do_rescale", "do_normalize", "do_resize", "image_mean", "rescale_offset"})
    if (find(config, key) != nullptr) return of_transformers(config);
  return std::nullopt;
}

std::string option_words(const PreparationOptions& options) {
  std::string words = fmt::format("--scale {:.9g}", options.scale.value_or(1));
  if (!options.mean.empty()) words += fmt::format(" --mean {}", fmt::join(options.mean, ","));
  if (!options.standard.empty())
    words += fmt::format(" --std {}", fmt::join(options.standard, ","));
  if (options.channels_last)
    words += fmt::format(" --layout {}", *options.channels_last ? "nhwc" : "nchw");
  if (options.size)
    words += fmt::format(" --size {}x{}", options.size->first, options.size->second);
  return words;
}

}  // namespace oubli
