#include "oubli/array/npy.h"

#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <utility>

#include "oubli/base/byte_reader.h"
#include "oubli/base/text_cursor.h"

namespace oubli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NumpyCode {
  std::string_view descr;
  DType type;
};
constexpr std::array<NumpyCode, 12> kNumpyCodes{{{"<f2", DType::f16},
                                                 {"<f4", DType::f32},
                                                 {"<f8", DType::f64},
                                                 {"|i1", DType::i8},
                                                 {"|u1", DType::u8},
                                                 {"<i2", DType::i16},
                                                 {"<u2", DType::u16},
                                                 {"<i4", DType::i32},
                                                 {"<u4", DType::u32},
                                                 {"<i8", DType::i64},
                                                 {"<u8", DType::u64},
                                                 {"|b1", DType::boolean}}};

// Reads the header's dict literal. Only what NumPy writes is accepted: three known keys, strings
// without escapes, True or False, a tuple of non-negative integers.
class HeaderParser : private TextCursor {
 public:
  HeaderParser(std::string_view text, const std::string& what)
      : TextCursor(text, what, "not a valid .npy header") {}

  void parse(NpyLayout& layout) {
    expect('{');
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    while (!accept('}')) {
      const std::string_view key = string_literal();
      expect(':');
      if (key == "descr" && !std::exchange(has_descr, true)) {
        layout.info.dtype_name = peek() == '[' ? list_literal() : string_literal();
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        layout.fortran_order = boolean();
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        layout.info.shape = tuple();
      } else {
        broken(fmt::format("unexpected key '{}'", key));
      }
      if (accept('}')) break;
      expect(',');
    }
    if (peek() != '\0') broken("text after the header's dict");
    if (!has_descr || !has_order || !has_shape) broken("descr, fortran_order or shape is missing");
  }

 private:
  std::string_view string_literal() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') broken("wanted a string");
    const std::size_t begin = ++position_;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) broken("a string without end");
    position_ = end + 1;
    return text_.substr(begin, end - begin);
  }
  // A structured type, as it is spelled.
  std::string_view list_literal() {
    const std::size_t begin = position_;
    std::size_t depth = 0;
    do {
      const char c = peek();
      if (c == '\0') broken("a list without end");
      if (c == '\'' || c == '"') {
        (void)string_literal();
        continue;
      }
      if (c == '[') ++depth;
      if (c == ']') --depth;
      ++position_;
    } while (depth > 0);
    return text_.substr(begin, position_ - begin);
  }
  bool boolean() {
    (void)peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) != word) continue;
      position_ += word.size();
      return value;
    }
    broken("wanted True or False");
  }
  std::vector<std::size_t> tuple() {
    std::vector<std::size_t> extents;
    expect('(');
    while (!accept(')')) {
      extents.push_back(integer());
      if (extents.size() > 32) broken("more than 32 dimensions");
      if (accept(')')) break;
      expect(',');
    }
    return extents;
  }
};

std::optional<DType> dtype_of(std::string_view descr) {
  for (const NumpyCode& code : kNumpyCodes)
    // '=' and, for one-byte types, any order mark mean the same here.
    if (descr == code.descr || (descr.size() == 3 && descr.substr(1) == code.descr.substr(1) &&
                                (descr[0] == '=' || size_of(code.type) == 1)))
      return code.type;
  return std::nullopt;
}

[[noreturn]] void refuse_type(const std::string& descr, const std::string& what) {
  if (descr.starts_with('>'))
    fail(ErrorCode::bad_input, "{}: big-endian elements ('{}'); save with .astype('<{}')", what,
         descr, descr.substr(1));
  if (descr.starts_with('['))
    fail(ErrorCode::bad_input, "{}: a structured type; save plain numbers instead", what);
  fail(ErrorCode::bad_input,
       "{}: elements of type '{}', wanted float16/32/64, an integer type or bool "
       "(bfloat16: use .safetensors)",
       what, descr);
}

