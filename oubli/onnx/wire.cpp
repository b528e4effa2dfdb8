#include "oubli/onnx/wire.h"

#include <bit>
#include <cstring>
#include <utility>

#include "oubli/base/file.h"

namespace oubli::onnx {

namespace {

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

void append_little_endian(std::vector<std::byte>& out, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

std::size_t varint_size(std::uint64_t value) {
  return value == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(value)) + 6) / 7;
}

std::uint64_t tag_of(const Field& field) {
  return (std::uint64_t{field.number} << 3) | static_cast<std::uint64_t>(field.type);
}

std::uint64_t payload_size(const Field& field) {
  return field.message ? field.message->encoded_size() : field.payload.size();
}

// A header that still says the truth is kept, even if a longer encoding than needed.
bool keeps_header(const Field& field, std::uint64_t size) {
  if (field.header_size == 0) return false;
  return !field.message || size == field.payload.size();
}

void own(Field& field, std::vector<std::byte> bytes) {
  field.owned = std::make_unique<const std::vector<std::byte>>(std::move(bytes));
  field.payload = *field.owned;
  field.header_size = 0;
  field.message.reset();
}

}  // namespace

Field::Field() = default;
Field::~Field() = default;
Field::Field(Field&&) noexcept = default;
Field& Field::operator=(Field&&) noexcept = default;

void append_varint(std::vector<std::byte>& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::byte>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::byte>(value));
}

