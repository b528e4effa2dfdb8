#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// One string, number or word of a literal.
struct LiteralToken {
  std::string value;
  std::size_t begin = 0, end = 0;              // with quotes
  std::size_t inner_begin = 0, inner_end = 0;  // without
  bool quoted = false;
};

// Reads literals of JSON and of Python token by token; the caller knows what may follow what.
class LiteralReader {
 public:
  static constexpr std::string_view kBlanks = " \t\r\n";

  explicit LiteralReader(std::string_view text) : text_(text) {}

  std::size_t at = 0;

  // The next character that is not blank; 0 at the end.
  char peek();
  std::optional<LiteralToken> token();
  // A string, and where each of its characters stands, its end included.
  std::optional<LiteralToken> string(std::vector<std::size_t>& offsets);
  // Reads the escape that begins here; false if it is none.
  bool escape(std::string& out);

 private:
  std::optional<LiteralToken> quoted(char quote, std::vector<std::size_t>* offsets = nullptr);
  std::optional<std::uint32_t> hex(std::size_t digits);

  std::string_view text_;
};

}  // namespace oubli
