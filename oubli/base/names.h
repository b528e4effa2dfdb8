#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// The `count` candidates nearest to `word` by edit distance, nearest first: "did you mean ...?".
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view word,
                                                     std::span<const std::string> candidates,
                                                     std::size_t count = 3);

}  // namespace oubli
