#include "oubli/base/patches.h"

#include <algorithm>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/file_chunks.h"

namespace oubli {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

}  // namespace

void Patches::add(Patch patch) {
  if (patch.count == 0) return;
  const auto where = std::ranges::upper_bound(patches_, patch.offset, {}, &Patch::offset);
  patches_.insert(where, std::move(patch));
}

void Patches::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  add({offset, bytes.size(), {bytes.begin(), bytes.end()}, {}});
}

void Patches::put_view(std::uint64_t offset, std::span<const std::byte> bytes) {
  add({offset, bytes.size(), {}, bytes});
}

void Patches::zero(std::uint64_t offset, std::uint64_t count) { add({offset, count, {}, {}}); }

void Patches::put_shifted(const Patches& others, std::uint64_t by) {
  for (Patch patch : others.patches_) {
    patch.offset += by;
    add(std::move(patch));
  }
}

bool Patches::touch(std::uint64_t offset, std::uint64_t count) const {
  return std::ranges::any_of(patches_, [&](const Patch& patch) {
    return patch.offset < offset + count && offset < patch.offset + patch.count;
  });
}

std::span<const std::byte> Patches::piece(const Patch& patch, std::uint64_t at) {
  static const std::vector<std::byte> zeros(kPiece);
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(patch.count - at, kPiece));
  const std::span<const std::byte> bytes = patch.own.empty() ? patch.view : patch.own;
  if (bytes.empty()) return std::span(zeros).first(count);
  return bytes.subspan(static_cast<std::size_t>(at), count);
}

void Patches::check(std::size_t size) const {
  std::uint64_t end = 0;
  for (const Patch& patch : patches_) {
    if (patch.offset < end || patch.offset > size || patch.count > size - patch.offset)
      fail(ErrorCode::bug, "two changes of a file overlap, or one lies outside (byte {})",
           patch.offset);
    end = patch.offset + patch.count;
  }
}

std::vector<std::byte> Patches::read(std::span<const std::byte> original, std::uint64_t offset,
                                     std::uint64_t count) const {
  const auto old =
      original.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
  std::vector<std::byte> bytes(old.begin(), old.end());
  for (const Patch& patch : patches_) {
    const std::uint64_t begin = std::max(offset, patch.offset);
    const std::uint64_t end = std::min(offset + count, patch.offset + patch.count);
    for (std::uint64_t at = begin; at < end;) {
      const auto from = piece(patch, at - patch.offset);
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(from.size(), end - at));
      std::ranges::copy(from.first(n), bytes.begin() + static_cast<std::ptrdiff_t>(at - offset));
      at += n;
    }
  }
  return bytes;
}

void Patches::write_copy(std::span<const std::byte> original, AtomicFile& out) const {
  for_each_piece(original, [&](std::span<const std::byte> piece) { out.write(piece); });
}

void Patches::write_copy(const MappedFile& original, AtomicFile& out) const {
  const std::span<const std::byte> all = original.bytes();
  for_each_piece(all, [&](std::span<const std::byte> piece) {
    out.write(piece);
    if (piece.data() >= all.data() && piece.data() < all.data() + all.size()) release_pages(piece);
  });
}

}  // namespace oubli
