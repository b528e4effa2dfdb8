#include "oubli/array/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "oubli/base/byte_reader.h"
#include "oubli/base/text_cursor.h"

namespace oubli {
namespace {

struct Code {
  std::string_view name;
  DType type;
};
constexpr std::array<Code, 13> kCodes{{{"F16", DType::f16},
                                       {"BF16", DType::bf16},
                                       {"F32", DType::f32},
                                       {"F64", DType::f64},
                                       {"I8", DType::i8},
                                       {"U8", DType::u8},
                                       {"I16", DType::i16},
                                       {"U16", DType::u16},
                                       {"I32", DType::i32},
                                       {"U32", DType::u32},
                                       {"I64", DType::i64},
                                       {"U64", DType::u64},
                                       {"BOOL", DType::boolean}}};

// The format's own limit.
constexpr std::uint64_t kHeaderLimit = 100'000'000;

// Walks through the header's JSON, whose grammar is fixed: an object of objects of texts, numbers
// and lists of numbers. A general parser would lose the spelling of what we must copy, and would
// accept a name twice.
class JsonCursor : public TextCursor {
 public:
  JsonCursor(std::string_view text, const std::string& what)
      : TextCursor(text, what, "damaged .safetensors header") {}

  // A string as it is spelled, quotes included.
  std::string_view raw_string() {
    if (peek() != '"') broken("wanted a string");
    const std::size_t begin = position_++;
    while (position_ < text_.size() && text_[position_] != '"')
      position_ += text_[position_] == '\\' ? 2U : 1U;
    if (position_ >= text_.size()) broken("a string without end");
    ++position_;
    return text_.substr(begin, position_ - begin);
  }
  std::string decode(std::string_view raw) const {
    const auto value = nlohmann::json::parse(raw, nullptr, false);
    if (!value.is_string()) broken("not a valid string");
    return value.get<std::string>();
  }
  std::vector<std::size_t> integers() {
    std::vector<std::size_t> values;
    expect('[');
    if (accept(']')) return values;
    do {
      values.push_back(integer());
      if (values.size() > 32) broken("more than 32 numbers");
    } while (accept(','));
    expect(']');
    return values;
  }
  // {"text": "text", ...} as it is spelled.
  std::string_view text_object() {
    (void)peek();
    const std::size_t begin = position_;
    expect('{');
    if (!accept('}')) {
      do {
        (void)decode(raw_string());
        expect(':');
        (void)decode(raw_string());
      } while (accept(','));
      expect('}');
    }
    return text_.substr(begin, position_ - begin);
  }
};

struct Extent {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Extent read_tensor(JsonCursor& cursor, TensorInfo& info) {
  bool has_dtype = false;
  bool has_shape = false;
  std::vector<std::size_t> offsets;
  cursor.expect('{');
  do {
    const std::string key = cursor.decode(cursor.raw_string());
    cursor.expect(':');
    if (key == "dtype" && !std::exchange(has_dtype, true)) {
      info.dtype_name = cursor.decode(cursor.raw_string());
    } else if (key == "shape" && !std::exchange(has_shape, true)) {
      info.shape = cursor.integers();
    } else if (key == "data_offsets" && offsets.empty()) {
      offsets = cursor.integers();
      if (offsets.size() != 2) cursor.broken("wanted two data_offsets");
    } else {
      cursor.broken(fmt::format("unexpected key '{}' in tensor '{}'", key, info.name));
    }
  } while (cursor.accept(','));
  cursor.expect('}');
  if (!has_dtype || !has_shape || offsets.empty())
    cursor.broken(fmt::format("tensor '{}' lacks dtype, shape or data_offsets", info.name));
  for (const Code& code : kCodes)
    if (code.name == info.dtype_name) info.dtype = code.type;
  return {offsets[0], offsets[1]};
}

std::string header_entry(std::string_view key, std::string_view dtype,
                         std::span<const std::size_t> shape, const Extent& extent) {
  return fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", key, dtype,
                     fmt::join(shape, ","), extent.begin, extent.end);
}

std::string_view code_of(DType type) { return std::ranges::find(kCodes, type, &Code::type)->name; }

void write_header(AtomicFile& out, std::span<const std::string> entries) {
  std::string header = fmt::format("{{{}}}", fmt::join(entries, ","));
  header.append((8 - header.size() % 8) % 8, ' ');  // so that the elements are aligned
  const std::uint64_t length = header.size();
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(header);
}

// Every byte of the elements belongs to one tensor.
void require_covered(std::vector<Extent> extents, std::size_t bytes, const std::string& path) {
  std::ranges::sort(extents, {}, [](const Extent& e) { return std::pair(e.begin, e.end); });
  std::size_t reached = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != reached)
      fail(ErrorCode::bad_input, "{}: {} between bytes {} and {} of the elements", path,
           extent.begin < reached ? "tensors overlap" : "a gap", std::min(extent.begin, reached),
           std::max(extent.begin, reached));
    reached = extent.end;
  }
  if (reached != bytes)
    fail(ErrorCode::bad_input, "{}: {} bytes after the last tensor", path, bytes - reached);
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::shared_ptr<const MappedFile> shared)
    : ArrayFile(std::move(shared)) {
  const std::string path = file().path().string();
  ByteReader reader(file().bytes(), path);
  const auto length = reader.take_le<std::uint64_t>();
  if (length > kHeaderLimit)
    fail(ErrorCode::bad_input, "{}: a header of {} bytes; not a .safetensors file, or damaged",
         path, length);
  const std::string_view header = reader.take_text(length);
  const auto data = reader.take(reader.remaining());

  JsonCursor cursor(header, path);
  std::vector<Extent> extents;
  std::set<std::string> names;
  bool has_metadata = false;
  cursor.expect('{');
  if (!cursor.accept('}')) {
    do {
      const std::string_view key = cursor.raw_string();
      const std::string name = cursor.decode(key);
      if (!names.insert(name).second) cursor.broken(fmt::format("two tensors named '{}'", name));
      cursor.expect(':');
      if (name == "__metadata__" && !std::exchange(has_metadata, true)) {
        metadata_ = cursor.text_object();
        metadata_position_ = tensors_.size();
        continue;
      }
      TensorInfo info;
      info.name = name;
      const Extent extent = read_tensor(cursor, info);
      if (extent.begin > extent.end || extent.end > data.size())
        fail(ErrorCode::bad_input, "{}: data_offsets [{}, {}] outside the {} bytes of elements",
             what(name), extent.begin, extent.end, data.size());
      if (info.dtype) {
        std::size_t bytes = 0;
        if (__builtin_mul_overflow(element_count(info.shape, what(name)), size_of(*info.dtype),
                                   &bytes) ||
            bytes != extent.end - extent.begin)
          fail(ErrorCode::bad_input, "{}: {} [{}] does not take the {} bytes given to it",
               what(name), info.dtype_name, fmt::join(info.shape, ", "), extent.end - extent.begin);
      }
      tensors_.push_back(std::move(info));
      places_.push_back({key, data.subspan(extent.begin, extent.end - extent.begin)});
      extents.push_back(extent);
    } while (cursor.accept(','));
    cursor.expect('}');
  }
  if (cursor.peek() != '\0' || cursor.position() < header.size())
    cursor.broken("text after the header");

  require_covered(std::move(extents), data.size(), path);
}