// dst (row-major) = src (column-major), elements of `size` bytes.
std::vector<std::byte> from_fortran_order(std::span<const std::byte> src,
                                          std::span<const std::size_t> shape, std::size_t size) {
  std::vector<std::byte> dst(src.size());
  std::vector<std::size_t> index(shape.size(), 0);
  std::vector<std::size_t> stride(shape.size());  // of the destination, in bytes
  std::size_t step = size;
  for (std::size_t axis = shape.size(); axis-- > 0; step *= shape[axis]) stride[axis] = step;
  std::size_t offset = 0;
  for (std::size_t position = 0; position < src.size(); position += size) {
    std::memcpy(dst.data() + offset, src.data() + position, size);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      offset += stride[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return dst;
}

}  // namespace

NpyLayout parse_npy_header(std::span<const std::byte> bytes, std::uint64_t total,
                           const std::string& what) {
  ByteReader reader(bytes, what);
  if (reader.remaining() < kMagic.size() + 2 || reader.take_text(kMagic.size()) != kMagic)
    fail(ErrorCode::bad_input, "{}: does not begin as an .npy file does", what);
  const auto major = reader.take_le<std::uint8_t>();
  reader.skip(1);
  if (major < 1 || major > 3)
    fail(ErrorCode::bad_input, "{}: .npy version {}, wanted 1 to 3", what, major);
  const std::uint32_t length =
      major == 1 ? reader.take_le<std::uint16_t>() : reader.take_le<std::uint32_t>();
  NpyLayout layout;
  HeaderParser(reader.take_text(length), what).parse(layout);
  layout.info.dtype = dtype_of(layout.info.dtype_name);
  layout.data_offset = reader.position();
  const std::size_t count = element_count(layout.info.shape, what);
  if (!layout.info.dtype) return layout;
  std::size_t wanted = 0;
  if (__builtin_mul_overflow(count, size_of(*layout.info.dtype), &wanted) ||
      layout.data_offset > total || wanted != total - layout.data_offset)
    fail(ErrorCode::bad_input,
         "{}: the header promises {} [{}], the file holds {} bytes of elements", what,
         name_of(*layout.info.dtype), fmt::join(layout.info.shape, ", "),
         total - std::min<std::uint64_t>(total, layout.data_offset));
  return layout;
}

SharedTensor parse_npy(const SharedTensor& image) {
  NpyLayout layout = parse_npy_header(image.bytes, image.bytes.size(), image.what);
  if (!layout.info.dtype) refuse_type(layout.info.dtype_name, image.what);
  const DType dtype = *layout.info.dtype;
  const std::span<const std::byte> elements = image.bytes.subspan(layout.data_offset);
  if (layout.fortran_order && layout.info.shape.size() > 1) {
    SharedTensor ordered = share(
        {dtype, layout.info.shape, from_fortran_order(elements, layout.info.shape, size_of(dtype))},
        image.what);
    ordered.file = image.file;
    return ordered;
  }
  SharedTensor tensor = image;
  tensor.dtype = dtype;
  tensor.shape = std::move(layout.info.shape);
  tensor.bytes = elements;
  return tensor;
}

SharedTensor parse_npy(std::span<const std::byte> image, const std::string& what) {
  return parse_npy({{DType::u8, {image.size()}, image, what}, nullptr, nullptr, false});
}

std::string npy_header(DType dtype, std::span<const std::size_t> shape) {
  std::string_view descr;
  for (const NumpyCode& code : kNumpyCodes)
    if (code.type == dtype) descr = code.descr;
  if (descr.empty())
    fail(ErrorCode::bad_input, "{} has no .npy type; use .safetensors", name_of(dtype));
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 descr, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // Version 1.0: magic, two version bytes, two length bytes; 32 extents of 20 digits fit easily.
  constexpr std::size_t kPrefix = 10;
  dict.append(63 - (kPrefix + dict.size()) % 64, ' ').push_back('\n');
  std::string header(kMagic);
  header +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

void write_npy(const std::filesystem::path& path, const TensorView& tensor, bool replace) {
  NpyWriter writer(path, tensor.dtype, tensor.shape, replace);
  writer.append(tensor.bytes);
  writer.commit();
}

NpyWriter::NpyWriter(const std::filesystem::path& path, DType dtype, std::vector<std::size_t> shape,
                     bool replace)
    : file_(path, replace), wanted_bytes_(element_count(shape, path.string()) * size_of(dtype)) {
  const std::string header = npy_header(dtype, shape);
  wanted_bytes_ += header.size();
  file_.write(header);
}

void NpyWriter::append(std::span<const std::byte> elements) { file_.write(elements); }

void NpyWriter::commit() {
  if (file_.size() != wanted_bytes_)
    throw std::logic_error(
        fmt::format(".npy: {} bytes written, {} promised", file_.size(), wanted_bytes_));
  file_.commit();
}

NpyFile::NpyFile(std::shared_ptr<const MappedFile> file)
    : ArrayFile(std::move(file)),
      layout_(parse_npy_header(this->file().bytes(), this->file().bytes().size(), what(""))) {
  if (!layout_.info.dtype) refuse_type(layout_.info.dtype_name, what(""));
}

SharedTensor NpyFile::read(std::string_view name) const {
  (void)at(name);
  return parse_npy(shared_bytes(file().bytes(), what(name)));
}

void NpyFile::rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const {
  if (edits.empty()) return out.write(file().bytes());
  if (edits.size() != 1 || !edits[0].name.empty() || !edits[0].tensor)
    fail(ErrorCode::unfilterable, "{}: an .npy file holds exactly one array",
         file().path().string());
  out.write(npy_header(edits[0].tensor->dtype, edits[0].tensor->shape));
  out.write(edits[0].tensor->bytes);
}

}  // namespace oubli
