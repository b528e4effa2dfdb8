#include "oubli/base/names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace oubli {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view word,
                                       std::span<const std::string> candidates, std::size_t count) {
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& candidate : candidates)
    ranked.emplace_back(edit_distance(word, candidate), candidate);
  const std::size_t kept = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(kept),
                    ranked.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kept; ++i) names.push_back(ranked[i].second);
  return names;
}

}  // namespace oubli