std::vector<ArrayFile::Words> SafetensorsFile::words() const {
  std::vector<Words> found;
  if (!metadata_.empty()) found.push_back({"__metadata__", std::string(metadata_)});
  constexpr std::size_t kMostWords = std::size_t{16} << 20;  // nobody writes more
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if ((tensors_[i].dtype == DType::u8 || tensors_[i].dtype == DType::i8) &&
        places_[i].bytes.size() <= kMostWords)
      found.push_back({tensors_[i].name, std::string(as_text(places_[i].bytes))});
  return found;
}

SharedTensor SafetensorsFile::read(std::string_view name) const {
  const TensorInfo& info = at(name);
  if (!info.dtype)
    fail(ErrorCode::bad_input, "{}: elements of type {}, which cannot be computed with here",
         what(name), info.dtype_name);
  SharedTensor tensor =
      shared_bytes(places_[static_cast<std::size_t>(&info - tensors_.data())].bytes, what(name));
  tensor.dtype = *info.dtype;
  tensor.shape = info.shape;
  return tensor;
}

void SafetensorsFile::rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const {
  struct Item {
    std::string key;
    std::string_view dtype;
    std::span<const std::size_t> shape;
    std::span<const std::byte> bytes;
    Extent extent;
  };
  const auto item_of = [](std::string key, const TensorView& tensor) {
    return Item{std::move(key), code_of(tensor.dtype), tensor.shape, tensor.bytes, {}};
  };
  std::vector<Item> items;
  std::vector<std::pair<const std::byte*, std::size_t>> data_order;  // by where they were
  std::size_t metadata_position = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (i == metadata_position_) metadata_position = items.size();
    const auto edit = std::ranges::find(edits, tensors_[i].name, &TensorEdit::name);
    if (edit != edits.end() && !edit->tensor) continue;
    data_order.emplace_back(places_[i].bytes.data(), items.size());
    if (edit != edits.end())
      items.push_back(item_of(std::string(places_[i].key), *edit->tensor));
    else
      items.push_back({std::string(places_[i].key),
                       tensors_[i].dtype_name,
                       tensors_[i].shape,
                       places_[i].bytes,
                       {}});
  }
  if (metadata_position_ >= tensors_.size()) metadata_position = items.size();
  std::ranges::stable_sort(data_order, {}, &std::pair<const std::byte*, std::size_t>::first);
  for (const TensorEdit& edit : edits)
    if (edit.tensor && find(edit.name) == nullptr) {
      data_order.emplace_back(nullptr, items.size());
      items.push_back(item_of(nlohmann::json(edit.name).dump(), *edit.tensor));
    }

  std::size_t offset = 0;
  for (const auto& [place, index] : data_order) {
    items[index].extent = {offset, offset + items[index].bytes.size()};
    offset = items[index].extent.end;
  }
  std::vector<std::string> entries;
  entries.reserve(items.size() + 1);
  for (const Item& item : items)
    entries.push_back(header_entry(item.key, item.dtype, item.shape, item.extent));
  if (!metadata_.empty())
    entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(metadata_position),
                   fmt::format("\"__metadata__\":{}", metadata_));
  write_header(out, entries);
  for (const auto& [place, index] : data_order) out.write(items[index].bytes);
}

}  // namespace oubli
