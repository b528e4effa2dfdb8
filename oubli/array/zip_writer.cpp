#include "oubli/array/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "oubli/array/packed_stream.h"
#include "oubli/array/zip_format.h"
#include "oubli/base/byte_reader.h"
#include "oubli/base/file_chunks.h"

namespace oubli {
namespace {

using namespace zip;
using Bytes = std::span<const std::byte>;

// The extra fields other than zip64's.
std::string without_zip64(Bytes extra, const std::string& what) {
  std::string kept;
  ByteReader reader(extra, what);
  while (reader.remaining() >= 4) {
    const auto id = reader.take_le<std::uint16_t>();
    const auto length = reader.take_le<std::uint16_t>();
    const auto content = reader.take_text(length);
    if (id == kZip64Extra) continue;
    put(kept, id);
    put(kept, length);
    kept += content;
  }
  return kept;
}

void deflate_to(AtomicFile& out, std::span<const Bytes> pieces) {
  PackedWriter writer(out, Packing::deflate);
  for (const Bytes piece : pieces) writer.write(piece);
  writer.finish();
}

// Sizes and offset as a directory record spells them: in 32 bits, or all ones there and 64 bits in
// an extra field.
std::string zip64_extra(const Sizes& sizes, bool with_offset) {
  std::string fields;
  for (const std::uint64_t value : {sizes.size, sizes.packed})
    if (value >= kFull32) put(fields, value);
  if (with_offset && sizes.offset >= kFull32) put(fields, sizes.offset);
  if (fields.empty()) return fields;
  std::string extra;
  put(extra, kZip64Extra);
  put(extra, static_cast<std::uint16_t>(fields.size()));
  return extra + fields;
}

// Zip64's extra field of a local header, where both sizes are always given.
std::string zip64_sizes(const Sizes& sizes) {
  std::string extra;
  put(extra, kZip64Extra);
  put(extra, std::uint16_t{16});
  put(extra, sizes.size);
  put(extra, sizes.packed);
  return extra;
}

// An entry as NumPy writes it.
struct NewEntry {
  std::string_view name;
  bool deflate;
  std::uint32_t stamp;
  std::uint32_t crc;
  Sizes sizes;

  // What both records have between the version that is needed and the length of the extra field.
  void put_fields(std::string& record, std::uint32_t packed, std::uint32_t size) const {
    put(record, std::uint16_t{0});
    put(record, static_cast<std::uint16_t>(deflate ? 8 : 0));
    put(record, stamp);
    put(record, crc);
    put(record, packed);
    put(record, size);
    put(record, static_cast<std::uint16_t>(name.size()));
  }
  [[nodiscard]] std::string local_header() const {
    // Deflate can grow incompressible data by some 5 bytes in 16 kB; with that margin the choice
    // can be made before the packed size is known.
    const bool wide = sizes.size + sizes.size / 1024 + 1024 >= kFull32;
    std::string local;
    put(local, kLocalSignature);
    put(local, static_cast<std::uint16_t>(wide ? 45 : 20));
    put_fields(local, wide ? kFull32 : capped(sizes.packed), wide ? kFull32 : capped(sizes.size));
    put(local, static_cast<std::uint16_t>(wide ? 20 : 0));
    local += name;
    if (wide) local += zip64_sizes(sizes);
    return local;
  }
  [[nodiscard]] std::string directory_record() const {
    const std::string extra = zip64_extra(sizes, true);
    std::string record;
    put(record, kDirectorySignature);
    put(record, std::uint16_t{45 | (3 << 8)});  // made by version 4.5, Unix
    put(record, static_cast<std::uint16_t>(extra.empty() ? 20 : 45));
    put_fields(record, capped(sizes.packed), capped(sizes.size));
    put(record, static_cast<std::uint16_t>(extra.size()));
    put(record, std::uint16_t{0});
    put(record, std::uint32_t{0});
    put(record, std::uint32_t{0600U << 16});
    put(record, capped(sizes.offset));
    record += name;
    return record + extra;
  }
};

// Returns the check sum.
std::uint32_t write_pieces(AtomicFile& out, std::span<const ZipPiece> pieces) {
  constexpr std::size_t kWindow = std::size_t{4} << 20;
  constexpr std::size_t kSmall = std::size_t{1} << 16;
  unsigned long crc = 0;
  for (const ZipPiece& piece : pieces)
    for (std::size_t at = 0; at < piece.bytes.size(); at += kWindow) {
      const Bytes window = piece.bytes.subspan(at, std::min(kWindow, piece.bytes.size() - at));
      crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(window.data()), window.size());
      out.write(window);
      if (piece.mapped && window.size() > kSmall) release_pages(window);
    }
  return static_cast<std::uint32_t>(crc);
}

}  // namespace

void ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> pieces,
                    bool deflate, std::uint32_t stamp) {
  NewEntry entry{name, deflate, stamp, 0, {0, 0, out_.size()}};
  unsigned long crc = 0;
  for (const Bytes piece : pieces) {
    entry.sizes.size += piece.size();
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  }
  entry.crc = static_cast<std::uint32_t>(crc);
  entry.sizes.packed = entry.sizes.size;
  out_.write(entry.local_header());
  const std::uint64_t begin = out_.size();
  if (deflate)
    deflate_to(out_, pieces);
  else
    for (const Bytes piece : pieces) out_.write(piece);
  entry.sizes.packed = out_.size() - begin;
  if (deflate) out_.write_at(entry.sizes.offset, as_bytes(entry.local_header()));
  directory_ += entry.directory_record();
  ++count_;
}

void ZipWriter::copy(const ZipEntry& entry) {
  const Sizes sizes{entry.size, entry.packed.size(), out_.size()};
  std::string local(as_text(entry.local_header));
  const auto flags = load_le<std::uint16_t>(entry.local_header, 6);
  std::string record(as_text(entry.directory_record));
  if ((flags & kDescriptorFlag) != 0) {
    // The sizes followed the data; they go into the header, where they could have been at once.
    const std::string extra =
        without_zip64(entry.local_header.subspan(kLocalBytes + entry.name.size()), entry.name);
    const bool is_wide = sizes.size >= kFull32 || sizes.packed >= kFull32;
    const std::string wide = is_wide ? zip64_sizes(sizes) : "";
    const auto plain = static_cast<std::uint16_t>(flags & ~kDescriptorFlag);
    std::string fixed = local.substr(0, 6);
    put(fixed, plain);
    fixed += local.substr(8, 6);
    put(fixed, entry.crc);
    put(fixed, wide.empty() ? capped(sizes.packed) : kFull32);
    put(fixed, wide.empty() ? capped(sizes.size) : kFull32);
    put(fixed, static_cast<std::uint16_t>(entry.name.size()));
    put(fixed, static_cast<std::uint16_t>(extra.size() + wide.size()));
    local = fixed + entry.name + extra + wide;
    std::memcpy(record.data() + 8, &plain, sizeof plain);
  }
  out_.write(local);
  out_.write(entry.packed);

  // The directory record differs in the offset, hence perhaps in its zip64 field.
  const auto name_bytes = entry.name.size();
  const auto extra_bytes = load_le<std::uint16_t>(entry.directory_record, 30);
  const std::string extra =
      without_zip64(entry.directory_record.subspan(kDirectoryBytes + name_bytes, extra_bytes),
                    entry.name) +
      zip64_extra(sizes, true);
  const std::array fields{capped(sizes.packed), capped(sizes.size)};
  std::memcpy(record.data() + 20, fields.data(), sizeof fields);
  const auto new_extra_bytes = static_cast<std::uint16_t>(extra.size());
  std::memcpy(record.data() + 30, &new_extra_bytes, sizeof new_extra_bytes);
  const std::uint32_t offset = capped(sizes.offset);
  std::memcpy(record.data() + 42, &offset, sizeof offset);
  directory_ += record.substr(0, kDirectoryBytes + name_bytes);
  directory_ += extra;
  directory_ += record.substr(kDirectoryBytes + name_bytes + extra_bytes);
  ++count_;
}

