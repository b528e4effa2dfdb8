#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>
#include <system_error>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/base/names.h"
#include "oubli/base/progress.h"
#include "oubli/base/version.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/terminal.h"
#include "oubli/cli/tools.h"

namespace {

using oubli::ErrorCode;

// A closed standard stream's number would go to the first file that is opened, and what is said
// into that file. Input and messages go nowhere then; results cannot be written, which is an error.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

// Whoever read the results went away: the end that pipelines expect, once all is put in order.
void end_by_broken_pipe() {
  (void)std::signal(SIGPIPE, SIG_DFL);
  (void)std::raise(SIGPIPE);
}

[[noreturn]] void results_lost(int why) {
  if (why == EPIPE) end_by_broken_pipe();
  oubli::fail(ErrorCode::io, "standard output cannot be written: {}", std::strerror(why));
}

// A mapped file that shrinks under us raises SIGBUS; only async-signal-safe calls are allowed here.
extern "C" void on_bus_error(int) {
  constexpr std::string_view kMessage =
      "oubli: an input file shrank while it was being read, or the disk failed; nothing was "
      "written\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(static_cast<int>(ErrorCode::bad_input));
}

void add_commands(oubli::cli::CommandLine& app) {
  app.add_flag(
      "-q,--quiet", [] { oubli::set_verbosity(oubli::Verbosity::quiet); },
      "Say nothing on stderr but errors");
  app.add_flag(
      "--verbose", [] { oubli::set_verbosity(oubli::Verbosity::verbose); }, "Say more on stderr");
  app.footer(
      "Exit codes: 0 done; 1 our bug; 2 usage; 3 bad input file; 4 the model cannot be "
      "filtered;\n"
      "5 self-check failed; 6 I/O; 7 a component or data set is missing; 8 some trials failed;\n"
      "9 a gate is undecided; 130 interrupted. 'oubli COMMAND --help' has examples.");
  oubli::cli::add_inspect(app);
  oubli::cli::add_means(app);
  oubli::cli::add_forget(app);
  oubli::cli::add_keygen(app);
  oubli::cli::add_verify(app);
  oubli::cli::add_audit(app);
  oubli::cli::add_invert(app);
  oubli::cli::add_predict(app);
  oubli::cli::add_report(app);
  oubli::cli::add_reproduce(app);
  oubli::cli::add_sign(app);
  oubli::cli::add_status(app);
  oubli::cli::add_train(app);
  oubli::cli::add_tools(app);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, nullptr);
  // A file that may not grow further (ulimit -f) is then an error of write(), with a message.
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);

  try {
    oubli::cli::CommandLine app(
        "Takes a class out of a trained classifier, and measures whether that worked.", "oubli",
        fmt::format("oubli {} ({}, {})", oubli::kVersion, oubli::kCompiler,
                    *oubli::kArchitecture != '\0' ? oubli::kArchitecture : "portable"));
    add_commands(app);
    oubli::cli::become_tool(argc, argv);
    // Messages that nobody reads do not end the work.
    (void)std::signal(SIGPIPE, SIG_IGN);
    const std::vector<std::string> commands = app.commands();
    if (argc > 1 && *argv[1] != '-' && std::ranges::find(commands, argv[1]) == commands.end()) {
      oubli::fail(ErrorCode::usage, "no command '{}'; did you mean {}? ('oubli --help' has all)",
                  argv[1], oubli::nearest_names(argv[1], commands, 1)[0]);
    }
    if (!app.run(argc, argv)) return static_cast<int>(ErrorCode::usage);
    oubli::cli::say_remarks();
    // Small results wait in a buffer until now.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) results_lost(errno);
    return 0;
  } catch (const std::exception& error) {
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && std::ferror(stdout) != 0 && system->code().value() == EPIPE)
      end_by_broken_pipe();
    const auto [code, message] = oubli::cli::failure_of(error);
    oubli::cli::say_remarks();
    oubli::cli::say_error(message);
    return static_cast<int>(code);
  }
}
