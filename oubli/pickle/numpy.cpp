#include "oubli/pickle/numpy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "oubli/base/byte_reader.h"
#include "oubli/base/error.h"
#include "oubli/base/utf8.h"

namespace oubli::pickle {
namespace {

struct ElementType {
  char kind = 0;
  std::size_t size = 0;
  bool little = true;
};

// numpy.dtype('f8', False, True) and the state (3, '<', None, None, None, size, ...).
std::optional<ElementType> element_type(const Pickle& pickle, Ref dtype) {
  if (pickle.callee(dtype) != "numpy.dtype") return std::nullopt;
  const Ref name = pickle.argument(dtype, 0);
  if (!pickle.is(name, Kind::text)) return std::nullopt;
  std::string_view text = pickle.text(name);
  ElementType type;
  if (!text.empty() && std::string_view("<>|=").find(text[0]) != std::string_view::npos) {
    type.little = text[0] != '>';
    text.remove_prefix(1);
  }
  if (text.size() < 2 || std::string_view("fiubUSO").find(text[0]) == std::string_view::npos)
    return std::nullopt;
  type.kind = text[0];
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), type.size);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (type.size == 0) return std::nullopt;
  if (type.kind == 'U' && __builtin_mul_overflow(type.size, 4, &type.size)) return std::nullopt;
  const Ref state = pickle.state(dtype);
  const auto part = [&](std::size_t n) { return pickle.child(state, Part::items, n); };
  if (pickle.is_text(part(1), ">")) type.little = false;
  // Records and arrays inside of elements
  for (const std::size_t n : {std::size_t{2}, std::size_t{3}})
    if (part(n) != kNothing && !pickle.is(part(n), Kind::none)) return std::nullopt;
  return type;
}

bool read_shape(const Pickle& pickle, Ref tuple, NumpyArray& array) {
  constexpr std::size_t kMostSides = 64;
  if (!pickle.is(tuple, Kind::tuple) || !pickle.has_at_most(tuple, Part::items, kMostSides))
    return false;
  array.shape_tuple = tuple;
  array.shapes = pickle.children(tuple, Part::items);
  std::uint64_t bytes = array.item_size;
  for (const Ref side : array.shapes) {
    if (!pickle.is(side, Kind::integer) || pickle.integer(side) < 0) return false;
    array.shape.push_back(static_cast<std::size_t>(pickle.integer(side)));
    if (__builtin_mul_overflow(bytes, array.shape.back(), &bytes)) return false;
  }
  return true;
}

std::size_t count_of(const NumpyArray& array) {
  std::size_t count = 1;
  for (const std::size_t side : array.shape) count *= side;
  return count;
}

bool set_type(const Pickle& pickle, Ref dtype, NumpyArray& array) {
  const auto type = element_type(pickle, dtype);
  if (!type) return false;
  array.kind = type->kind;
  array.item_size = type->size;
  array.little = type->little;
  return true;
}

// Elements in a value of the pickle: bytes, or a list of objects.
bool set_content(const Pickle& pickle, Ref content, NumpyArray& array) {
  if (array.kind == 'O') {
    const std::size_t count = count_of(array);
    array.objects = content;
    return pickle.is(content, Kind::list) && pickle.has_at_most(content, Part::items, count) &&
           (count == 0 || pickle.child(content, Part::items, count - 1) != kNothing);
  }
  if (!pickle.is(content, Kind::bytes)) return false;
  array.content = content;
  const Extent where = pickle.payload(content);
  array.bytes = pickle.source().subspan(where.begin, where.end - where.begin);
  return array.bytes.size() == count_of(array) * array.item_size;
}

std::optional<NumpyArray> read_reconstructed(const Pickle& pickle, Ref ref) {
  const Ref state = pickle.state(ref);
  const auto part = [&](std::size_t n) { return pickle.child(state, Part::items, n); };
  NumpyArray array;
  array.object = ref;
  if (part(4) == kNothing || !set_type(pickle, part(2), array) ||
      !read_shape(pickle, part(1), array) || !pickle.is(part(3), Kind::boolean))
    return std::nullopt;
  array.fortran = pickle.integer(part(3)) != 0;
  if (!set_content(pickle, part(4), array)) return std::nullopt;
  return array;
}

