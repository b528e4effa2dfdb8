#include "oubli/cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "oubli/base/printable.h"
#include "oubli/base/progress.h"
#include "oubli/cli/result_stream.h"

namespace oubli::cli {
namespace {

constexpr std::size_t kMostColumns = 80;
constexpr std::size_t kFewestColumns = 30;

int descriptor_of(Stream stream) { return stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO; }

// Not within answer_to(), whose caller shows what it likes.
bool is_terminal(Stream stream) {
  return ::isatty(descriptor_of(stream)) == 1 && results() == stdout;
}

bool shows_looks(Stream stream) {
  const char* const refused = std::getenv("NO_COLOR");
  const char* const kind = std::getenv("TERM");
  return is_terminal(stream) && (refused == nullptr || *refused == '\0') && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

std::string with_look(std::string_view text, Look look) {
  switch (look) {
    case Look::bold:
      return fmt::format("\x1b[1m{}\x1b[0m", text);
    case Look::good:
      return fmt::format("\x1b[32m{}\x1b[0m", text);
    case Look::bad:
      return fmt::format("\x1b[1;31m{}\x1b[0m", text);
    case Look::plain:
      break;
  }
  return std::string(text);
}

thread_local std::vector<std::string> remarks;  // of the command that runs on it
thread_local std::set<std::string> remarked;    // the same, each once

// Whether a sentence of a message says what to do: these begin with a verb.
bool is_advice(std::string_view sentence) {
  constexpr std::string_view kVerbs[] = {
      "convert", "did you mean", "drop", "export", "fetch", "forget", "give",  "install", "leave",
      "make",    "name",         "put",  "remove", "run",   "save",   "say",   "see",     "take",
      "try",     "undo",         "use",  "wait",   "write", "choose", "check", "add",     "order"};
  return std::ranges::any_of(kVerbs, [&](std::string_view verb) {
    return sentence.starts_with(verb) &&
           (sentence.size() == verb.size() || sentence[verb.size()] == ' ');
  });
}

// "a; b (c; d); e" without what is in brackets or quotes.
std::vector<std::string_view> sentences_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
    if (depth <= 0 && text.substr(i, 2) == "; ") {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 2;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

std::size_t columns_of(Stream stream) {
  if (!is_terminal(stream)) return 0;
  winsize size{};
  if (::ioctl(descriptor_of(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kMostColumns;
  return std::clamp<std::size_t>(size.ws_col, kFewestColumns, kMostColumns);
}

std::string styled(std::string_view text, Look look, Stream stream) {
  return shows_looks(stream) ? with_look(text, look) : std::string(text);
}

std::string broken(std::string_view text, std::size_t width, std::size_t hang) {
  if (width == 0) return std::string(text) + '\n';
  std::string out;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::size_t wide = display_width(word);
    if (begin > 0 && column + 1 + wide > width) {
      while (out.ends_with(' ')) out.pop_back();
      out += '\n' + std::string(hang, ' ');
      column = hang;
    } else if (begin > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += wide;
    begin = end + 1;
  }
  return out + '\n';
}

std::string told(std::string_view text, std::size_t hang) {
  return broken(printable(text), columns_of(Stream::out), hang);
}

std::string labelled(std::string_view label, Look look, std::string_view text, std::size_t hang) {
  const std::string name = printable(label);
  std::string line =
      broken(fmt::format("{} {}", name, printable(text)), columns_of(Stream::out), hang);
  // A label of several words may be broken, too.
  if (line.starts_with(name)) line.replace(0, name.size(), styled(name, look));
  return line;
}

std::string small_text(const TextTable& table) {
  std::string text = table.text();
  const std::size_t rule = text.find('\n') + 1;
  return text.erase(rule, text.find('\n', rule) + 1 - rule);
}

void remark(const std::string& text) {
  if (remarked.insert(text).second) remarks.push_back(text);
}

void say_remarks() {
  if (!remarks.empty()) std::fflush(results());  // they come last
  remarked.clear();
  for (const std::string& text : std::exchange(remarks, {})) {
    const std::string lines = broken(printable(text), columns_of(Stream::err), 2);
    for (std::size_t begin = 0, end = 0; (end = lines.find('\n', begin)) != std::string::npos;
         begin = end + 1)
      say(lines.substr(begin, end - begin));
  }
}

std::string error_text(std::string_view message, std::size_t width, bool styles) {
  const std::string text = printable(message);
  if (width == 0) return fmt::format("oubli: {}\n", text);
  const std::vector<std::string_view> parts = sentences_of(text);
  std::string_view what = parts.front();
  std::string_view where;
  // A file or an option, then a colon.
  if (const std::size_t colon = what.find(": ");
      colon != std::string_view::npos &&
      (what.starts_with("--") || what.substr(0, colon).find(' ') == std::string_view::npos)) {
    where = what.substr(0, colon);
    what.remove_prefix(colon + 2);
  }
  constexpr std::size_t kHang = 7;
  const auto row = [&](std::string_view name, std::string_view words) {
    std::string line = broken(fmt::format("{:<{}}{}", name, kHang, words), width, kHang);
    if (styles && !name.empty())
      line.replace(0, name.size(), with_look(name, name == "oubli:" ? Look::bad : Look::bold));
    return line;
  };
  std::string out = row("oubli:", what);
  if (!where.empty()) out += row("where:", where);
  for (const std::string_view part : std::span(parts).subspan(1))
    out += row(is_advice(part) ? "to do:" : "", part);
  return out;
}

void say_error(std::string_view message) {
  write_to_stderr(error_text(message, columns_of(Stream::err), shows_looks(Stream::err)));
}

Failure failure_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return {ours->code(), ours->what()};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {ErrorCode::io, "out of memory; no file was left half written"};
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    // A thread needs a stack: without memory for it there is none, as if there were too many.
    if (system->code() == std::errc::resource_unavailable_try_again)
      return {ErrorCode::io, "out of memory or of threads; no file was left half written"};
    // A folder that cannot be listed, ...
    return {ErrorCode::io, fmt::format("the operating system refused: {}", error.what())};
  }
  return {ErrorCode::bug, fmt::format("internal error, please report it: {}", error.what())};
}

}  // namespace oubli::cli
