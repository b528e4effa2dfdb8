#include "oubli/array/zip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "oubli/array/zip_format.h"
#include "oubli/base/byte_reader.h"
#include "oubli/base/file_chunks.h"
#include "oubli/base/scratch_file.h"

namespace oubli {
namespace {

using namespace zip;
using Bytes = std::span<const std::byte>;

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t end = 0;  // where the end record (zip64's, if there) begins
  std::string comment;
};

Directory find_directory(Bytes bytes, const std::string& what) {
  if (bytes.size() < kEndBytes)
    fail(ErrorCode::bad_input, "{}: {} bytes, too short for a zip archive", what, bytes.size());
  const std::size_t lowest = bytes.size() - std::min(bytes.size(), kEndBytes + kFull16);
  for (std::size_t at = bytes.size() - kEndBytes + 1; at-- > lowest;) {
    if (load_le<std::uint32_t>(bytes, at) != kEndSignature ||
        load_le<std::uint16_t>(bytes, at + 20) != bytes.size() - at - kEndBytes)
      continue;
    ByteReader end(bytes.subspan(at + 4), what);
    const auto disk = end.take_le<std::uint16_t>();
    const auto first_disk = end.take_le<std::uint16_t>();
    end.skip(2);
    Directory directory{
        .offset = 0, .bytes = 0, .entries = end.take_le<std::uint16_t>(), .end = at, .comment = {}};
    directory.bytes = end.take_le<std::uint32_t>();
    directory.offset = end.take_le<std::uint32_t>();
    directory.comment = end.take_text(end.take_le<std::uint16_t>());
    if (at >= 20 && load_le<std::uint32_t>(bytes, at - 20) == kLocator64Signature) {
      directory.end = load_le<std::uint64_t>(bytes, at - 12);
      if (directory.end > at - 20 || at - 20 - directory.end < 56)
        fail(ErrorCode::bad_input, "{}: the zip64 end record is said to be at {}, outside the file",
             what, directory.end);
      ByteReader end64(bytes.subspan(directory.end, 56), what);
      if (end64.take_le<std::uint32_t>() != kEnd64Signature)
        fail(ErrorCode::bad_input, "{}: no zip64 end record at {}", what, directory.end);
      end64.skip(28);
      directory.entries = end64.take_le<std::uint64_t>();
      directory.bytes = end64.take_le<std::uint64_t>();
      directory.offset = end64.take_le<std::uint64_t>();
    } else if (disk != 0 || first_disk != 0) {
      fail(ErrorCode::bad_input, "{}: a part of a multi-disk archive", what);
    }
    std::uint64_t sum = 0;
    if (__builtin_add_overflow(directory.offset, directory.bytes, &sum) || sum != directory.end)
      fail(ErrorCode::bad_input,
           "{}: the zip directory should be {} bytes at {} and end at {}: truncated or damaged",
           what, directory.bytes, directory.offset, directory.end);
    return directory;
  }
  fail(ErrorCode::bad_input, "{}: no zip end record: truncated, or not an .npz file", what);
}

// Fields of all ones are in the zip64 extra field, in this order, each only if full.
void read_zip64(std::string_view extra, Sizes& sizes, const std::string& what) {
  ByteReader reader(as_bytes(extra), what);
  while (reader.remaining() >= 4) {
    const auto id = reader.take_le<std::uint16_t>();
    const auto content = reader.take(reader.take_le<std::uint16_t>());
    if (id != kZip64Extra) continue;
    ByteReader field(content, what);
    for (std::uint64_t* const value : {&sizes.size, &sizes.packed, &sizes.offset})
      if (*value == kFull32) *value = field.take_le<std::uint64_t>();
    return;
  }
}

ZipEntry read_entry(ByteReader& reader, Bytes archive, const Directory& directory,
                    const std::string& what) {
  const std::size_t begin = reader.position();
  const Bytes fixed = reader.take(kDirectoryBytes);
  if (load_le<std::uint32_t>(fixed, 0) != kDirectorySignature)
    fail(ErrorCode::bad_input, "{}: damaged zip directory at {}", what, directory.offset + begin);
  const auto flags = load_le<std::uint16_t>(fixed, 8);
  ZipEntry entry;
  entry.method = load_le<std::uint16_t>(fixed, 10);
  entry.crc = load_le<std::uint32_t>(fixed, 16);
  Sizes sizes{load_le<std::uint32_t>(fixed, 24), load_le<std::uint32_t>(fixed, 20),
              load_le<std::uint32_t>(fixed, 42)};
  entry.name = reader.take_text(load_le<std::uint16_t>(fixed, 28));
  const std::string where = fmt::format("{}:{}", what, entry.name);
  read_zip64(reader.take_text(load_le<std::uint16_t>(fixed, 30)), sizes, where);
  reader.skip(load_le<std::uint16_t>(fixed, 32));
  entry.directory_record = archive.subspan(directory.offset + begin, reader.position() - begin);
  entry.size = sizes.size;

  if ((flags & kEncryptedFlag) != 0) fail(ErrorCode::bad_input, "{}: encrypted", where);
  if (entry.method != 0 && entry.method != 8)
    fail(ErrorCode::bad_input, "{}: zip compression {}, wanted 0 (stored) or 8 (deflated)", where,
         entry.method);
  // Everything up to the directory is fair game for an entry, and nothing beyond.
  const Bytes before = archive.first(directory.offset);
  if (sizes.offset > before.size())
    fail(ErrorCode::bad_input, "{}: said to be at {}, beyond the archive's entries", where,
         sizes.offset);
  ByteReader local(before.subspan(sizes.offset), where);
  const Bytes header = local.take(kLocalBytes);
  if (load_le<std::uint32_t>(header, 0) != kLocalSignature)
    fail(ErrorCode::bad_input, "{}: no zip entry at {}", where, sizes.offset);
  if (local.take_text(load_le<std::uint16_t>(header, 26)) != entry.name ||
      load_le<std::uint16_t>(header, 8) != entry.method)
    fail(ErrorCode::bad_input, "{}: the entry and the zip directory disagree", where);
  local.skip(load_le<std::uint16_t>(header, 28));
  entry.local_header = before.subspan(sizes.offset, local.position());
  entry.packed = local.take(sizes.packed);
  if (entry.method == 0 && sizes.packed != sizes.size)
    fail(ErrorCode::bad_input, "{}: stored as {} bytes but said to hold {}", where, sizes.packed,
         sizes.size);
  return entry;
}

// A check sum that is fed piece by piece.
class Crc {
 public:
  void add(Bytes piece) {
    value_ = ::crc32_z(value_, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  }
  void check(const ZipEntry& entry, const std::string& what) const {
    if (value_ != entry.crc)
      fail(ErrorCode::bad_input, "{}: check sum {:08x}, wanted {:08x}: damaged", what, value_,
           entry.crc);
  }

 private:
  unsigned long value_ = 0;
};

void check_crc(Bytes content, const ZipEntry& entry, const std::string& what, bool mapped) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  Crc crc;
  for (std::size_t at = 0; at < content.size(); at += kPiece) {
    const Bytes piece = content.subspan(at, std::min(kPiece, content.size() - at));
    crc.add(piece);
    if (mapped && content.size() > kPiece) release_pages(piece);
  }
  crc.check(entry, what);
}

// Unpacks a deflated stream piece by piece; zlib itself counts in 32 bits.
class Inflater {
 public:
  Inflater(Bytes packed, std::string what) : packed_(packed), what_(std::move(what)) {
    if (::inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // As many bytes as `out` has room for, or as are left; returns how many.
  std::size_t read(std::span<std::byte> out) {
    constexpr std::size_t kPiece = std::size_t{1} << 30;
    const std::size_t capacity = out.size();
    while (state_ == Z_OK && !out.empty()) {
      const auto in = packed_.first(std::min(packed_.size(), kPiece));
      const auto room = out.first(std::min(out.size(), kPiece));
      // zlib never writes through next_in; its type merely lacks the const.
      stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
      stream_.avail_in = static_cast<uInt>(in.size());
      stream_.next_out = reinterpret_cast<Bytef*>(room.data());
      stream_.avail_out = static_cast<uInt>(room.size());
      state_ = ::inflate(&stream_, Z_NO_FLUSH);
      const std::size_t used = in.size() - stream_.avail_in;
      const std::size_t made = room.size() - stream_.avail_out;
      packed_ = packed_.subspan(used);
      out = out.subspan(made);
      if (state_ == Z_OK && used == 0 && made == 0) break;
    }
    if (state_ == Z_MEM_ERROR) throw std::bad_alloc();
    if (state_ == Z_DATA_ERROR || state_ == Z_NEED_DICT)
      fail(ErrorCode::bad_input, "{}: damaged compressed data", what_);
    return capacity - out.size();
  }
  // Whether the stream's end mark was read, with all input used.
  [[nodiscard]] bool ended() const { return state_ == Z_STREAM_END && packed_.empty(); }
  [[nodiscard]] Bytes left() const { return packed_; }

 private:
  z_stream stream_{};
  Bytes packed_;
  std::string what_;
  int state_ = Z_OK;
};

[[noreturn]] void refuse_length(const ZipEntry& entry, const std::string& what) {
  fail(ErrorCode::bad_input, "{}: does not unpack to the {} bytes promised: damaged", what,
       entry.size);
}

std::vector<std::byte> unpack_to_memory(const ZipEntry& entry, const std::string& what) {
  // One byte more than promised, so that inflate() also reads the stream's end mark, and a stream
  // that goes on is seen.
  std::vector<std::byte> content(entry.size + 1);
  Inflater inflater(entry.packed, what);
  if (inflater.read(content) != entry.size || !inflater.ended()) refuse_length(entry, what);
  content.resize(entry.size);
  check_crc(content, entry, what, false);
  return content;
}

std::shared_ptr<ScratchFile> unpack_to_file(const ZipEntry& entry, const std::string& what,
                                            bool mapped) {
  auto file = std::make_shared<ScratchFile>(what);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  Inflater inflater(entry.packed, what);
  Crc crc;
  Bytes before = inflater.left();
  std::uint64_t made = 0;
  while (const std::size_t count = inflater.read(piece)) {
    made += count;
    if (made > entry.size) refuse_length(entry, what);
    crc.add(Bytes(piece).first(count));
    file->write(Bytes(piece).first(count));
    if (mapped) release_pages(before.first(before.size() - inflater.left().size()));
    before = inflater.left();
  }
  if (made != entry.size || !inflater.ended()) refuse_length(entry, what);
  crc.check(entry, what);
  (void)file->map();
  return file;
}

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> bytes, std::string what) {
  const Directory directory = find_directory(bytes, what);
  comment_ = directory.comment;
  ByteReader reader(bytes.subspan(directory.offset, directory.bytes), what);
  // Each record takes 46 bytes or more, so a lying count cannot make this reserve much.
  if (directory.entries > directory.bytes / kDirectoryBytes)
    fail(ErrorCode::bad_input, "{}: {} zip entries cannot fit a directory of {} bytes", what,
         directory.entries, directory.bytes);
  std::set<std::string_view> names;
  entries_.reserve(directory.entries);
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    entries_.push_back(read_entry(reader, bytes, directory, what));
    if (!names.insert(entries_.back().name).second)
      fail(ErrorCode::bad_input, "{}: two entries named {}", what, entries_.back().name);
  }
  if (reader.remaining() != 0)
    fail(ErrorCode::bad_input, "{}: {} bytes left over in the zip directory", what,
         reader.remaining());