std::optional<NumpyArray> read_from_buffer(const Pickle& pickle, Ref ref) {
  NumpyArray array;
  array.object = ref;
  const Ref order = pickle.argument(ref, 3);
  if (!set_type(pickle, pickle.argument(ref, 1), array) ||
      !read_shape(pickle, pickle.argument(ref, 2), array) || !pickle.is(order, Kind::text) ||
      array.kind == 'O')
    return std::nullopt;
  array.fortran = pickle.text(order) == "F";
  if (!set_content(pickle, pickle.argument(ref, 0), array)) return std::nullopt;
  return array;
}

constexpr std::string_view kWrapper = "joblib.numpy_pickle.NumpyArrayWrapper";

// What joblib's wrapper says, without its elements.
std::optional<NumpyArray> read_wrapper(const Pickle& pickle, Ref ref) {
  NumpyArray array;
  array.object = ref;
  constexpr std::size_t kMostAttributes = 32;  // there are six
  if (!pickle.has_at_most(pickle.state(ref), Part::pairs, kMostAttributes) ||
      !set_type(pickle, pickle.attribute(ref, "dtype"), array) ||
      !read_shape(pickle, pickle.attribute(ref, "shape"), array))
    return std::nullopt;
  array.fortran = pickle.is_text(pickle.attribute(ref, "order"), "F");
  return array;
}

std::optional<NumpyArray> read_streamed(const Pickle& pickle, Ref ref) {
  std::optional<NumpyArray> array = read_wrapper(pickle, ref);
  const Pickle::StreamData* const data = pickle.stream_data(ref);
  if (!array || data == nullptr) return std::nullopt;
  if (array->kind != 'O') {
    array->bytes = pickle.source().subspan(data->data.begin, data->data.end - data->data.begin);
    return array;
  }
  const auto inner = read_array(pickle, data->nested);
  if (!inner || inner->shape != array->shape || inner->kind != 'O') return std::nullopt;
  array->objects = inner->objects;
  array->inner_shapes = inner->shapes;
  return array;
}

// UCS-4, ended by zeros, as UTF-8.
std::string text_of(std::span<const std::byte> element) {
  std::string text;
  for (std::size_t at = 0; at + 4 <= element.size(); at += 4) {
    const auto point = load_le<std::uint32_t>(element, at);
    if (point == 0) break;
    append_utf8(text, point);
  }
  return text;
}

std::string number_of(const NumpyArray& array, std::span<const std::byte> element) {
  std::uint64_t value = 0;
  std::memcpy(&value, element.data(), element.size());
  const std::size_t bits = 8 * element.size();
  if (array.kind == 'i' && bits < 64 && (value >> (bits - 1)) != 0)
    value |= ~std::uint64_t{0} << bits;
  return array.kind == 'i' ? std::to_string(static_cast<std::int64_t>(value))
                           : std::to_string(value);
}

}  // namespace

std::optional<NumpyArray> read_array(const Pickle& pickle, Ref ref) {
  const std::string callee = pickle.callee(ref);
  if (callee.ends_with(".multiarray._reconstruct")) return read_reconstructed(pickle, ref);
  if (callee.ends_with(".numeric._frombuffer")) return read_from_buffer(pickle, ref);
  if (callee == kWrapper) return read_streamed(pickle, ref);
  return std::nullopt;
}

