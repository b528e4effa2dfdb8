#include "oubli/array/packed_stream.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "oubli/base/error.h"

namespace oubli {
namespace {

using Bytes = std::span<const std::byte>;
constexpr int kEitherHeader = 32;
constexpr int kGzipHeader = 16;
constexpr std::size_t kPiece = std::size_t{1} << 20;

struct Inflating {
  z_stream stream{};
  explicit Inflating(Bytes packed) {
    if (::inflateInit2(&stream, MAX_WBITS + kEitherHeader) != Z_OK) throw std::bad_alloc();
    // zlib never writes through next_in; its type merely lacks the const.
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
  }
  ~Inflating() { ::inflateEnd(&stream); }
  Inflating(const Inflating&) = delete;
  Inflating& operator=(const Inflating&) = delete;

  // Into `out`, from at most `in` more bytes of the input; how many were made.
  std::size_t run(std::span<std::byte> out, std::size_t& in, int& state) {
    stream.avail_in = static_cast<uInt>(std::min(in, kPiece));
    const std::size_t offered = stream.avail_in;
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    state = ::inflate(&stream, Z_NO_FLUSH);
    in -= offered - stream.avail_in;
    return out.size() - stream.avail_out;
  }
};

}  // namespace

Packing packing_of(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return Packing::gzip;
  if (start.size() >= 2 && start[0] == '\x78' &&
      std::string_view("\x01\x5e\x9c\xda").find(start[1]) != std::string_view::npos)
    return Packing::zlib;
  return Packing::none;
}

std::string unpack_start(std::string_view start, std::size_t limit) {
  std::string beginning(limit, '\0');
  Inflating inflating(as_bytes(start));
  std::size_t in = start.size();
  int state = Z_OK;
  beginning.resize(
      inflating.run(std::as_writable_bytes(std::span(beginning.data(), limit)), in, state));
  return beginning;
}

std::vector<std::byte> unpack_stream(Bytes packed, const std::string& what) {
  const std::size_t most = (std::size_t{64} << 20) + 16 * packed.size();
  std::vector<std::byte> content;
  Inflating inflating(packed);
  std::size_t in = packed.size();
  int state = Z_OK;
  while (state == Z_OK) {
    const std::size_t made = content.size();
    if (made > most)
      fail(ErrorCode::bad_input,
           "{}: {} bytes unpack to more than {}, suspiciously many; save it uncompressed", what,
           packed.size(), most);
    content.resize(made + kPiece);
    const std::size_t before = in;
    const std::size_t more = inflating.run(std::span(content).subspan(made), in, state);
    content.resize(made + more);
    if (state == Z_MEM_ERROR) throw std::bad_alloc();
    if (state == Z_BUF_ERROR || (state == Z_OK && more == 0 && in == before)) break;
  }
  if (state != Z_STREAM_END)
    fail(ErrorCode::bad_input, "{}: damaged compressed data, or cut off", what);
  if (in != 0) fail(ErrorCode::bad_input, "{}: {} bytes behind the compressed data", what, in);
  return content;
}

struct PackedWriter::Stream {
  z_stream stream{};
  std::vector<std::byte> buffer = std::vector<std::byte>(std::size_t{1} << 16);
};

PackedWriter::PackedWriter(AtomicFile& out, Packing packing) : out_(out) {
  if (packing == Packing::none) return;
  stream_ = std::make_unique<Stream>();
  const bool bare = packing == Packing::deflate;
  const int level = bare ? Z_DEFAULT_COMPRESSION : 3;  // joblib's own
  const int window = bare ? -MAX_WBITS : MAX_WBITS + (packing == Packing::gzip ? kGzipHeader : 0);
  if (::deflateInit2(&stream_->stream, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
}

PackedWriter::~PackedWriter() {
  if (stream_) ::deflateEnd(&stream_->stream);
}

void PackedWriter::write(Bytes bytes) {
  if (!stream_) return out_.write(bytes);
  while (!bytes.empty()) {
    const Bytes piece = bytes.first(std::min(bytes.size(), kPiece));
    stream_->stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));
    stream_->stream.avail_in = static_cast<uInt>(piece.size());
    while (stream_->stream.avail_in != 0) {
      stream_->stream.next_out = reinterpret_cast<Bytef*>(stream_->buffer.data());
      stream_->stream.avail_out = static_cast<uInt>(stream_->buffer.size());
      (void)::deflate(&stream_->stream, Z_NO_FLUSH);
      out_.write(Bytes(stream_->buffer).first(stream_->buffer.size() - stream_->stream.avail_out));
    }
    bytes = bytes.subspan(piece.size());
  }
}

void PackedWriter::finish() {
  if (!stream_) return;
  int state = Z_OK;
  while (state == Z_OK) {
    stream_->stream.next_out = reinterpret_cast<Bytef*>(stream_->buffer.data());
    stream_->stream.avail_out = static_cast<uInt>(stream_->buffer.size());
    state = ::deflate(&stream_->stream, Z_FINISH);
    out_.write(Bytes(stream_->buffer).first(stream_->buffer.size() - stream_->stream.avail_out));
  }
}

}  // namespace oubli
