#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/evidence/keys.h"

namespace oubli::cli {
namespace {

struct KeygenOptions {
  std::string output;
  std::string type{name_of(KeyType::ed25519)};
  bool force = false;
  bool json = false;
};

void run(const KeygenOptions& options) {
  const PublicKey public_key =
      generate_keys(options.output, options.force, *key_type_named(options.type));
  const std::string public_path = public_key_path(options.output).string();
  if (options.json) {
    const nlohmann::ordered_json result{{"key", options.output},
                                        {"type", options.type},
                                        {"public_key_file", public_path},
                                        {"public_key", public_key.hex()},
                                        {"key_id", public_key.id()}};
    fmt::print("{}\n", to_text(result, 1));
    return;
  }
  fmt::print(
      "{}: the private key, mode 0600; keep it to yourself\n{}: the public key, for those who "
      "verify\npublic key {}\nkey id {}\n",
      options.output, public_path, public_key.hex(), public_key.id());
}

}  // namespace

void add_keygen(Command& app) {
  auto* const command =
      app.add_subcommand("keygen", "Make a pair of keys for signing receipts and evidence");
  const auto options = std::make_shared<KeygenOptions>();
  command->add_option("-o,--output", options->output, "The private key; KEY.pub appears beside it")
      ->required();
  std::vector<std::string> types;
  for (const KeyType type : kAllKeyTypes) types.emplace_back(name_of(type));
  command
      ->add_option("--type", options->type,
                   "ed25519, or ecdsa-p256, which signers of models (OMS) take")
      ->one_of(types)
      ->capture_default_str();
  command->add_flag("--force", options->force, "Replace keys that exist");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->footer(
      "Example:\n"
      "  oubli keygen -o receipts.key\n"
      "  oubli forget head.npz --class 3 --means means.npz --sign receipts.key -o new.npz");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
