#include "oubli/model/name_agreement.h"

#include <algorithm>

#include "oubli/base/error.h"

namespace oubli {

bool in_another_order(std::span<const std::string> names, std::span<const std::string> others) {
  for (std::size_t i = 0; i < std::min(names.size(), others.size()); ++i)
    if (names[i] != others[i] && std::ranges::find(names, others[i]) != names.end()) return true;
  return false;
}

std::vector<std::string> check_names_agree(std::span<const std::string> own,
                                           std::span<const std::string> given,
                                           std::span<const std::size_t> forget,
                                           std::string_view what) {
  std::vector<std::string> warnings;
  for (const std::size_t c : forget) {
    if (c >= own.size() || c >= given.size() || own[c] == given[c]) continue;
    if (std::ranges::find(own, given[c]) != own.end() ||
        std::ranges::find(given, own[c]) != given.end())
      fail(ErrorCode::usage,
           "class {} is '{}' in {} and '{}' in the model: which of them is to be forgotten? Names "
           "in the same order are wanted",
           c, given[c], what, own[c]);
    warnings.push_back(fmt::format(
        "class {} has another name in {} than in the model; make sure that it is the same class", c,
        what));
  }
  return warnings;
}

void check_unambiguous(std::string_view word, std::span<const std::string> names) {
  const auto first = std::ranges::find(names, word);
  if (first == names.end()) return;
  const auto second = std::find(first + 1, names.end(), word);
  if (second == names.end()) return;
  fail(ErrorCode::usage, "classes {} and {} are both called '{}': give the index of the one meant",
       first - names.begin(), second - names.begin(), word);
}

}  // namespace oubli
