#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

#include "oubli/base/error.h"
#include "oubli/base/text_table.h"

namespace oubli::cli {

// What people read. On a terminal lines are broken at its width, 80 columns at most, and may be
// bold or coloured unless NO_COLOR is set; into files and pipes goes one line per fact, plain.
enum class Stream { out, err };
enum class Look { plain, bold, good, bad };

// The columns of a terminal, 80 at most; 0 if `stream` is none: lines are not broken.
[[nodiscard]] std::size_t columns_of(Stream stream);

// With the escapes of a look, where `stream` shows them.
[[nodiscard]] std::string styled(std::string_view text, Look look, Stream stream = Stream::out);

// One line of `text`, broken at spaces so that none is longer than `width` (0: not broken); lines
// after the first begin with `hang` spaces. A word that is longer stays whole. Ends with a new
// line.
[[nodiscard]] std::string broken(std::string_view text, std::size_t width, std::size_t hang = 0);

// The same for stdout, made printable.
[[nodiscard]] std::string told(std::string_view text, std::size_t hang = 0);

// "LABEL text", the label with its look.
[[nodiscard]] std::string labelled(std::string_view label, Look look, std::string_view text,
                                   std::size_t hang = 0);

// A table without the rule below its titles: a line less.
[[nodiscard]] std::string small_text(const TextTable& table);

// A remark for the end: printed to stderr by say_remarks(), after all results; each once.
void remark(const std::string& text);
void say_remarks();

// "file or option: what was found; what was wanted; what to do" as people read it: what, where and
// what to do on lines of their own. One line into files and pipes.
[[nodiscard]] std::string error_text(std::string_view message, std::size_t width, bool styles);
void say_error(std::string_view message);

// What any exception means to whoever called the program.
struct Failure {
  ErrorCode code;
  std::string message;
};
[[nodiscard]] Failure failure_of(const std::exception& error);

}  // namespace oubli::cli
