#pragma once

#include <map>

#include "oubli/model/torch/archive.h"

namespace oubli::torch {

// The pickle of PyTorch's magic number, which files written before 1.6 begin with.
inline constexpr std::string_view kLegacyStart =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

// Five pickles (magic number, version, the machine, the object, the keys of its storages), then for
// each key the number of elements, in 8 bytes, and these.
class LegacyArchive final : public Archive {
 public:
  explicit LegacyArchive(std::unique_ptr<MappedFile> file);
  [[nodiscard]] std::optional<std::span<const std::byte>> storage(
      std::string_view key) const override;
  void check_storage(std::string_view /*key*/) const override {}  // there are no check sums
  void for_each_other_text(
      const std::function<void(const std::string&, std::string_view)>& visit) const override;
  void write(AtomicFile& out, const pickle::Edits& edits,
             const StorageEdits& storages) const override;

 private:
  struct Stored {
    std::string key;
    std::size_t item_size = 1;
    std::span<const std::byte> bytes;
  };
  std::vector<Stored> stored_;                             // in the file's order
  std::map<std::string, std::size_t, std::less<>> index_;  // by key
  std::uint64_t data_begin_ = 0, data_end_ = 0;
};

}  // namespace oubli::torch
