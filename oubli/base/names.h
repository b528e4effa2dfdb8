#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// The `count` candidates nearest to `word` by edit distance, nearest first: "did you mean ...?".
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view word,
                                                     std::span<const std::string> candidates,
                                                     std::size_t count = 3);

// The class that `word` names: by its name in `names` (empty, or one per class), else by its index
// below `classes`; "name:..." and "index:..." say which. Error{usage} with the nearest names if
// there is no such class, or if the word is the name of one and the index of another.
[[nodiscard]] std::size_t class_named(std::string_view word, std::span<const std::string> names,
                                      std::size_t classes);

// "3", or "3 (dog)" if classes have names.
[[nodiscard]] std::string class_label(std::size_t index, std::span<const std::string> names);

// One name per line, as in a --class-names file; the last line may lack its end. Error{bad_input}
// if a name is empty, repeated or not UTF-8 text, or there are not `classes` of them.
[[nodiscard]] std::vector<std::string> parse_class_names(std::string_view text, std::size_t classes,
                                                         const std::string& what);

}  // namespace oubli
