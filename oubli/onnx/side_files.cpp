#include "oubli/onnx/side_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <tuple>
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
    const std::vector<std::string> named = external_locations(model);
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

ExternalUse::ExternalUse(const Model& model) {
  std::map<std::string, std::size_t> by_location;
  std::map<std::pair<dev_t, ino_t>, std::size_t> by_file;
  for (const TensorInfo& tensor : external_tensors(model)) {
    const auto [place, is_new] = by_location.emplace(tensor.location, by_location.size());
    struct stat status {};
    if (is_new && ::stat(model.side_path(tensor.location).c_str(), &status) == 0)
      place->second =
          by_file.emplace(std::pair(status.st_dev, status.st_ino), place->second).first->second;
    // A type that is not known here: all that follows.
    const std::optional<std::uint64_t> size = tensor.bytes();
    const std::uint64_t begin = tensor.external_offset;
    const std::uint64_t end = size && *size <= UINT64_MAX - begin ? begin + *size : UINT64_MAX;
    by_id_.emplace(tensor.message.data(), uses_.size());
    uses_.push_back({place->second, begin, end, tensor.message.data(), tensor.location,
                     tensor.name.empty() ? tensor.location : tensor.name, false});
  }
}

const ExternalUse::Use* ExternalUse::find(const TensorInfo& tensor) const {
  const auto found = by_id_.find(tensor.message.data());
  return found == by_id_.end() ? nullptr : &uses_[found->second];
}

bool ExternalUse::is_shared(const TensorInfo& tensor) const {
  const Use* const own = find(tensor);
  return own != nullptr && std::ranges::any_of(uses_, [&](const Use& use) {
           return &use != own && !use.released && use.file == own->file && use.begin < own->end &&
                  own->begin < use.end;
         });
}

void ExternalUse::replace(const TensorInfo& tensor, std::vector<std::byte> bytes) {
  const Use& use = *find(tensor);
  replaced_[use.location].push_back({use.begin, use.end - use.begin, std::move(bytes)});
}

void ExternalUse::release(const TensorInfo& tensor) {
  if (const Use* const use = find(tensor))
    uses_[static_cast<std::size_t>(use - uses_.data())].released = true;
}

Patches ExternalUse::patches(std::vector<std::string>& kept) const {
  std::vector<const Use*> sorted;
  for (const Use& use : uses_) sorted.push_back(&use);
  std::ranges::sort(sorted, {}, [](const Use* use) { return std::tuple(use->file, use->begin); });
  // What is still referred to, by file: stretches that do not touch.
  std::map<std::size_t, std::map<std::uint64_t, std::uint64_t>> taken;
  for (const Use* const use : sorted) {
    if (use->released) continue;
    auto& stretches = taken[use->file];
    if (!stretches.empty() && stretches.rbegin()->second >= use->begin)
      stretches.rbegin()->second = std::max(stretches.rbegin()->second, use->end);
    else
      stretches.emplace(use->begin, use->end);
  }
  Patches all = replaced_;
  std::map<std::string_view, std::uint64_t> cleared;  // up to here, by location
  for (const Use* const use : sorted) {
    if (!use->released) continue;
    const std::map<std::uint64_t, std::uint64_t>& stretches = taken[use->file];
    auto next = stretches.upper_bound(use->begin);
    if (next != stretches.begin() && std::prev(next)->second > use->begin) --next;
    if (next != stretches.end() && next->first < use->end) kept.push_back(use->name);
    std::uint64_t& at = cleared[use->location];
    at = std::max(at, use->begin);
    for (; next != stretches.end() && next->first < use->end; ++next) {
      if (next->first > at) all[use->location].push_back({at, next->first - at, {}});
      at = std::max(at, next->second);
    }
    if (use->end > at) all[use->location].push_back({at, use->end - at, {}});
    at = std::max(at, use->end);
  }
  return all;
}

std::vector<SideFile> place_side_files(const Model& model, Message& message, Patches patches,
                                       const fs::path& output) {
  std::vector<SideFile> side_files;
  SideFileNames names(model, output);
  std::map<std::string, std::string, std::less<>> renamed;
  for (const std::string& location : names.locations()) {
    SideFile side{location, location, std::move(patches[location])};
    // Shared with the old model, unchanged.
    if (names.same_folder() && side.patches.empty()) continue;
    side.new_location = names.next(location);
    renamed.emplace(location, side.new_location);
    side_files.push_back(std::move(side));
  }
  rename_locations(message, renamed, model.what());
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
    OUBLI_ASSERT(patch.offset >= done && patch.bytes.size() <= patch.old_size);
    const std::uint64_t begin = std::min<std::uint64_t>(patch.offset, old.size());
    const std::uint64_t end = std::min<std::uint64_t>(patch.offset + patch.old_size, old.size());
    out.write(old.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(begin - done)));
    out.write(patch.bytes);
    out.write(std::vector<std::byte>(static_cast<std::size_t>(end - begin) - patch.bytes.size()));
    done = end;
  }
  out.write(old.subspan(static_cast<std::size_t>(done)));
}

}  // namespace oubli::onnx
