#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/hdf5/reader.h"

namespace oubli {
namespace {

constexpr unsigned kDataspace = 0x01, kDatatype = 0x03, kDataLayout = 0x08, kFilters = 0x0b;

std::uint64_t padded(std::uint64_t size, bool pad) { return pad ? (size + 7) / 8 * 8 : size; }

}  // namespace

Hdf5Reader::Space Hdf5Reader::dataspace(std::uint64_t at, std::uint64_t size) const {
  const std::uint64_t version = number(at, 1);
  if (size < 4 || (version != 1 && version != 2)) damaged(at, "an unknown version of shapes");
  const std::uint64_t rank = number(at + 1, 1);
  const std::uint64_t flags = number(at + 2, 1);
  Space space;
  space.dims_at = at + (version == 1 ? 8 : 4);
  const bool has_most = (flags & 1) != 0;
  space.size = space.dims_at - at + 8 * rank * (has_most ? 2 : 1);
  if (rank > 32 || space.size > size) damaged(at, "a shape is longer than its message");
  for (std::uint64_t i = 0; i < rank; ++i)
    space.shape.push_back(static_cast<std::size_t>(number(space.dims_at + 8 * i, 8)));
  if (has_most) space.max_dims_at = space.dims_at + 8 * rank;
  if (version == 2 && number(at + 3, 1) == 2) space.shape = {0};  // no elements at all
  return space;
}

Hdf5Type Hdf5Reader::datatype(std::uint64_t at, std::uint64_t size) const {
  if (size < 8) damaged(at, "a type is longer than its message");
  const std::uint64_t kind = number(at, 1) & 15;
  const std::uint64_t bits = number(at + 1, 1);
  Hdf5Type type;
  type.size = static_cast<std::size_t>(number(at + 4, 4));
  if (type.size == 0) damaged(at, "elements of no bytes");
  if (kind == 0) {
    type.kind = Hdf5Type::Class::number;
    type.name = fmt::format("integer of {} bytes", type.size);
  } else if (kind == 1) {
    type.kind = Hdf5Type::Class::number;
    if (size < 20) damaged(at, "a type is longer than its message");
    const std::uint64_t exponent = number(at + 13, 1);
    const std::uint64_t mantissa = number(at + 15, 1);
    struct Float {
      std::size_t size;
      std::uint64_t exponent, mantissa;
      DType dtype;
    };
    for (const Float& known : {Float{4, 8, 23, DType::f32}, Float{8, 11, 52, DType::f64},
                               Float{2, 5, 10, DType::f16}, Float{2, 8, 7, DType::bf16}})
      if (known.size == type.size && known.exponent == exponent && known.mantissa == mantissa &&
          (bits & 0x41) == 0)
        type.dtype = known.dtype;
    type.name = type.dtype ? std::string(oubli::name_of(*type.dtype))
                           : fmt::format("another float of {} bytes", type.size);
  } else if (kind == 3) {
    type.kind = Hdf5Type::Class::fixed_text;
    type.name = "text";
  } else if (kind == 9 && (bits & 15) == 1) {
    type.kind = Hdf5Type::Class::variable_text;
    type.name = "text";
    if (type.size != 16) damaged(at, "a text's place of other than 16 bytes");
  } else {
    type.name = fmt::format("type {}", kind);
  }
  return type;
}

void Hdf5Reader::layout(const Message& message, Hdf5Dataset& dataset) const {
  const std::uint64_t version = number(message.at, 1);
  const std::uint64_t kind = number(message.at + 1, 1);
  if (version < 3 || version > 4) foreign(fmt::format("a dataset of layout version {}", version));
  if (kind == 0) {
    dataset.unreadable = "stored in its header";
  } else if (kind == 1) {
    if (message.size < 18) damaged(message.at, "a dataset that is nowhere");
    dataset.size_at = message.at + 10;
    dataset.bytes_at = address(message.at + 2);
    if (dataset.bytes_at == kNowhere)
      dataset.unreadable = "never written";
    else
      dataset.bytes = span(dataset.bytes_at, number(dataset.size_at, 8));
  } else {
    // Where their pieces are is not read here, so that nothing could be changed safely.
    foreign(kind == 2 ? "a dataset in chunks" : "a virtual dataset");
  }
}

Hdf5Dataset Hdf5Reader::dataset(const std::vector<Message>& messages) {
  Hdf5Dataset dataset;
  const auto only = [&](unsigned type) -> const Message& {
    const auto is = [&](const Message& m) { return m.type == type; };
    const auto found = std::ranges::find_if(messages, is);
    if (found == messages.end() || std::ranges::count_if(messages, is) != 1)
      damaged(messages.empty() ? 0 : messages[0].at, "a dataset without one shape, type and place");
    return *found;
  };
  const Message& space = only(kDataspace);
  const Message& type = only(kDatatype);
  if (((space.flags | type.flags) & 2) != 0) foreign("a dataset whose type is stored elsewhere");
  Space shape = dataspace(space.at, space.size);
  dataset.shape = std::move(shape.shape);
  dataset.dims_at = shape.dims_at;
  dataset.max_dims_at = shape.max_dims_at;
  dataset.type = datatype(type.at, type.size);
  layout(only(kDataLayout), dataset);
  if (std::ranges::any_of(messages, [](const Message& m) { return m.type == kFilters; }))
    foreign("a compressed dataset");
  if (!dataset.unreadable.empty()) return dataset;
  const std::size_t count = element_count(dataset.shape, file_.what_);
  if (count > dataset.bytes.size() || count * dataset.type.size != dataset.bytes.size())
    damaged(dataset.size_at, fmt::format("a dataset of {} elements of {} bytes says that it has {} "
                                         "bytes",
                                         count, dataset.type.size, dataset.bytes.size()));
  claim(dataset.bytes_at, dataset.bytes.size(), "a dataset");
  return dataset;
}

Hdf5Attribute Hdf5Reader::attribute(std::uint64_t at, std::uint64_t size) {
  const std::uint64_t version = number(at, 1);
  if (size < 9 || version < 1 || version > 3) damaged(at, "an unknown version of attributes");
  const bool pad = version == 1;
  const std::uint64_t name_size = number(at + 2, 2);
  const std::uint64_t type_size = number(at + 4, 2);
  const std::uint64_t space_size = number(at + 6, 2);
  const std::uint64_t name_at = at + (version == 3 ? 9 : 8);
  const std::uint64_t type_at = name_at + padded(name_size, pad);
  const std::uint64_t space_at = type_at + padded(type_size, pad);
  const std::uint64_t value_at = space_at + padded(space_size, pad);
  if (name_size == 0 || value_at - at > size) damaged(at, "an attribute is longer than it says");
  if (version > 1 && (number(at + 1, 1) & 3) != 0)
    foreign("an attribute whose type is stored elsewhere");
  Hdf5Attribute result;
  result.name = text(name_at, name_size);
  result.name = result.name.substr(0, result.name.find('\0'));
  result.type = datatype(type_at, type_size);
  result.shape = dataspace(space_at, space_size).shape;
  const std::size_t count = element_count(result.shape, file_.what_);
  const std::uint64_t left = at + size - value_at;
  if (count > left || count * result.type.size > left)
    damaged(at, fmt::format("attribute {} is longer than it says", result.name));
  result.value = span(value_at, count * result.type.size);
  return result;
}

// Texts of any length stand in global heaps; an attribute has their places.
void Hdf5Reader::note_heap(const Hdf5Attribute& attribute) {
  if (attribute.type.kind != Hdf5Type::Class::variable_text) return;
  const auto base = static_cast<std::uint64_t>(attribute.value.data() - file_.bytes_.data());
  for (std::uint64_t at = base; at < base + attribute.value.size(); at += 16)
    if (const std::uint64_t heap = address(at + 4); heap != 0 && heap != kNowhere)
      global_heap(heap);
}

void Hdf5Reader::global_heap(std::uint64_t at) {
  if (!heaps_.insert(at).second) return;
  require_signature(at, "GCOL");
  const std::uint64_t size = number(at + 8, 8);
  claim(at, size, "a heap of texts");
  for (std::uint64_t next = at + 16; next + 16 <= at + size;) {
    const auto index = static_cast<std::uint32_t>(number(next, 2));
    const std::uint64_t length = number(next + 8, 8);
    if (index == 0) return;  // free from here on
    if (length > at + size - next - 16) damaged(next, "a text longer than its heap");
    file_.heap_objects_.emplace(std::pair(at, index), span(next + 16, length));
    next += 16 + padded(length, true);
  }
}

}  // namespace oubli
