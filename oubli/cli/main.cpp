#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "oubli/base/error.h"
#include "oubli/base/progress.h"
#include "oubli/base/version.h"
#include "oubli/cli/commands.h"

namespace {

using oubli::ErrorCode;

int report(ErrorCode code, std::string_view message) {
  fmt::print(stderr, "oubli: {}\n", message);
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

  try {
    CLI::App app{"Takes a class out of a trained classifier, and measures whether that worked.",
                 "oubli"};
    app.set_version_flag(
        "--version",
        fmt::format("oubli {} ({}, {})", oubli::kVersion, oubli::kCompiler,
                    *oubli::kArchitecture != '\0' ? oubli::kArchitecture : "portable"));
    app.require_subcommand(1);
    app.fallthrough();  // --quiet and --verbose may follow the subcommand
    app.add_flag_callback(
        "-q,--quiet", [] { oubli::set_verbosity(oubli::Verbosity::quiet); },
        "Say nothing on stderr but errors");
    app.add_flag_callback(
        "--verbose", [] { oubli::set_verbosity(oubli::Verbosity::verbose); }, "Say more on stderr");
    app.footer(
        "Exit codes: 0 done; 1 our bug; 2 usage; 3 bad input file; 4 the model cannot be "
        "filtered;\n"
        "5 self-check failed; 6 I/O; 7 a component or data set is missing; 8 some trials failed;\n"
        "130 interrupted. 'oubli COMMAND --help' has examples.");
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
    oubli::cli::add_status(app);
    oubli::cli::add_train(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      const int code = app.exit(error);
      return code == 0 ? 0 : static_cast<int>(ErrorCode::usage);
    }
    return 0;
  } catch (const oubli::Error& error) {
    return report(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::io, "out of memory; nothing was written");
  } catch (const std::system_error& error) {
    // No thread to be had, a folder that cannot be listed, ...
    return report(ErrorCode::io, fmt::format("the operating system refused: {}", error.what()));
  } catch (const std::exception& error) {
    return report(ErrorCode::bug,
                  fmt::format("internal error, please report it: {}", error.what()));
  }
}
