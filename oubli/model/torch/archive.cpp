#include "oubli/model/torch/archive.h"

#include <unordered_map>

#include "oubli/base/error.h"
#include "oubli/model/torch/legacy_archive.h"

namespace oubli::torch {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kIdEntry = "/.data/serialization_id";

class ZippedArchive final : public Archive {
 public:
  explicit ZippedArchive(std::unique_ptr<MappedFile> file)
      : Archive(std::move(file)), zip_(file_->bytes(), file_->path().string()) {
    const std::string path = file_->path().string();
    if (zip_.entries().empty()) fail(ErrorCode::bad_input, "{}: an empty archive", path);
    const std::string& first = zip_.entries().front().name;
    name_ = first.substr(0, first.find('/'));
    for (const ZipEntry& entry : zip_.entries()) by_name_.emplace(entry.name, &entry);
    for (const ZipEntry& entry : zip_.entries())
      if (!entry.name.starts_with(name_ + "/"))
        fail(ErrorCode::bad_input, "{}: entry {} is not below {}/, as in files of PyTorch", path,
             entry.name, name_);
    if (find(name_ + "/constants.pkl") != nullptr)
      fail(ErrorCode::unfilterable,
           "{}: TorchScript, whose code counts classes, too; save its numbers alone and forget in "
           "that file: m = torch.jit.load('{}'); torch.save(m.state_dict(), 'state.pth')",
           path, file_->path().filename().string());
    const ZipEntry* const pickled = find(name_ + "/data.pkl");
    if (pickled == nullptr) fail(ErrorCode::bad_input, "{}: no entry {}/data.pkl", path, name_);
    if (const ZipEntry* const order = find(name_ + "/byteorder"))
      if (as_text(unpack(*order, path).bytes) != "little")
        fail(ErrorCode::unfilterable, "{}: saved on a big-endian machine", path);
    content_ = unpack(*pickled, entry_what(*pickled), true);
    pickle_ = std::make_unique<pickle::Pickle>(content_.bytes, path + ":data.pkl");
  }

  [[nodiscard]] std::optional<Bytes> storage(std::string_view key) const override {
    const ZipEntry* const entry = find(storage_name(key));
    if (entry == nullptr) return std::nullopt;
    if (entry->method != 0)
      fail(ErrorCode::unfilterable, "{}: compressed, as PyTorch never does; save it anew",
           entry_what(*entry));
    return entry->packed;
  }

  void check_storage(std::string_view key) const override {
    if (const ZipEntry* const entry = find(storage_name(key)))
      (void)unpack(*entry, entry_what(*entry), true);
  }

  void for_each_other_text(
      const std::function<void(const std::string&, std::string_view)>& visit) const override {
    constexpr std::uint64_t kLargest = std::uint64_t{16} << 20;
    visit("data.pkl, behind its end", as_text(content_.bytes.subspan(pickle_->end())));
    for (const ZipEntry& entry : zip_.entries()) {
      if (is_storage(entry) || entry.name == name_ + "/data.pkl" || entry.size > kLargest) continue;
      const SharedTensor other = unpack(entry, entry_what(entry), true);
      visit("entry " + entry.name, as_text(other.bytes));
    }
  }

  void write(AtomicFile& out, const pickle::Edits& edits,
             const StorageEdits& storages) const override {
    ZipWriter writer(out);
    std::vector<std::uint32_t> check_sums;
    for (const ZipEntry& entry : zip_.entries()) {
      const std::string_view inside = std::string_view(entry.name).substr(name_.size());
      const auto edited = is_storage(entry) ? storages.find(inside.substr(6)) : storages.end();
      std::uint32_t check_sum = 0;
      if (edited != storages.end()) {
        check_sum = writer.add_aligned(entry.name, edited->second);
      } else if (inside == "/data.pkl") {
        const std::vector<std::byte> pickled = edits.encode();
        const std::vector pieces{ZipPiece{pickled},
                                 ZipPiece{content_.bytes.subspan(pickle_->end())}};
        check_sum = writer.add_aligned(entry.name, pieces);
      } else if (inside == kIdEntry && entry.size == 40) {
        const SharedTensor old = unpack(entry, entry_what(entry));
        const std::string id = serialization_id(as_text(old.bytes), check_sums);
        check_sum = writer.add_aligned(entry.name, std::vector{ZipPiece{as_bytes(id)}});
      } else {
        check_sum = copy(writer, entry);
      }
      check_sums.push_back(check_sum);
    }
    writer.finish(zip_.comment(), true);
  }

 private:
  [[nodiscard]] const ZipEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  [[nodiscard]] std::string storage_name(std::string_view key) const {
    return name_ + "/data/" + std::string(key);
  }
  [[nodiscard]] bool is_storage(const ZipEntry& entry) const {
    return entry.name.starts_with(name_ + "/data/");
  }
  [[nodiscard]] std::string entry_what(const ZipEntry& entry) const {
    return fmt::format("{}:{}", file_->path().string(), entry.name);
  }
  [[nodiscard]] std::uint32_t copy(ZipWriter& writer, const ZipEntry& entry) const {
    if (entry.method != 0) {
      const SharedTensor unpacked = unpack(entry, entry_what(entry), true);
      return writer.add_aligned(entry.name, std::vector{ZipPiece{unpacked.bytes}});
    }
    const std::uint32_t found =
        writer.add_aligned(entry.name, std::vector{ZipPiece{entry.packed, true}});
    if (found != entry.crc)
      fail(ErrorCode::bad_input,
           "{}: check sum {:08x}, wanted {:08x}: damaged, or saved with compute_crc32=False (then "
           "save it again without)",
           entry_what(entry), found, entry.crc);
    return found;
  }

  ZipArchive zip_;
  std::unordered_map<std::string, const ZipEntry*> by_name_;
  std::string name_;      // that all entries are below
  SharedTensor content_;  // of data.pkl
};

}  // namespace

std::unique_ptr<Archive> Archive::open(const std::filesystem::path& path) {
  auto file = std::make_unique<MappedFile>(path);
  if (as_text(file->bytes()).starts_with(kLegacyStart))
    return std::make_unique<LegacyArchive>(std::move(file));
  return std::make_unique<ZippedArchive>(std::move(file));
}

std::string serialization_id(std::string_view old, std::span<const std::uint32_t> check_sums) {
  std::uint64_t folded = 0;  // c10::hash_combine
  for (const std::uint64_t sum : check_sums)
    folded ^= sum + 0x9e3779b9 + (folded << 6) + (folded >> 2);
  return fmt::format("{}{:020}", old.substr(0, 20), folded);
}

}  // namespace oubli::torch
