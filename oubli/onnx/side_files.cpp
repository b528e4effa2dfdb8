#include "oubli/onnx/side_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "oubli/onnx/external.h"

namespace oubli::onnx {

namespace fs = std::filesystem;

namespace {

// Gives out the names of a new model's side files: neither one that the old model has for other
// data nor that of what else appears beside a new model.
class SideFileNames {
 public:
  SideFileNames(const Model& model, const fs::path& output) : name_(output.filename().string()) {
    const std::vector<std::string> named = external_locations(model.bytes(), model.what());
    locations_ = {named.begin(), named.end()};
    std::error_code ignored;
    const auto folder_of = [](const fs::path& folder) {
      return folder.empty() ? fs::path(".") : folder;
    };
    same_folder_ =
        fs::equivalent(folder_of(model.folder()), folder_of(output.parent_path()), ignored);
    taken_ = locations_;
    taken_.insert({name_ + ".receipt.json", name_ + ".means.npz", name_ + ".class-names.txt"});
  }

  [[nodiscard]] const std::set<std::string>& locations() const { return locations_; }
  [[nodiscard]] bool same_folder() const { return same_folder_; }
  std::string next(const std::string& location) {
    const std::string tail =
        locations_.size() == 1 ? "data" : fs::path(location).filename().string();
    if (!same_folder_) taken_.erase(location);
    std::string result = fmt::format("{}.{}", name_, tail);
    for (int i = 2; !taken_.insert(result).second; ++i)
      result = fmt::format("{}.{}.{}", name_, i, tail);
    return result;
  }

 private:
  std::string name_;
  std::set<std::string> locations_, taken_;
  bool same_folder_ = false;
};

}  // namespace

std::vector<SideFile> place_side_files(Model& model, Patches patches, const fs::path& output) {
  std::vector<SideFile> side_files;
  SideFileNames names(model, output);
  for (const std::string& location : names.locations()) {
    SideFile side{location, location, std::move(patches[location])};
    // Shared with the old model, unchanged.
    if (names.same_folder() && side.patches.empty()) continue;
    side.new_location = names.next(location);
    rename_location(model.message(), location, side.new_location, model.what());
    side_files.push_back(std::move(side));
  }
  return side_files;
}

std::vector<std::string> possible_side_files(const Model& model, const fs::path& output) {
  std::vector<std::string> result;
  SideFileNames names(model, output);
  for (const std::string& location : names.locations()) result.push_back(names.next(location));
  return result;
}

void write_side_file(AtomicFile& out, std::span<const std::byte> old,
                     std::vector<SideFile::Patch> patches) {
  std::ranges::sort(patches, {}, &SideFile::Patch::offset);
  std::uint64_t done = 0;
  for (const SideFile::Patch& patch : patches) {
    if (patch.offset < done) continue;  // the same bytes, patched before
    out.write(
        old.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(patch.offset - done)));
    out.write(patch.bytes);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(patch.old_size) -
                                       patch.bytes.size());
    out.write(zeros);
    done = patch.offset + patch.old_size;
  }
  out.write(old.subspan(static_cast<std::size_t>(done)));
}

}  // namespace oubli::onnx