std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
    if (i == 9 && byte > 1) return std::nullopt;
    value |= (byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      bytes = bytes.subspan(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

void FieldReader::damaged(std::size_t at, std::string_view problem) const {
  fail(ErrorCode::bad_input, "{}: not a valid protobuf message: {} at byte {} of {}", what_,
       problem, at, bytes_.size());
}

bool FieldReader::next(Field& field) {
  if (rest_.empty()) return false;
  const std::size_t begin = bytes_.size() - rest_.size();
  const std::optional<std::uint64_t> tag = take_varint(rest_);
  if (!tag || (*tag >> 3) == 0 || (*tag >> 3) > 0x1fffffff) damaged(begin, "a damaged field tag");
  field.number = static_cast<std::uint32_t>(*tag >> 3);
  field.value = 0;
  std::size_t size = 0;
  switch (*tag & 7) {
    case 0: {
      field.type = WireType::varint;
      std::span<const std::byte> after = rest_;
      const std::optional<std::uint64_t> value = take_varint(after);
      if (!value) damaged(begin, "a damaged number");
      field.value = *value;
      size = rest_.size() - after.size();
      break;
    }
    case 1:
    case 5:
      field.type = (*tag & 7) == 1 ? WireType::fixed64 : WireType::fixed32;
      size = field.type == WireType::fixed64 ? 8 : 4;
      if (rest_.size() < size) damaged(begin, "a number cut short");
      field.value = little_endian(rest_.first(size));
      break;
    case 2: {
      field.type = WireType::bytes;
      const std::optional<std::uint64_t> length = take_varint(rest_);
      if (!length) damaged(begin, "a damaged length");
      if (*length > rest_.size()) damaged(begin, "a length beyond the end");
      size = static_cast<std::size_t>(*length);
      break;
    }
    default:
      damaged(begin, "a field of an unknown wire type");
  }
  field.header_size = static_cast<std::uint8_t>(bytes_.size() - rest_.size() - begin);
  field.payload = rest_.first(size);
  rest_ = rest_.subspan(size);
  return true;
}

Message Message::parse(std::span<const std::byte> bytes, const std::string& what) {
  std::size_t count = 0;  // first, so that no room is taken in vain
  Field next;
  for (FieldReader reader(bytes, what); reader.next(next);) ++count;
  Message message;
  message.fields.resize(count);
  FieldReader reader(bytes, what);
  for (Field& field : message.fields) (void)reader.next(field);
  return message;
}

Field& Message::add(Field field) {
  fields.push_back(std::move(field));
  return fields.back();
}

const Field* Message::find(std::uint32_t number) const {
  for (auto field = fields.rbegin(); field != fields.rend(); ++field) {
    if (field->number == number && !field->removed) return &*field;
  }
  return nullptr;
}

Field* Message::find(std::uint32_t number) {
  return const_cast<Field*>(
      std::as_const(*this).find(number));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

std::uint64_t Message::number_or(std::uint32_t number, std::uint64_t otherwise) const {
  const Field* field = find(number);
  return field == nullptr || field->type == WireType::bytes ? otherwise : field->value;
}

std::string_view Message::text_or(std::uint32_t number, std::string_view otherwise) const {
  const Field* field = find(number);
  return field == nullptr || field->type != WireType::bytes ? otherwise : as_text(field->payload);
}

std::uint64_t Message::encoded_size() const {
  std::uint64_t total = 0;
  for (const Field& field : fields) {
    if (field.removed) continue;
    const std::uint64_t size = payload_size(field);
    if (keeps_header(field, size)) {
      total += field.header_size + size;
    } else {
      total += varint_size(tag_of(field)) + size;
      if (field.type == WireType::bytes) total += varint_size(size);
    }
  }
  return total;
}

void Message::write(const Sink& sink) const {
  // Neighbours in the file go out in one piece.
  std::span<const std::byte> run;
  const auto flush = [&] {
    if (!run.empty()) sink(run);
    run = {};
  };
  for (const Field& field : fields) {
    if (field.removed) continue;
    const std::uint64_t size = payload_size(field);
    if (keeps_header(field, size)) {
      if (!field.message) {
        const std::byte* const begin = field.payload.data() - field.header_size;
        const std::size_t length = field.header_size + field.payload.size();
        if (!run.empty() && run.data() + run.size() == begin) {
          run = {run.data(), run.size() + length};
        } else {
          flush();
          run = {begin, length};
        }
        continue;
      }
      flush();
      sink({field.payload.data() - field.header_size, field.header_size});
    } else {
      flush();
      std::vector<std::byte> header;
      append_varint(header, tag_of(field));
      if (field.type == WireType::bytes) append_varint(header, size);
      sink(header);
    }
    if (field.message) {
      field.message->write(sink);
    } else if (!field.payload.empty()) {
      sink(field.payload);
    }
  }
  flush();
}

std::vector<std::byte> Message::encode() const {
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(encoded_size()));
  write([&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

Message& open(Field& field, const std::string& what) {
  if (field.type != WireType::bytes) {
    fail(ErrorCode::bad_input, "{}: field {} is a number, wanted a message", what, field.number);
  }
  if (!field.message) {
    field.message = std::make_unique<Message>(Message::parse(field.payload, what));
  }
  return *field.message;
}

void set_varint(Field& field, std::uint64_t value) {
  std::vector<std::byte> bytes;
  append_varint(bytes, value);
  own(field, std::move(bytes));
  field.type = WireType::varint;
  field.value = value;
}

void set_bytes(Field& field, std::vector<std::byte> bytes) {
  own(field, std::move(bytes));
  field.type = WireType::bytes;
  field.value = 0;
}

void set_text(Field& field, std::string_view text) {
  const auto bytes = as_bytes(text);
  set_bytes(field, {bytes.begin(), bytes.end()});
}

Field varint_field(std::uint32_t number, std::uint64_t value) {
  Field field;
  field.number = number;
  set_varint(field, value);
  return field;
}

Field bytes_field(std::uint32_t number, std::span<const std::byte> bytes) {
  Field field;
  field.number = number;
  set_bytes(field, {bytes.begin(), bytes.end()});
  return field;
}

Field bytes_field(std::uint32_t number, std::string_view text) {
  return bytes_field(number, as_bytes(text));
}

Field float_field(std::uint32_t number, float value) {
  Field field;
  field.number = number;
  field.value = std::bit_cast<std::uint32_t>(value);
  std::vector<std::byte> bytes;
  append_little_endian(bytes, field.value, 4);
  own(field, std::move(bytes));
  field.type = WireType::fixed32;
  return field;
}

Field message_field(std::uint32_t number, Message message) {
  Field field;
  field.number = number;
  field.type = WireType::bytes;
  field.message = std::make_unique<Message>(std::move(message));
  return field;
}

Field packed_field(std::uint32_t number, std::span<const std::int64_t> values) {
  std::vector<std::byte> bytes;
  for (const std::int64_t value : values) append_varint(bytes, static_cast<std::uint64_t>(value));
  return bytes_field(number, bytes);
}

Field packed_field(std::uint32_t number, std::span<const float> values) {
  std::vector<std::byte> bytes;
  for (const float value : values)
    append_little_endian(bytes, std::bit_cast<std::uint32_t>(value), 4);
  return bytes_field(number, bytes);
}

std::string_view text_of(const Field& field, const std::string& what) {
  if (field.type != WireType::bytes) {
    fail(ErrorCode::bad_input, "{}: field {} is a number, wanted text", what, field.number);
  }
  return as_text(field.payload);
}

std::vector<std::int64_t> repeated_ints(const Message& message, std::uint32_t number,
                                        const std::string& what) {
  std::vector<std::int64_t> values;
  for (const Field& field : message.fields) {
    if (field.number != number || field.removed) continue;
    if (field.type == WireType::varint) {
      values.push_back(static_cast<std::int64_t>(field.value));
      continue;
    }
    if (field.type != WireType::bytes) {
      fail(ErrorCode::bad_input, "{}: field {} does not hold integers", what, number);
    }
    std::span<const std::byte> rest = field.payload;
    while (!rest.empty()) {
      const std::optional<std::uint64_t> value = take_varint(rest);
      if (!value) fail(ErrorCode::bad_input, "{}: field {} holds a damaged number", what, number);
      values.push_back(static_cast<std::int64_t>(*value));
    }
  }
  return values;
}

std::vector<float> repeated_floats(const Message& message, std::uint32_t number,
                                   const std::string& what) {
  std::vector<float> values;
  for (const Field& field : message.fields) {
    if (field.number != number || field.removed) continue;
    const bool packed = field.type == WireType::bytes;
    if ((!packed && field.type != WireType::fixed32) || field.payload.size() % 4 != 0) {
      fail(ErrorCode::bad_input, "{}: field {} does not hold float32 numbers", what, number);
    }
    for (std::size_t i = 0; i < field.payload.size(); i += 4) {
      const auto bits = static_cast<std::uint32_t>(little_endian(field.payload.subspan(i, 4)));
      values.push_back(std::bit_cast<float>(bits));
    }
  }
  return values;
}

}  // namespace oubli::onnx
