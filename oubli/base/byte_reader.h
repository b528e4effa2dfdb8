#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "oubli/base/error.h"

namespace oubli {

static_assert(std::endian::native == std::endian::little, "files are read without swapping bytes");

// The little-endian number at `offset`, which the caller has checked to lie inside `bytes`.
template <std::unsigned_integral T>
[[nodiscard]] T load_le(std::span<const std::byte> bytes, std::size_t offset) {
  OUBLI_ASSERT(offset <= bytes.size() && sizeof(T) <= bytes.size() - offset);
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Walks through untrusted bytes. Every read is checked against the bytes left: Error{bad_input}
// naming `what` and the position if there are too few.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string what)
      : bytes_(bytes), what_(std::move(what)) {}

  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] std::size_t remaining() const { return bytes_.size() - position_; }
  [[nodiscard]] const std::string& what() const { return what_; }

  [[nodiscard]] std::span<const std::byte> take(std::uint64_t count) {
    if (count > remaining())
      fail(ErrorCode::bad_input,
           "{}: {} bytes wanted at position {}, only {} left: truncated or damaged", what_, count,
           position_, remaining());
    const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += taken.size();
    return taken;
  }
  [[nodiscard]] std::string_view take_text(std::uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  template <std::unsigned_integral T>
  [[nodiscard]] T take_le() {
    return load_le<T>(take(sizeof(T)), 0);
  }
  void skip(std::uint64_t count) { (void)take(count); }

 private:
  std::span<const std::byte> bytes_;
  std::string what_;
  std::size_t position_ = 0;
};

}  // namespace oubli
