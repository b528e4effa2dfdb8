#include "oubli/array/zip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "oubli/base/byte_reader.h"
#include "oubli/base/file_windows.h"

namespace oubli {
namespace {

// Numbers of the specification (APPNOTE 6.3.10), sections 4.3.7 to 4.3.16 and 4.5.3.
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kDirectorySignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kDirectoryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::uint32_t kFull32 = 0xFFFF'FFFF;
constexpr std::uint16_t kFull16 = 0xFFFF;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kEncryptedFlag = 1;
constexpr std::uint16_t kDescriptorFlag = 8;

using Bytes = std::span<const std::byte>;

template <std::unsigned_integral T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

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

struct Sizes {
  std::uint64_t size;
  std::uint64_t packed;
  std::uint64_t offset;
};

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

void deflate_to(AtomicFile& out, std::span<const Bytes> pieces) {
  z_stream stream{};
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const struct Ender {
    z_stream* stream;
    ~Ender() { ::deflateEnd(stream); }
  } ender{&stream};
  std::vector<std::byte> buffer(std::size_t{1} << 16);
  const auto run = [&](Bytes in, int flush) {
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(in.data()));
    stream.avail_in = static_cast<uInt>(in.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      (void)::deflate(&stream, flush);
      out.write(std::span(buffer).first(buffer.size() - stream.avail_out));
    } while (stream.avail_out == 0);
  };
  for (Bytes piece : pieces)
    while (!piece.empty()) {
      const auto part = piece.first(std::min<std::size_t>(piece.size(), std::size_t{1} << 30));
      run(part, Z_NO_FLUSH);
      piece = piece.subspan(part.size());
    }
  run({}, Z_FINISH);
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

std::uint32_t capped(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kFull32));
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

UnpackedEntry unpack(const ZipEntry& entry, const std::string& what, bool mapped) {
  if (entry.method == 0) {
    check_crc(entry.packed, entry, what, mapped);
    return {entry.packed, {}, nullptr};
  }
  constexpr std::uint64_t kAlwaysAllowed = std::uint64_t{64} << 20;
  if (entry.size > kAlwaysAllowed + 16 * static_cast<std::uint64_t>(entry.packed.size()))
    fail(ErrorCode::bad_input,
         "{}: {} bytes would unpack to {}, suspiciously many; save it uncompressed (numpy.savez)",
         what, entry.packed.size(), entry.size);
  UnpackedEntry unpacked;
  if (entry.size > kUnpackInMemory) {
    unpacked.scratch = unpack_to_file(entry, what, mapped);
    unpacked.bytes = unpacked.scratch->bytes();
  } else {
    unpacked.storage = unpack_to_memory(entry, what);
    unpacked.bytes = unpacked.storage;
  }
  return unpacked;
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

void ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> pieces,
                    bool deflate, std::uint32_t stamp) {
  Sizes sizes{0, 0, out_.size()};
  unsigned long crc = 0;
  for (const Bytes piece : pieces) {
    sizes.size += piece.size();
    crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  }
  sizes.packed = sizes.size;
  // Deflate can grow incompressible data by some 5 bytes in 16 kB; with that margin the choice can
  // be made before the packed size is known.
  const bool wide = sizes.size + sizes.size / 1024 + 1024 >= kFull32;
  const auto method = static_cast<std::uint16_t>(deflate ? 8 : 0);
  const auto header = [&] {
    std::string local;
    put(local, kLocalSignature);
    put(local, static_cast<std::uint16_t>(wide ? 45 : 20));
    put(local, std::uint16_t{0});
    put(local, method);
    put(local, stamp);
    put(local, static_cast<std::uint32_t>(crc));
    put(local, wide ? kFull32 : capped(sizes.packed));
    put(local, wide ? kFull32 : capped(sizes.size));
    put(local, static_cast<std::uint16_t>(name.size()));
    put(local, static_cast<std::uint16_t>(wide ? 20 : 0));
    local += name;
    if (wide) {
      put(local, kZip64Extra);
      put(local, std::uint16_t{16});
      put(local, sizes.size);
      put(local, sizes.packed);
    }
    return local;
  };
  out_.write(header());
  const std::uint64_t begin = out_.size();
  if (deflate)
    deflate_to(out_, pieces);
  else
    for (const Bytes piece : pieces) out_.write(piece);
  sizes.packed = out_.size() - begin;
  if (deflate) out_.write_at(sizes.offset, as_bytes(header()));

  const std::string extra = zip64_extra(sizes, true);
  put(directory_, kDirectorySignature);
  put(directory_, std::uint16_t{45 | (3 << 8)});  // made by version 4.5, Unix
  put(directory_, static_cast<std::uint16_t>(extra.empty() ? 20 : 45));
  put(directory_, std::uint16_t{0});
  put(directory_, method);
  put(directory_, stamp);
  put(directory_, static_cast<std::uint32_t>(crc));
  put(directory_, capped(sizes.packed));
  put(directory_, capped(sizes.size));
  put(directory_, static_cast<std::uint16_t>(name.size()));
  put(directory_, static_cast<std::uint16_t>(extra.size()));
  put(directory_, std::uint16_t{0});
  put(directory_, std::uint32_t{0});
  put(directory_, std::uint32_t{0600U << 16});
  put(directory_, capped(sizes.offset));
  directory_ += name;
  directory_ += extra;
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
    std::string wide;
    if (sizes.size >= kFull32 || sizes.packed >= kFull32) {
      put(wide, kZip64Extra);
      put(wide, std::uint16_t{16});
      put(wide, sizes.size);
      put(wide, sizes.packed);
    }
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

void ZipWriter::finish(const std::string& comment) {
  const std::uint64_t offset = out_.size();
  const std::uint64_t bytes = directory_.size();
  out_.write(directory_);
  std::string end;
  if (offset >= kFull32 || bytes >= kFull32 || count_ >= kFull16) {
    const std::uint64_t end64 = out_.size();
    put(end, kEnd64Signature);
    put(end, std::uint64_t{44});
    put(end, std::uint16_t{45 | (3 << 8)});
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
