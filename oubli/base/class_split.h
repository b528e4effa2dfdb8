#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace oubli {

// The classes 0 ... classes-1 of a classifier, in two parts: those that go and those that stay.
// Classes are std::size_t everywhere; only the labels of samples are stored as std::uint32_t.
struct ClassSplit {
  std::size_t classes = 0;
  std::vector<std::size_t> forgotten;  // in the order in which they were named
  std::vector<std::size_t> retained;   // ascending: the numbering afterwards

  // The number of a class afterwards; none if it is forgotten.
  [[nodiscard]] std::optional<std::size_t> new_index(std::size_t old) const;
  [[nodiscard]] bool forgets(std::size_t old) const { return !new_index(old); }
};

// Error{usage} if a class does not exist or is named twice, or if none would be left.
[[nodiscard]] ClassSplit split_classes(std::size_t classes, std::span<const std::size_t> forgotten);
// The same for a deletion from a trained classifier: Error{usage} if none is forgotten, too, and
// {unfilterable} if fewer than two remain.
[[nodiscard]] ClassSplit split_for_deletion(std::size_t classes,
                                            std::span<const std::size_t> forgotten);

}  // namespace oubli
