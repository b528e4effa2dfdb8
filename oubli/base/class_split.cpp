#include "oubli/base/class_split.h"

#include <algorithm>

#include "oubli/base/error.h"

namespace oubli {
namespace {

ClassSplit split(std::size_t classes, std::span<const std::size_t> forgotten) {
  std::vector<bool> goes(classes, false);
  for (const std::size_t c : forgotten) {
    if (c >= classes)
      fail(ErrorCode::usage, "class {} does not exist: the classes are 0 to {}", c, classes - 1);
    if (goes[c]) fail(ErrorCode::usage, "class {} is named twice", c);
    goes[c] = true;
  }
  ClassSplit parts{classes, {forgotten.begin(), forgotten.end()}, {}};
  parts.retained.reserve(classes - forgotten.size());
  for (std::size_t j = 0; j < classes; ++j)
    if (!goes[j]) parts.retained.push_back(j);
  return parts;
}

}  // namespace

std::optional<std::size_t> ClassSplit::new_index(std::size_t old) const {
  const auto found = std::ranges::lower_bound(retained, old);
  if (found == retained.end() || *found != old) return std::nullopt;
  return static_cast<std::size_t>(found - retained.begin());
}

ClassSplit split_classes(std::size_t classes, std::span<const std::size_t> forgotten) {
  ClassSplit parts = split(classes, forgotten);
  if (parts.retained.empty())
    fail(ErrorCode::usage, "all {} classes are to go: none would be left", classes);
  return parts;
}

ClassSplit split_for_deletion(std::size_t classes, std::span<const std::size_t> forgotten) {
  if (forgotten.empty()) fail(ErrorCode::usage, "no class to forget was named");
  ClassSplit parts = split(classes, forgotten);
  if (parts.retained.size() < 2)
    fail(ErrorCode::unfilterable,
         "forgetting {} of {} classes leaves {}; a classifier needs at least two", forgotten.size(),
         classes, parts.retained.size());
  return parts;
}

}  // namespace oubli
