#include "oubli/cli/result_stream.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/terminal.h"

namespace oubli::cli {
namespace {

thread_local std::FILE* stream_of_thread = nullptr;

// A stream into memory that is this thread's as long as it lives.
class MemoryStream {
 public:
  MemoryStream() : stream_(::open_memstream(&text_, &size_)) {
    if (stream_ == nullptr)
      fail(ErrorCode::io, "no memory for the result: {}", std::strerror(errno));
    before_ = std::exchange(stream_of_thread, stream_);
  }
  ~MemoryStream() {
    stream_of_thread = before_;
    std::fclose(stream_);
    std::free(text_);  // NOLINT(cppcoreguidelines-no-malloc): open_memstream's
  }
  MemoryStream(const MemoryStream&) = delete;
  MemoryStream& operator=(const MemoryStream&) = delete;

  [[nodiscard]] std::string text() {
    if (std::fflush(stream_) != 0)
      fail(ErrorCode::io, "no memory for the result: {}", std::strerror(errno));
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
  std::FILE* before_ = nullptr;
};

}  // namespace

std::FILE* results() { return stream_of_thread != nullptr ? stream_of_thread : stdout; }

std::string answer_to(const std::vector<std::string>& words, std::string* printed) {
  CommandLine app("", "oubli", "");
  add_inspect(app);
  add_means(app);
  add_forget(app);
  add_verify(app);
  MemoryStream stream;
  try {
    app.run_words(words);
  } catch (...) {
    say_remarks();
    if (printed != nullptr) *printed = stream.text();
    throw;
  }
  say_remarks();
  return stream.text();
}

}  // namespace oubli::cli
