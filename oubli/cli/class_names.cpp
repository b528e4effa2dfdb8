#include "oubli/cli/class_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/base/digest.h"
#include "oubli/base/file.h"
#include "oubli/base/names.h"
#include "oubli/cli/terminal.h"
#include "oubli/data/samples.h"
#include "oubli/forget/receipt.h"

namespace oubli::cli {
namespace {

namespace fs = std::filesystem;

// The first few of them.
std::string some(std::span<const std::string> names) {
  constexpr std::size_t kMost = 10;
  const auto first = names.first(std::min(names.size(), kMost));
  return fmt::format("{}{}", fmt::join(first, ", "), names.size() > kMost ? ", ..." : "");
}

// The file's lines if they are names of so many classes; else nothing.
std::vector<std::string> names_in_file(const fs::path& path, std::size_t classes) {
  constexpr std::uint64_t kLongest = std::uint64_t{16} << 20;
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable) || fs::file_size(path, unreadable) > kLongest)
    return {};
  try {
    return parse_class_names(read_text_file(path), classes, path.string());
  } catch (const Error&) {
    return {};  // a list of something else
  }
}

NamesFound names_beside(const ModelFile& model, std::size_t classes) {
  using From = NamesFound::From;
  const fs::path own = class_names_path(model.path());
  if (auto names = names_in_file(own, classes); !names.empty())
    return {std::move(names), From::file, own.string()};
  NamesFound found;
  for (const char* const name :
       {"class-names.txt", "class_names.txt", "classes.txt", "labels.txt"}) {
    const fs::path path = model.path().parent_path() / name;
    auto names = names_in_file(path, classes);
    if (names.empty()) continue;
    if (found.from != From::nobody && names != found.names) {
      remark(
          fmt::format("note: {} and {} name the classes differently; neither is used: say "
                      "--class-names FILE",
                      found.place, path.string()));
      return {};
    }
    if (found.from == From::nobody) found = {std::move(names), From::file, path.string()};
  }
  return found;
}

// Whether the receipt beside the model is its own.
bool has_receipt(const ModelFile& model) {
  const fs::path path = receipt_path(model.path());
  if (!fs::is_regular_file(path)) return false;
  try {
    return is_output_of(parse_receipt(read_text_file(path), path.string()),
                        sha256_file(model.files().front()));
  } catch (const Error&) {
    return false;  // of something else; find_previous() tells
  }
}

}  // namespace

NamesFound find_class_names(const ModelOptions& options, const std::string& given,
                            const ModelFile& model, const ForgetInputs& inputs) {
  using From = NamesFound::From;
  const std::size_t classes = model.head().classes();
  if (!options.class_names.empty())
    return {parse_class_names(given, classes, options.class_names), From::option,
            options.class_names};
  if (auto own = model.class_names()) return {std::move(*own), From::model, model.path().string()};
  if (inputs.means && inputs.means->classes() == classes && !inputs.means->class_names.empty())
    return {inputs.means->class_names, From::means, options.means};
  NamesFound found = names_beside(model, classes);
  if (found.from == From::nobody && !options.data.empty() && fs::is_directory(options.data))
    if (auto folders = class_folders(options.data); folders.size() == classes)
      found = {std::move(folders), From::folders, options.data};
  if (found.from != From::nobody)
    remark(fmt::format("note: class names are {} {}: {}",
                       found.from == From::file ? "those in" : "the subfolders of", found.place,
                       some(found.names)));
  return found;
}

std::vector<std::string> forgotten_in_data(const ModelOptions& options, const ModelFile& model,
                                           std::span<const std::string> names) {
  if (names.empty() || !options.has_inputs() || !has_receipt(model)) return {};
  std::vector<std::string> there;
  if (fs::is_directory(options.data)) {
    there = class_folders(options.data);
  } else {
    const auto source = SampleSource::open(options.data);
    there.assign(source->class_names().begin(), source->class_names().end());
  }
  std::vector<std::string> gone;
  std::ranges::copy_if(there, std::back_inserter(gone), [&](const std::string& name) {
    return std::ranges::find(names, name) == names.end();
  });
  // Every class of the model must be there: else the names are others, and nothing is known.
  if (gone.empty() || there.size() - gone.size() != names.size()) return {};
  remark(fmt::format("note: left out of {}: {}, which the model has forgotten", options.data,
                     some(gone)));
  return gone;
}

}  // namespace oubli::cli
