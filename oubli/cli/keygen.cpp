#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/forget/signature.h"

namespace oubli::cli {
namespace {

struct KeygenOptions {
  std::string output;
  bool force = false;
  bool json = false;
};

void run(const KeygenOptions& options) {
  const std::string public_key = generate_keys(options.output, options.force);
  const std::string public_path = public_key_path(options.output).string();
  if (options.json) {
    const nlohmann::ordered_json result{
        {"key", options.output}, {"public_key_file", public_path}, {"public_key", public_key}};
    fmt::print("{}\n", to_text(result, 1));
    return;
  }
  fmt::print(
      "{}: the private key, mode 0600; keep it to yourself\n{}: the public key, for those who "
      "verify\npublic key {}\n",
      options.output, public_path, public_key);
}

}  // namespace

void add_keygen(Command& app) {
  auto* const command = app.add_subcommand("keygen", "Make a pair of keys for signing receipts");
  const auto options = std::make_shared<KeygenOptions>();
  command->add_option("-o,--output", options->output, "The private key; KEY.pub appears beside it")
      ->required();
  command->add_flag("--force", options->force, "Replace keys that exist");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer(
      "Example:\n"
      "  oubli keygen -o receipts.key\n"
      "  oubli forget head.npz --class 3 --means means.npz --sign receipts.key -o new.npz");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
