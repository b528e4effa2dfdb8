#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace oubli {

// Nesting beyond this is refused: what walks a document afterwards may recurse.
inline constexpr int kJsonDepth = 64;

// A JSON document from outside. Error{bad_input} naming `what` and the place if it is damaged,
// nests too deeply, or has a key twice in one object (readers disagree on which one counts).
[[nodiscard]] nlohmann::ordered_json parse_json(std::string_view text, const std::string& what);
// The same where the order of keys says nothing: fast also for objects with many of them.
[[nodiscard]] nlohmann::json parse_document(std::string_view text, const std::string& what);

// The document as text, on one line if `indent` is negative. Names of files may hold any bytes and
// JSON may not: those that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_text(const nlohmann::ordered_json& document, int indent);
[[nodiscard]] std::string to_text(const nlohmann::json& document, int indent);
// Whether it stays as it is.
[[nodiscard]] bool is_utf8(std::string_view text);

[[noreturn]] void refuse_number(const std::string& found, std::uint64_t largest);

// A count or an index in a document from outside. Unless it is a whole number that `Unsigned` can
// hold, the JSON library's type_error, as get() throws it for a string: whoever reads a document
// turns those into Error{bad_input} with the file's name. get() itself would take 2.5 for 2 and -1
// for 2^64 - 1, and what it makes of 1e30 is undefined.
template <class Unsigned = std::size_t, class Json>
[[nodiscard]] Unsigned whole_number(const Json& value) {
  const bool whole = value.is_number_integer() &&
                     (value.is_number_unsigned() || value.template get<std::int64_t>() >= 0);
  if (!whole || !std::in_range<Unsigned>(value.template get<std::uint64_t>())) {
    refuse_number(value.is_number() ? value.dump() : value.type_name(),
                  std::numeric_limits<Unsigned>::max());
  }
  return value.template get<Unsigned>();
}

// The same for a list of them.
template <class Unsigned = std::size_t, class Json>
[[nodiscard]] std::vector<Unsigned> whole_numbers(const Json& list) {
  if (!list.is_array()) refuse_number(list.type_name(), std::numeric_limits<Unsigned>::max());
  std::vector<Unsigned> numbers;
  for (const Json& value : list) numbers.push_back(whole_number<Unsigned>(value));
  return numbers;
}

}  // namespace oubli
