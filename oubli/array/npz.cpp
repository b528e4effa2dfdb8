#include "oubli/array/npz.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "oubli/array/npy.h"
#include "oubli/base/utf8.h"

namespace oubli {
namespace {

constexpr std::string_view kSuffix = ".npy";
// NumPy's own headers are some hundred bytes.
constexpr std::size_t kNpyHeaderLimit = std::size_t{1} << 16;

std::uint32_t stamp_of(const ZipEntry& entry) {
  std::uint32_t stamp = 0;
  std::memcpy(&stamp, entry.directory_record.data() + 12, sizeof stamp);
  return stamp;
}

void add_tensor(ZipWriter& zip, const std::string& name, const TensorView& tensor, bool deflate,
                std::uint32_t stamp) {
  const std::string header = npy_header(tensor.dtype, tensor.shape);
  const std::array pieces{as_bytes(header), tensor.bytes};
  zip.add(name + std::string(kSuffix), pieces, deflate, stamp);
}

// NumPy's arrays of text, "|S5" (bytes) or "<U5" (code points of four bytes), as lines: elements of
// a fixed length, filled up with zeros. Bytes may be text, too. Empty for other types.
std::string lines_of(const std::string& dtype_name, std::span<const std::byte> elements) {
  if (dtype_name == "|u1" || dtype_name == "|i1") return std::string(as_text(elements));
  const bool wide = dtype_name.starts_with("<U");
  if (!wide && !dtype_name.starts_with("|S")) return {};
  const std::size_t letters = std::strtoull(dtype_name.c_str() + 2, nullptr, 10);
  const std::size_t size = wide ? 4 : 1;
  std::string text;
  for (std::size_t i = 0; i < elements.size() / size; ++i) {
    if (letters != 0 && i % letters == 0) text.push_back('\n');
    std::uint32_t code = 0;
    std::memcpy(&code, elements.data() + i * size, size);
    if (wide && code != 0) append_utf8(text, code);
    if (!wide && code != 0) text.push_back(static_cast<char>(code));
  }
  return text;
}

}  // namespace

NpzFile::NpzFile(std::shared_ptr<const MappedFile> shared)
    : ArrayFile(std::move(shared)), archive_(file().bytes(), file().path().string()) {
  check_total_size();
  std::set<std::string_view> names;
  for (const ZipEntry& entry : archive_.entries()) names.insert(entry.name);
  for (const ZipEntry& entry : archive_.entries()) {
    if (!entry.name.ends_with(kSuffix)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    if (names.contains(name))
      fail(ErrorCode::bad_input,
           "{}: has an entry {} and an entry {}: programs disagree about which one is the array",
           what(name), name, entry.name);
    const auto beginning = unpack_beginning(entry, kNpyHeaderLimit, what(name));
    tensors_.push_back(parse_npy_header(beginning, entry.size, what(name)).info);
    tensors_.back().name = name;
  }
}

// As for a single entry: a small file must not ask for much.
void NpzFile::check_total_size() const {
  constexpr std::uint64_t kAlwaysAllowed = std::uint64_t{64} << 20;
  std::uint64_t packed = 0, unpacked = 0;
  for (const ZipEntry& entry : archive_.entries()) {
    if (entry.method == 0) continue;
    packed += entry.packed.size();
    if (__builtin_add_overflow(unpacked, entry.size, &unpacked)) unpacked = UINT64_MAX;
  }
  if (unpacked / 16 > packed + kAlwaysAllowed / 16)
    fail(ErrorCode::bad_input,
         "{}: {} compressed bytes would unpack to {}, suspiciously many; save it uncompressed "
         "(numpy.savez)",
         file().path().string(), packed, unpacked);
}

SharedTensor NpzFile::read(std::string_view name) const {
  (void)at(name);
  const ZipEntry* const entry = archive_.find(std::string(name) + std::string(kSuffix));
  return parse_npy(unpack(*entry, shared_bytes(entry->packed, what(name))));
}

std::optional<std::string> NpzFile::read_text(std::string_view name) const {
  const ZipEntry* const entry = archive_.find(name);
  if (entry == nullptr) return std::nullopt;
  return std::string(as_text(unpack(*entry, shared_bytes(entry->packed, what(name))).bytes));
}

std::vector<ArrayFile::Words> NpzFile::words() const {
  std::vector<Words> found;
  if (!archive_.comment().empty()) found.push_back({"the archive's comment", archive_.comment()});
  for (const ZipEntry& entry : archive_.entries()) {
    if (entry.size > kUnpackInMemory) continue;  // nobody writes that many words
    const SharedTensor unpacked = unpack(entry, shared_bytes(entry.packed, what(entry.name)));
    if (!entry.name.ends_with(kSuffix)) {
      found.push_back({entry.name, std::string(as_text(unpacked.bytes))});
      continue;
    }
    const NpyLayout layout = parse_npy_header(unpacked.bytes, unpacked.bytes.size(), entry.name);
    std::string lines =
        lines_of(layout.info.dtype_name, unpacked.bytes.subspan(layout.data_offset));
    if (!lines.empty()) found.push_back({entry.name, std::move(lines)});
  }
  return found;
}

void NpzFile::for_each_packed(
    const std::function<bool(const std::string&, std::span<const std::byte>)>& visit) const {
  for (const ZipEntry& entry : archive_.entries()) {
    if (entry.method == 0) continue;
    const SharedTensor content = unpack(entry, shared_bytes(entry.packed, what(entry.name)));
    if (!visit(entry.name, content.bytes)) return;
    content.release();
  }
}

void NpzFile::rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const {
  ZipWriter zip(out);
  std::vector<bool> done(edits.size(), false);
  for (const ZipEntry& entry : archive_.entries()) {
    const auto edit = std::ranges::find_if(edits, [&](const TensorEdit& candidate) {
      return candidate.name + std::string(kSuffix) == entry.name;
    });
    if (edit == edits.end()) {
      zip.copy(entry);
      continue;
    }
    done[static_cast<std::size_t>(edit - edits.begin())] = true;
    if (edit->tensor)
      add_tensor(zip, edit->name, *edit->tensor, entry.method == 8, stamp_of(entry));
  }
  const bool deflate =
      std::ranges::any_of(archive_.entries(), [](const ZipEntry& e) { return e.method == 8; });
  for (std::size_t i = 0; i < edits.size(); ++i)
    if (!done[i] && edits[i].tensor)
      add_tensor(zip, edits[i].name, *edits[i].tensor, deflate,
                 archive_.entries().empty() ? 0x0021'0000 : stamp_of(archive_.entries()[0]));
  zip.finish(archive_.comment());
}

void NpzWriter::add(const std::string& name, const TensorView& tensor) {
  add_tensor(zip_, name, tensor, false, 0x0021'0000);
}

void NpzWriter::add_text(const std::string& name, std::string_view text) {
  const std::array pieces{as_bytes(text)};
  zip_.add(name, pieces, false);
}

}  // namespace oubli
