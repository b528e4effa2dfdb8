#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
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

int report(ErrorCode code, std::string_view message) {
  oubli::cli::say_remarks();
  oubli::cli::say_error(message);
  return static_cast<int>(code);
}

// A mapped file that shrinks under us raises SIGBUS; only async-signal-safe calls are allowed here.
extern "C" void on_bus_error(int) {
  constexpr std::string_view kMessage =
      "oubli: an input file shrank while it was being read, or the disk failed; nothing was "
      "written\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(static_cast<int>(ErrorCode::bad_input));
}

}  // namespace

int main(int argc, char** argv) {
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
    oubli::cli::become_tool(argc, argv);
    const std::vector<std::string> commands = app.commands();
    if (argc > 1 && *argv[1] != '-' && std::ranges::find(commands, argv[1]) == commands.end()) {
      oubli::fail(ErrorCode::usage, "no command '{}'; did you mean {}? ('oubli --help' has all)",
                  argv[1], oubli::nearest_names(argv[1], commands, 1)[0]);
    }
    if (!app.run(argc, argv)) return static_cast<int>(ErrorCode::usage);
    oubli::cli::say_remarks();
    // Small results wait in a buffer until now.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      oubli::fail(ErrorCode::io, "standard output cannot be written: {}", std::strerror(errno));
    return 0;
  } catch (const oubli::Error& error) {
    return report(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::io, "out of memory; no file was left half written");
  } catch (const std::system_error& error) {
    // No thread to be had, a folder that cannot be listed, ...
    return report(ErrorCode::io, fmt::format("the operating system refused: {}", error.what()));
  } catch (const std::exception& error) {
    return report(ErrorCode::bug,
                  fmt::format("internal error, please report it: {}", error.what()));
  }
}
