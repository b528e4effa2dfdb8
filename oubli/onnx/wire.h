#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/base/error.h"

// A lossless view of protobuf messages: each is the ordered list of its fields as they stand in the
// file. Only what is opened is parsed and only what is edited is encoded; everything else, unknown
// fields and unusual encodings included, is written back byte for byte. Lengths are 64 bits wide:
// there is no 2 GiB limit.
//
// Not a protobuf library: no schema, no text form. Groups (wire types 3 and 4), which ONNX never
// had, are refused.
namespace oubli::onnx {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

using Sink = std::function<void(std::span<const std::byte>)>;

class Message;

// One field. Its header (tag and, for bytes, length) and `payload` are the file's own bytes, one
// after the other, which must outlive the field, unless it was made or edited here. Small: a file
// may have as many fields as half its bytes.
struct Field {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  bool removed = false;  // still here, so that indices of other fields stay, but not written
  std::uint8_t header_size = 0;  // 0: made or edited here
  std::uint64_t value = 0;       // of a varint, fixed32 or fixed64
  std::span<const std::byte> payload;
  std::unique_ptr<const std::vector<std::byte>> owned;  // what `payload` points into, if made here
  std::unique_ptr<Message> message;                     // the payload, opened

  Field();
  ~Field();
  Field(Field&&) noexcept;
  Field& operator=(Field&&) noexcept;
};

[[nodiscard]] Field varint_field(std::uint32_t number, std::uint64_t value);
// The bytes are copied.
[[nodiscard]] Field bytes_field(std::uint32_t number, std::span<const std::byte> bytes);
[[nodiscard]] Field bytes_field(std::uint32_t number, std::string_view text);
[[nodiscard]] Field float_field(std::uint32_t number, float value);
[[nodiscard]] Field message_field(std::uint32_t number, Message message);
[[nodiscard]] Field packed_field(std::uint32_t number, std::span<const std::int64_t> values);
[[nodiscard]] Field packed_field(std::uint32_t number, std::span<const float> values);

// Reads the fields of a message one by one, without keeping them. Error{bad_input} naming `what`
// and the offset, if the bytes are not a message.
class FieldReader {
 public:
  FieldReader(std::span<const std::byte> bytes, const std::string& what)
      : bytes_(bytes), rest_(bytes), what_(what) {}
  // Whether there was another one; it is put in `field`.
  bool next(Field& field);

 private:
  [[noreturn]] void damaged(std::size_t at, std::string_view problem) const;

  std::span<const std::byte> bytes_, rest_;
  const std::string& what_;
};

class Message {
 public:
  Message() = default;
  // Error{bad_input} naming `what` and the offset, if the bytes are not a message.
  static Message parse(std::span<const std::byte> bytes, const std::string& what);

  std::vector<Field> fields;

  Field& add(Field field);
  // The last field of that number that is not removed: protobuf's rule for single values.
  [[nodiscard]] const Field* find(std::uint32_t number) const;
  [[nodiscard]] Field* find(std::uint32_t number);
  [[nodiscard]] std::uint64_t number_or(std::uint32_t number, std::uint64_t otherwise) const;
  [[nodiscard]] std::string_view text_or(std::uint32_t number, std::string_view otherwise) const;

  // Bytes write() will produce.
  [[nodiscard]] std::uint64_t encoded_size() const;
  void write(const Sink& sink) const;
  [[nodiscard]] std::vector<std::byte> encode() const;
};

// Opens a bytes field as a message (once; later calls return the same).
Message& open(Field& field, const std::string& what);
// Replaces what a field holds; its number stays.
void set_varint(Field& field, std::uint64_t value);
void set_bytes(Field& field, std::vector<std::byte> bytes);
void set_text(Field& field, std::string_view text);

// The bytes of a field of type `bytes` as text; Error{bad_input} for other types.
[[nodiscard]] std::string_view text_of(const Field& field, const std::string& what);
// A repeated number, packed or not, in the order of the file.
[[nodiscard]] std::vector<std::int64_t> repeated_ints(const Message& message, std::uint32_t number,
                                                      const std::string& what);
[[nodiscard]] std::vector<float> repeated_floats(const Message& message, std::uint32_t number,
                                                 const std::string& what);

void append_varint(std::vector<std::byte>& out, std::uint64_t value);
// Reads one varint from the front of `bytes` and removes it; nothing if damaged (over 64 bits,
// cut).
[[nodiscard]] std::optional<std::uint64_t> take_varint(std::span<const std::byte>& bytes);

}  // namespace oubli::onnx
