#include <algorithm>
#include <memory>

#include "oubli/base/digest.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/output.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/evidence/evidence_file.h"
#include "oubli/evidence/statement.h"

namespace oubli::cli {
namespace {

struct SignOptions {
  std::string evidence, model, key, output;
  bool force = false;
};

// Whoever signs says what the statement says: it is signed only if it is about this very file.
void run(const SignOptions& options) {
  prepare_output(options.output, options.force);
  require_apart(std::vector<std::filesystem::path>{options.output},
                std::vector<std::filesystem::path>{options.evidence, options.model, options.key});
  const auto found =
      parse_evidence(read_text_file(options.evidence, kEvidenceLimit), options.evidence);
  if (!found)
    fail(ErrorCode::usage, "{}: wanted a file of statements, such as NEW.intoto.jsonl",
         options.evidence);
  std::vector<Envelope> envelopes = *found;
  warn_if_open(options.key);
  const PrivateKey key = PrivateKey::read(options.key);
  const PublicKey open = key.public_key();
  const std::string digest = sha256_file(options.model);
  std::string signed_now;
  std::string text;
  for (std::size_t i = 0; i < envelopes.size(); ++i) {
    Envelope& envelope = envelopes[i];
    const std::string what = fmt::format("{}, statement {}", options.evidence, i + 1);
    const Statement statement = statement_in(envelope, what);
    const auto checks = check_signatures(envelope, std::span(&open, 1));
    const bool about = std::ranges::count(statement.subjects, digest, &Artifact::sha256) > 0;
    if (about && signers(checks, std::span(&open, 1)) == 0) {
      sign(envelope, key);
      signed_now += fmt::format("signed: statement {}, of type {}, now by {}\n", i + 1,
                                statement.predicate_type, envelope.signatures.size());
    }
    text += envelope_line(envelope);
  }
  if (signed_now.empty())
    fail(ErrorCode::usage, "{}: no statement about {} that this key has not signed yet",
         options.evidence, options.model);
  write_file(options.output, text, options.force);
  fmt::print("{}written: {}\n", signed_now, options.output);
}

}  // namespace

void add_sign(Command& app) {
  auto* const command =
      app.add_subcommand("sign", "Add your signature to the statements about a model");
  const auto options = std::make_shared<SignOptions>();
  command->add_option("evidence", options->evidence, "NEW.intoto.jsonl")->required();
  command->add_option("--model", options->model, "The model that the statements are about")
      ->required();
  command->add_option("--key", options->key, "Your private key ('oubli keygen')")->required();
  command->add_option("-o,--output", options->output, "The statements with one more signature")
      ->required();
  command->add_flag("--force", options->force, "Replace a file that exists");
  command->footer(
      "Check what you sign first ('oubli verify'). Example:\n"
      "  oubli sign new.npz.intoto.jsonl --model new.npz --key mine.key -o both.intoto.jsonl\n"
      "  oubli verify both.intoto.jsonl --model new.npz --key theirs.pub --key mine.key.pub \\\n"
      "        --threshold 2");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
