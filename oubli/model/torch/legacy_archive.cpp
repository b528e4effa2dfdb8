#include "oubli/model/torch/legacy_archive.h"

#include "oubli/base/byte_reader.h"
#include "oubli/base/file_chunks.h"
#include "oubli/model/torch/tensors.h"

namespace oubli::torch {

LegacyArchive::LegacyArchive(std::unique_ptr<MappedFile> file) : Archive(std::move(file)) {
  using pickle::Kind;
  using pickle::Pickle;
  const std::string path = file_->path().string();
  const auto bytes = file_->bytes();
  const Pickle version(bytes, path, kLegacyStart.size());
  if (!version.is(version.root(), Kind::integer) || version.integer(version.root()) != 1001)
    fail(ErrorCode::bad_input, "{}: not the version of PyTorch's old format that is known", path);
  const Pickle machine(bytes, path, version.end());
  if (const auto little = machine.find(machine.root(), "little_endian");
      machine.is(little, Kind::boolean) && machine.integer(little) == 0)
    fail(ErrorCode::unfilterable, "{}: saved on a big-endian machine", path);
  pickle_ = std::make_unique<Pickle>(bytes, path, machine.end());
  const Pickle keys(bytes, path, pickle_->end());
  data_begin_ = keys.end();

  const std::map<std::string, std::size_t, std::less<>> item_sizes = storage_item_sizes(*pickle_);
  ByteReader reader(bytes.subspan(data_begin_), path);
  for (const pickle::Item& item : keys.items(keys.root())) {
    if (!keys.is(item.value, Kind::text))
      fail(ErrorCode::bad_input, "{}: a storage's key that is no text", path);
    Stored stored{std::string(keys.text(item.value)), 1, {}};
    const auto known = item_sizes.find(stored.key);
    if (known == item_sizes.end())
      fail(ErrorCode::bad_input, "{}: storage {} is listed, but no tensor has it", path,
           stored.key);
    stored.item_size = known->second;
    const auto count = reader.take_le<std::uint64_t>();
    if (count > reader.remaining() / stored.item_size)
      fail(ErrorCode::bad_input, "{}: storage {} of {} elements goes beyond the file", path,
           stored.key, count);
    stored.bytes = reader.take(count * stored.item_size);
    if (!index_.emplace(stored.key, stored_.size()).second)
      fail(ErrorCode::bad_input, "{}: two storages {}", path, stored.key);
    stored_.push_back(std::move(stored));
  }
  data_end_ = data_begin_ + reader.position();
}

std::optional<std::span<const std::byte>> LegacyArchive::storage(std::string_view key) const {
  const auto found = index_.find(key);
  if (found == index_.end()) return std::nullopt;
  return stored_[found->second].bytes;
}

void LegacyArchive::for_each_other_text(
    const std::function<void(const std::string&, std::string_view)>& visit) const {
  visit("behind the tensors", as_text(file_->bytes().subspan(data_end_)));
}

void LegacyArchive::write(AtomicFile& out, const pickle::Edits& edits,
                          const StorageEdits& storages) const {
  const auto bytes = file_->bytes();
  out.write(bytes.first(pickle_->begin()));
  edits.write([&](std::span<const std::byte> piece) { out.write(piece); });
  out.write(bytes.subspan(pickle_->end(), data_begin_ - pickle_->end()));
  for (const Stored& stored : stored_) {
    const auto edited = storages.find(stored.key);
    const std::vector<ZipPiece> same{ZipPiece{stored.bytes, true}};
    const std::vector<ZipPiece>& pieces = edited == storages.end() ? same : edited->second;
    std::uint64_t size = 0;
    for (const ZipPiece& piece : pieces) size += piece.bytes.size();
    const std::uint64_t count = size / stored.item_size;
    out.write(std::as_bytes(std::span(&count, 1)));
    for (const ZipPiece& piece : pieces) {
      out.write(piece.bytes);
      if (piece.mapped) release_pages(piece.bytes);
    }
  }
  out.write(bytes.subspan(data_end_));
}

}  // namespace oubli::torch
