#include "oubli/base/names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "oubli/base/count.h"
#include "oubli/base/error.h"
#include "oubli/base/utf8.h"

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

// Well-formed, without control characters.
bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const CodePoint first = first_code_point(text);
    if (first.bytes == 0 || first.value < 0x20 || first.value == 0x7F) return false;
    text.remove_prefix(first.bytes);
  }
  return true;
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

std::size_t class_named(std::string_view word, std::span<const std::string> names,
                        std::size_t classes) {
  OUBLI_ASSERT(names.empty() || names.size() == classes);
  const auto by_name = [&](std::string_view name) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
  };
  const auto by_index = [&](std::string_view digits) -> std::optional<std::size_t> {
    return classes == 0 ? std::nullopt : parse_count(digits, 0, classes - 1);
  };
  constexpr std::string_view kName = "name:", kIndex = "index:";
  const std::optional<std::size_t> named = by_name(word), numbered = by_index(word);
  // To forget the wrong class is the worst that can happen.
  if (named && numbered && *named != *numbered)
    fail(ErrorCode::usage,
         "class '{}' is the name of class {} and the index of class {}; say name:{} or index:{}",
         word, *named, *numbered, word, word);
  if (named) return *named;
  if (numbered) return *numbered;
  if (word.starts_with(kName))
    if (const auto found = by_name(word.substr(kName.size()))) return *found;
  if (word.starts_with(kIndex))
    if (const auto found = by_index(word.substr(kIndex.size()))) return *found;
  if (names.empty())
    fail(ErrorCode::usage,
         "no class '{}': classes are numbered 0 to {}, and have no names here "
         "(--class-names FILE gives them)",
         word, classes - 1);
  fail(ErrorCode::usage, "no class '{}' among {}; did you mean {}? (or an index, 0 to {})", word,
       classes, fmt::join(nearest_names(word, names), ", "), classes - 1);
}

std::string class_label(std::size_t index, std::span<const std::string> names) {
  return names.empty() ? std::to_string(index) : fmt::format("{} ({})", index, names[index]);
}

std::vector<std::string> parse_class_names(std::string_view text, std::size_t classes,
                                           const std::string& what) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // which some editors write
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || !is_plain_text(line))
      fail(ErrorCode::bad_input, "{}: line {} is {}; wanted one class name per line, in UTF-8",
           what, names.size() + 1, line.empty() ? "empty" : "not plain text");
    if (!seen.insert(line).second)
      fail(ErrorCode::bad_input, "{}: line {}: '{}' is there twice", what, names.size() + 1, line);
    names.emplace_back(line);
  }
  if (names.size() != classes)
    fail(ErrorCode::bad_input, "{}: {} names, wanted one for each of {} classes", what,
         names.size(), classes);
  return names;
}

}  // namespace oubli
