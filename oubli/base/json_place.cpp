#include "oubli/base/json_place.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "oubli/base/count.h"

namespace oubli {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  [[nodiscard]] std::size_t position() const { return at_; }

  char peek() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  std::string key() {
    (void)peek();
    const std::size_t begin = at_;
    skip_text();
    const std::string_view raw = text_.substr(begin, at_ - begin);
    if (raw.size() < 2) return {};
    if (raw.find('\\') == std::string_view::npos) return std::string(raw.substr(1, raw.size() - 2));
    const auto parsed = nlohmann::json::parse(raw, nullptr, false);
    return parsed.is_string() ? parsed.get<std::string>() : std::string();
  }

  void skip_value() {
    std::size_t depth = 0;
    do {
      const char next = peek();
      if (next == '"') {
        skip_text();
      } else if (next == '{' || next == '[') {
        ++depth;
        ++at_;
      } else if (next == '}' || next == ']') {
        if (depth == 0) return;
        --depth;
        ++at_;
      } else if (next == ',' || next == ':') {
        if (depth == 0) return;
        ++at_;
      } else {
        at_ = std::min(text_.find_first_of(" \t\r\n,:]}\"", at_), text_.size());
      }
    } while (depth > 0 && at_ < text_.size());
  }

 private:
  void skip_text() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    at_ = std::min(at_ + 1, text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Stands before the member of the object or list that begins there.
bool enter(Scanner& scanner, const std::string& step) {
  if (scanner.accept('{')) {
    while (scanner.peek() == '"') {
      const bool found = scanner.key() == step;
      if (!scanner.accept(':')) return false;
      if (found) return true;
      scanner.skip_value();
      if (!scanner.accept(',')) return false;
    }
    return false;
  }
  const auto index = parse_digits(step);
  if (!index || !scanner.accept('[')) return false;
  for (std::size_t i = 0; i < *index; ++i) {
    scanner.skip_value();
    if (!scanner.accept(',')) return false;
  }
  return scanner.peek() != ']';
}

}  // namespace

std::optional<JsonPlace> place_in_json(std::string_view text, std::span<const std::string> path) {
  Scanner scanner(text);
  for (const std::string& step : path)
    if (!enter(scanner, step)) return std::nullopt;
  (void)scanner.peek();
  const std::size_t begin = scanner.position();
  scanner.skip_value();
  return JsonPlace{begin, scanner.position()};
}

}  // namespace oubli
