#include "oubli/cli/tools.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/cli/command.h"

namespace oubli::cli {
namespace {

namespace fs = std::filesystem;

struct Tool {
  const char* name;
  const char* help;
  const char* examples;
};
constexpr Tool kTools[] = {{"get-data", "Fetch a data set by name, and check its digests",
                            "Examples:\n"
                            "  oubli get-data fashion-mnist\n"
                            "  oubli get-data faces --archive att_faces.tar.gz"},
                           {"get-runtime", "Fetch ONNX Runtime, which runs .onnx models on images",
                            "Examples:\n"
                            "  oubli get-runtime\n"
                            "  oubli get-runtime full"}};

// Beside the program as it is installed, then as it is built.
fs::path script_named(const std::string& name) {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  std::vector<fs::path> places{program.parent_path() / "../libexec/oubli",
                               program.parent_path() / "../../tools"};
  if (program.empty()) places = {"/usr/local/libexec/oubli", "/usr/libexec/oubli"};  // no /proc
  for (const fs::path& place : places)
    if (fs::is_regular_file(place / name, unknown)) return (place / name).lexically_normal();
  fail(ErrorCode::missing, "{}: not in {} nor in {}; install oubli with its tools", name,
       places[0].lexically_normal().string(), places[1].lexically_normal().string());
}

}  // namespace

void add_tools(Command& app) {
  for (const Tool& tool : kTools) {
    auto* const command = app.add_subcommand(tool.name, tool.help);
    command->footer(tool.examples);
  }
}

void become_tool(int argc, char** argv) {
  if (argc < 2) return;
  const std::string_view name = argv[1];
  if (std::ranges::none_of(kTools, [&](const Tool& tool) { return tool.name == name; })) return;
  const std::string script = script_named(std::string(name)).string();
  ::execv(script.c_str(), argv + 1);  // returns only if it could not
  fail(ErrorCode::io, "{}: cannot be run: {}", script, std::strerror(errno));
}

}  // namespace oubli::cli
