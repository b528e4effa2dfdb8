#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace oubli {

// Where a value stands in the text of a JSON document: [begin, end).
struct JsonPlace {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::string_view in(std::string_view text) const {
    return text.substr(begin, end - begin);
  }
};

// The value under `path`: keys of objects, and indices in lists as digits. None if there is none.
// So that single values can be replaced where they stand and the rest of the document stays as its
// author formatted it. `text` must be what parse_json() takes; of anything else the answer may be
// wrong, but nothing is read outside.
[[nodiscard]] std::optional<JsonPlace> place_in_json(std::string_view text,
                                                     std::span<const std::string> path);

}  // namespace oubli
