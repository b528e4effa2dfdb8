#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "oubli/base/error.h"

namespace oubli {

// A place in a small text of fixed grammar, such as the header of an array file; white space is
// passed over. What does not fit is Error{bad_input}: "WHAT: TROUBLE at character N: REASON".
class TextCursor {
 public:
  // `what` and `trouble` must outlive the cursor.
  TextCursor(std::string_view text, const std::string& what, std::string_view trouble)
      : text_(text), what_(what), trouble_(trouble) {}

  [[noreturn]] void broken(const std::string& reason) const {
    fail(ErrorCode::bad_input, "{}: {} at character {}: {}", what_, trouble_, position_, reason);
  }

  // The next character that is not white space; 0 at the end.
  char peek() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
      ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++position_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) broken(fmt::format("wanted '{}'", wanted));
  }

  std::size_t integer() {
    const char first = peek();
    if (first < '0' || first > '9') broken("wanted a non-negative integer");
    std::size_t value = 0;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9';
         ++position_) {
      const auto digit = static_cast<std::size_t>(text_[position_] - '0');
      if (__builtin_mul_overflow(value, std::size_t{10}, &value) ||
          __builtin_add_overflow(value, digit, &value))
        broken("a number beyond 64 bits");
    }
    return value;
  }

  [[nodiscard]] std::size_t position() const { return position_; }

 protected:
  std::string_view text_;
  std::size_t position_ = 0;

 private:
  const std::string& what_;
  std::string_view trouble_;
};

}  // namespace oubli