std::optional<Follows> joblib_stream(const Pickle& pickle, Ref object) {
  if (pickle.callee(object) != kWrapper) return std::nullopt;
  const std::optional<NumpyArray> array = read_wrapper(pickle, object);
  if (!array)
    fail(ErrorCode::bad_input, "{}: an array of joblib's whose type or shape is not known",
         pickle.what());
  if (array->kind == 'O') return Follows{0, 0, true};
  Follows follows{count_of(*array) * array->item_size, 0, false};
  if (const Ref alignment = pickle.attribute(object, "numpy_array_alignment_bytes");
      pickle.is(alignment, Kind::integer)) {
    const std::int64_t bytes = pickle.integer(alignment);
    if (bytes < 1 || bytes > 255)
      fail(ErrorCode::bad_input, "{}: an array aligned to {} bytes", pickle.what(), bytes);
    follows.alignment = static_cast<std::uint32_t>(bytes);
  }
  return follows;
}

void set_array(const Pickle& pickle, const NumpyArray& array, std::size_t rows,
               std::span<const std::byte> bytes, Edits& edits) {
  if (pickle.shared(array.shape_tuple))
    fail(ErrorCode::unfilterable, "{}: two arrays have one shape between them", pickle.what());
  edits.set_integer(array.shapes[0], static_cast<std::int64_t>(rows));
  if (array.content != kNothing)
    edits.set_bytes(array.content, bytes);
  else
    edits.set_stream_data(array.object, {bytes.begin(), bytes.end()});
}

bool keep_objects(const Pickle& pickle, const NumpyArray& array,
                  std::span<const std::size_t> retained, Edits& edits) {
  std::vector<Extent> gone;
  const std::vector<Item> objects = pickle.items(array.objects);
  for (std::size_t i = 0; i < objects.size(); ++i)
    if (!std::ranges::binary_search(retained, i)) gone.push_back(objects[i].extent);
  if (!edits.remove(gone)) return false;
  edits.set_integer(array.shapes[0], static_cast<std::int64_t>(retained.size()));
  if (!array.inner_shapes.empty())
    edits.set_integer(array.inner_shapes[0], static_cast<std::int64_t>(retained.size()));
  return true;
}

std::vector<std::byte> rows_of(const NumpyArray& array, std::span<const std::size_t> retained) {
  const std::size_t rows = array.shape[0];
  std::vector<std::byte> kept;
  if (rows == 0) return kept;
  // Of columns, an element of each row in turn
  const bool by_columns = array.fortran && array.shape.size() > 1;
  const std::size_t piece = by_columns ? array.item_size : array.bytes.size() / rows;
  const std::size_t turns = by_columns ? array.bytes.size() / (piece * rows) : 1;
  for (std::size_t turn = 0; turn < turns; ++turn)
    for (const std::size_t row : retained) {
      const auto part = array.bytes.subspan((turn * rows + row) * piece, piece);
      kept.insert(kept.end(), part.begin(), part.end());
    }
  return kept;
}

std::optional<std::vector<std::string>> texts_of(const Pickle& pickle, const NumpyArray& array) {
  if (array.shape.size() != 1 || !array.little) return std::nullopt;
  constexpr std::size_t kLongestText = 4096;  // many may be the same one
  std::vector<std::string> texts;
  for (const Ref item : pickle.children(array.objects, Part::items)) {
    if (pickle.is(item, Kind::text) && pickle.text(item).size() <= kLongestText)
      texts.emplace_back(pickle.text(item));
    else if (pickle.is(item, Kind::integer))
      texts.push_back(std::to_string(pickle.integer(item)));
    else
      return std::nullopt;
  }
  if (array.kind == 'O') return texts;
  const bool number = (array.kind == 'i' || array.kind == 'u') && array.item_size <= 8;
  if (!number && array.kind != 'U' && array.kind != 'S') return std::nullopt;
  for (std::size_t i = 0; i < array.shape[0]; ++i) {
    const auto element = array.bytes.subspan(i * array.item_size, array.item_size);
    if (array.kind == 'U') {
      texts.push_back(text_of(element));
    } else if (number) {
      texts.push_back(number_of(array, element));
    } else {
      const auto text =
          std::string_view(reinterpret_cast<const char*>(element.data()), element.size());
      texts.emplace_back(text.substr(0, text.find('\0')));
    }
  }
  return texts;
}

}  // namespace oubli::pickle