  std::vector<std::pair<const std::byte*, const std::byte*>> extents;
  for (const ZipEntry& entry : entries_)
    extents.emplace_back(entry.local_header.data(), entry.packed.data() + entry.packed.size());
  std::ranges::sort(extents);
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].first < extents[i - 1].second)
      fail(ErrorCode::bad_input, "{}: zip entries overlap", what);
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &ZipEntry::name);
  return found == entries_.end() ? nullptr : &*found;
}

SharedTensor unpack(const ZipEntry& entry, const SharedTensor& packed) {
  const std::string& what = packed.what;
  if (entry.method == 0) {
    check_crc(packed.bytes, entry, what, packed.mapped);
    return packed;
  }
  constexpr std::uint64_t kAlwaysAllowed = std::uint64_t{64} << 20;
  if (entry.size > kAlwaysAllowed + 16 * static_cast<std::uint64_t>(entry.packed.size()))
    fail(ErrorCode::bad_input,
         "{}: {} bytes would unpack to {}, suspiciously many; save it uncompressed (numpy.savez)",
         what, entry.packed.size(), entry.size);
  SharedTensor unpacked;
  if (entry.size > kUnpackInMemory) {
    const std::shared_ptr<const ScratchFile> scratch = unpack_to_file(entry, what, packed.mapped);
    unpacked = {{DType::u8, {entry.size}, scratch->bytes(), what}, scratch, packed.file, true};
  } else {
    unpacked = share({DType::u8, {entry.size}, unpack_to_memory(entry, what)}, what);
    unpacked.file = packed.file;
  }
  return unpacked;
}

SharedTensor unpack(const ZipEntry& entry, const std::string& what, bool mapped) {
  return unpack(
      entry, SharedTensor{
                 {DType::u8, {entry.packed.size()}, entry.packed, what}, nullptr, nullptr, mapped});
}

std::vector<std::byte> unpack_beginning(const ZipEntry& entry, std::size_t limit,
                                        const std::string& what) {
  std::vector<std::byte> beginning(
      static_cast<std::size_t>(std::min<std::uint64_t>(limit, entry.size)));
  if (entry.method == 0)
    std::ranges::copy(entry.packed.first(beginning.size()), beginning.begin());
  else
    beginning.resize(Inflater(entry.packed, what).read(beginning));
  return beginning;
}

}  // namespace oubli