std::uint32_t ZipWriter::add_aligned(const std::string& name, std::span<const ZipPiece> pieces) {
  constexpr std::uint64_t kAlignment = 64;
  constexpr std::uint16_t kPaddingExtra = 0x4246;  // "FB"
  constexpr std::uint16_t kUtf8Flag = 0x0800;
  Sizes sizes{0, 0, out_.size()};
  for (const ZipPiece& piece : pieces) sizes.size += piece.bytes.size();
  sizes.packed = sizes.size;
  const auto flags =
      static_cast<std::uint16_t>(sizes.size == 0 ? kUtf8Flag : kUtf8Flag | kDescriptorFlag);
  std::string extra = zip64_extra(sizes, true);
  const bool wide = !extra.empty();
  const std::uint64_t begin = sizes.offset + kLocalBytes + name.size() + extra.size() + 4;
  const std::uint64_t padding = (kAlignment - begin % kAlignment) % kAlignment;
  put(extra, kPaddingExtra);
  put(extra, static_cast<std::uint16_t>(padding));
  extra.append(padding, 'Z');
  // Signature, versions, flags, method, time and date, then what follows the data.
  const auto fixed = [&](std::uint32_t signature, bool local, std::uint32_t crc) {
    std::string record;
    put(record, signature);
    if (!local) put(record, std::uint16_t{0});
    put(record, std::uint16_t{0});
    put(record, flags);
    put(record, std::uint16_t{0});
    put(record, std::uint32_t{0});
    put(record, crc);
    put(record, local ? 0 : capped(sizes.packed));
    put(record, local ? 0 : capped(sizes.size));
    put(record, static_cast<std::uint16_t>(name.size()));
    return record;
  };
  std::string header = fixed(kLocalSignature, true, 0);
  put(header, static_cast<std::uint16_t>(extra.size()));
  out_.write(header + name + extra);
  const std::uint32_t crc = write_pieces(out_, pieces);
  if (sizes.size != 0) {
    std::string descriptor;
    put(descriptor, kDescriptorSignature);
    put(descriptor, crc);
    for (int i = 0; i < 2; ++i) {
      if (wide)
        put(descriptor, sizes.size);
      else
        put(descriptor, capped(sizes.size));
    }
    out_.write(descriptor);
  }
  const std::string wide_extra = zip64_extra(sizes, true);
  directory_ += fixed(kDirectorySignature, false, crc);
  put(directory_, static_cast<std::uint16_t>(wide_extra.size()));
  directory_.append(10, '\0');  // no comment, first disk, no attributes
  put(directory_, capped(sizes.offset));
  directory_ += name + wide_extra;
  ++count_;
  return crc;
}

void ZipWriter::finish(const std::string& comment, bool always_wide) {
  const std::uint64_t offset = out_.size();
  const std::uint64_t bytes = directory_.size();
  out_.write(directory_);
  std::string end;
  if (always_wide || offset >= kFull32 || bytes >= kFull32 || count_ >= kFull16) {
    const std::uint64_t end64 = out_.size();
    put(end, kEnd64Signature);
    put(end, std::uint64_t{44});
    put(end, static_cast<std::uint16_t>((always_wide ? 30 : 45) | (3 << 8)));
    put(end, std::uint16_t{45});
    put(end, std::uint32_t{0});
    put(end, std::uint32_t{0});
    put(end, count_);
    put(end, count_);
    put(end, bytes);
    put(end, offset);
    put(end, kLocator64Signature);
    put(end, std::uint32_t{0});
    put(end, end64);
    put(end, std::uint32_t{1});
  }
  const auto count16 = static_cast<std::uint16_t>(std::min<std::uint64_t>(count_, kFull16));
  put(end, kEndSignature);
  put(end, std::uint16_t{0});
  put(end, std::uint16_t{0});
  put(end, count16);
  put(end, count16);
  put(end, capped(bytes));
  put(end, capped(offset));
  put(end, static_cast<std::uint16_t>(comment.size()));
  out_.write(end + comment);
}

}  // namespace oubli
