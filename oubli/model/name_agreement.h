#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// Whether two lists share names, but for different classes.
[[nodiscard]] bool in_another_order(std::span<const std::string> names,
                                    std::span<const std::string> others);

// Names that a person gives for a model's classes, and the model's own. Error{usage} with both
// names if a class to be forgotten is called otherwise by the model, which has one of the two names
// for another class: it would be the wrong one that goes. Warnings, which do not say names, where
// it only has other words. `what`: where the given names are from. Either list may be empty.
[[nodiscard]] std::vector<std::string> check_names_agree(std::span<const std::string> own,
                                                         std::span<const std::string> given,
                                                         std::span<const std::size_t> forget,
                                                         std::string_view what);

// Error{usage} if two classes are called `word`.
void check_unambiguous(std::string_view word, std::span<const std::string> names);

}  // namespace oubli
