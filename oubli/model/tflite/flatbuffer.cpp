#include "oubli/model/tflite/flatbuffer.h"

#include <cstring>

#include "oubli/base/error.h"
#include "oubli/base/file.h"

namespace oubli {

std::span<const std::byte> FlatBuffer::span(std::uint64_t at, std::uint64_t count) const {
  if (at > bytes_.size() || count > bytes_.size() - at)
    fail(ErrorCode::bad_input,
         "{}: damaged or cut short: {} bytes wanted at position {}, the file has {}", what_, count,
         at, bytes_.size());
  return bytes_.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
}

std::uint64_t FlatBuffer::load(std::uint64_t at, unsigned count) const {
  std::uint64_t value = 0;
  std::memcpy(&value, span(at, count).data(), count);
  return value;
}

std::optional<std::uint64_t> FlatBuffer::field(std::uint64_t table, unsigned number) const {
  // A table begins with the signed distance back to its list of offsets.
  const auto distance = static_cast<std::int32_t>(load(table, 4));
  const auto list = static_cast<std::uint64_t>(static_cast<std::int64_t>(table) - distance);
  const std::uint64_t size = load(list, 2);
  const std::uint64_t entry = 4 + 2 * std::uint64_t{number};
  if (entry + 2 > size) return std::nullopt;
  const std::uint64_t offset = load(list + entry, 2);
  if (offset == 0) return std::nullopt;
  return table + offset;
}

std::uint64_t FlatBuffer::number(std::uint64_t table, unsigned which, unsigned count) const {
  const auto at = field(table, which);
  return at ? load(*at, count) : 0;
}

std::optional<std::uint64_t> FlatBuffer::table(std::uint64_t table, unsigned which) const {
  const auto at = field(table, which);
  if (!at) return std::nullopt;
  return indirect(*at);
}

std::optional<FlatVector> FlatBuffer::vector(std::uint64_t table, unsigned which,
                                             unsigned element_bytes) const {
  const auto at = field(table, which);
  if (!at) return std::nullopt;
  FlatVector vector;
  vector.at = indirect(*at);
  vector.count = load(vector.at, 4);
  (void)span(vector.elements(), vector.count * element_bytes);
  return vector;
}

std::string_view FlatBuffer::text(std::uint64_t table, unsigned which) const {
  const auto found = vector(table, which, 1);
  return found ? as_text(span(found->elements(), found->count)) : std::string_view();
}

}  // namespace oubli
