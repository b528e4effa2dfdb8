#include "oubli/model/onnx_side_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "oubli/onnx/external.h"

namespace oubli {

namespace fs = std::filesystem;

std::vector<OnnxSideFile> place_side_files(onnx::Model& model, OnnxPatches patches,
                                           const fs::path& output) {
  std::vector<OnnxSideFile> side_files;
  const std::vector<std::string> named = onnx::external_locations(model.bytes(), model.what());
  const std::set<std::string> locations(named.begin(), named.end());
  std::error_code ignored;
  const auto folder_of = [](const fs::path& folder) {
    return folder.empty() ? fs::path(".") : folder;
  };
  const bool same_folder =
      fs::equivalent(folder_of(model.folder()), folder_of(output.parent_path()), ignored);
  // A new name is neither one that this model has for other data nor that of what else appears
  // beside a new model.
  const std::string name = output.filename().string();
  std::set<std::string> taken(locations);
  taken.insert({name + ".receipt.json", name + ".means.npz", name + ".class-names.txt"});
  for (const std::string& location : locations) {
    OnnxSideFile side{location, location, std::move(patches[location])};
    if (same_folder && side.patches.empty()) continue;  // shared with the old model, unchanged
    const std::string tail =
        locations.size() == 1 ? "data" : fs::path(location).filename().string();
    if (!same_folder) taken.erase(location);
    side.new_location = fmt::format("{}.{}", name, tail);
    for (int i = 2; !taken.insert(side.new_location).second; ++i)
      side.new_location = fmt::format("{}.{}.{}", name, i, tail);
    onnx::rename_location(model.message(), location, side.new_location, model.what());
    side_files.push_back(std::move(side));
  }
  return side_files;
}

void write_side_file(AtomicFile& out, std::span<const std::byte> old,
                     std::vector<OnnxSideFile::Patch> patches) {
  std::ranges::sort(patches, {}, &OnnxSideFile::Patch::offset);
  std::uint64_t done = 0;
  for (const OnnxSideFile::Patch& patch : patches) {
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

}  // namespace oubli
