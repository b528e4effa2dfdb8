#include "oubli/forget/verify.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/base/digest.h"
#include "oubli/base/file.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/printable.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/forget_text.h"
#include "oubli/cli/model_options.h"
#include "oubli/cli/request_options.h"
#include "oubli/cli/result_stream.h"
#include "oubli/cli/terminal.h"
#include "oubli/evidence/evidence_file.h"
#include "oubli/forget/attestation.h"
#include "oubli/forget/claims.h"
#include "oubli/forget/curvature.h"
#include "oubli/forget/receipt.h"

namespace oubli::cli {
namespace {

struct VerifyOptions : ModelOptions {  // its `model` is the original
  std::string receipt;
  std::string new_model;
  std::vector<std::string> keys;
  std::uint64_t threshold = 1;
  bool recompute = false;
  std::string previous;
  std::string target;
  std::optional<std::uint64_t> given_seed;
  bool json = false;
};

std::string_view name_of(VerifyStep::State state) {
  using enum VerifyStep::State;
  return state == passed ? "passed" : state == failed ? "FAILED" : "not made";
}

void print(const VerifyOptions& options, std::span<const VerifyStep> steps, bool passed) {
  if (options.json) {
    nlohmann::ordered_json json{{"receipt", options.receipt}, {"passed", passed}};
    for (const VerifyStep& step : steps)
      json["steps"].push_back(
          {{"what", step.what}, {"state", name_of(step.state)}, {"detail", step.detail}});
    json["not_proved"] = limits_of_the_method();
    fmt::print(results(), "{}\n", to_text(json, 1));
    return;
  }
  const auto count = [&](VerifyStep::State state) {
    return std::ranges::count(steps, state, &VerifyStep::state);
  };
  using State = VerifyStep::State;
  const std::string figures =
      fmt::format("{} checks passed, {} failed, {} not made.", count(State::passed),
                  count(State::failed), count(State::not_made));
  fmt::print(results(), "{}",
             labelled(options.receipt + (passed ? " verifies:" : " does NOT verify:"),
                      passed ? Look::good : Look::bad, figures));
  constexpr std::size_t kHang = 10;
  for (const VerifyStep& step : steps)
    fmt::print(
        results(), "{}",
        told(fmt::format("{:8}  {}: {}", name_of(step.state), step.what, step.detail), kHang));
  fmt::print(results(), "{}", told("What this does not prove: --limits."));
}

// NEW of NEW.receipt.json, NEW.intoto.jsonl, NEW.sigstore.json, if it is there.
std::string model_beside(const std::string& receipt) {
  const MappedFile there(receipt);  // a file that cannot be read is the first thing to say
  if (const std::string its = receipt + ".receipt.json"; std::filesystem::exists(its))
    fail(ErrorCode::usage, "{}: not a receipt, but beside one: oubli verify {}", receipt, its);
  for (const std::string_view ending : {".receipt.json", ".intoto.jsonl", ".sigstore.json"})
    if (receipt.ends_with(ending)) {
      std::string model = receipt.substr(0, receipt.size() - ending.size());
      if (std::filesystem::exists(model)) return model;
    }
  fail(ErrorCode::usage,
       "{}: the model it is about is not beside it under its own name; name it with --model NEW",
       receipt);
}

// Inputs are made as the receipt says. What the command line says comes first: receipts of earlier
// versions say it in words only.
void replay(const PreparationOptions& used, ModelOptions& options) {
  // Anybody may have written the receipt; it must not make a model that takes images of any size
  // take all memory.
  constexpr std::size_t kLargestSide = 1024;
  const auto [height, width] = *used.size;
  if (options.size.empty() && std::max(height, width) > kLargestSide)
    fail(ErrorCode::usage,
         "the receipt is about images of {0} x {1}; if that is right, say --size {0}x{1}", height,
         width);
  PreparationOptions& given = options.run.preparation;
  if (!given.scale) given.scale = used.scale;
  if (given.mean.empty()) given.mean = used.mean;
  if (given.standard.empty()) given.standard = used.standard;
  given.channels_last = used.channels_last;  // --layout, --size, --grey, --colour are applied later
  given.size = used.size;
  given.colour = used.colour;
}

// Where several matrices could be the head, or either side of one the classes, the receipt says how
// large it is.
std::unique_ptr<ModelFile> open_head(const std::string& path, HeadChoice choice,
                                     const ReceiptPart& head) {
  try {
    return ModelFile::open(path, choice);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage || (!choice.weights.empty() && choice.transposed)) throw;
  }
  choice.classes = head["classes"].whole_number();
  choice.features = head["features"].whole_number();
  return ModelFile::open(path, choice);
}

// The new model may have two classes left, too few for another request, or as many as features,
// where only the receipt says which are which.
std::unique_ptr<ModelFile> open_to_look_at(const VerifyOptions& options,
                                           const nlohmann::ordered_json& receipt) {
  HeadChoice choice = head_choice(options);
  choice.float_head = false;  // they are floats by now
  // The old head had none; which one the new head gained, is in the receipt.
  if (options.no_bias && ReceiptPart(receipt)["bias_added"].flag()) {
    const std::string head = ReceiptPart(receipt)["output"]["head"]["name"].text();
    const std::size_t comma = head.rfind(", ");
    choice.bias.reset();
    if (comma != std::string::npos) choice.bias = head.substr(comma + 2);
  }
  const ReceiptPart head = ReceiptPart(receipt)["output"]["head"];
  auto model = open_head(options.new_model, choice, head);
  if (choice.transposed || model->head().classes() != model->head().features()) return model;
  choice.transposed = head["layout"].text() == "features x classes";
  if (model->head().transposed == *choice.transposed) return model;
  return open_head(options.new_model, choice, head);
}

// With its means or data; where these are no good, alone, so that its digest is checked.
LoadedModel load_original(VerifyOptions options, bool replayed, std::optional<Error>& problem) {
  try {
    return load(options);
  } catch (const Error& error) {
    using enum ErrorCode;
    // What the command line is to blame for; not where it says what the receipt does.
    if (error.code() == io || error.code() == interrupted || error.code() == bug) throw;
    if (error.code() == usage && !replayed) throw;
    problem = error;
  }
  options.drop_data();
  try {
    return load(options);
  } catch (const Error&) {  // says the same, or less
    return {};
  }
}

// The receipt itself, or that of the statement about the new model, with what was found out about
// that on the way.
nlohmann::ordered_json receipt_of(const VerifyOptions& options, VerifyInputs& inputs,
                                  std::vector<VerifyStep>& steps) {
  const std::string text = read_text_file(options.receipt, kEvidenceLimit);
  std::vector<PublicKey> keys;
  for (const std::string& file : options.keys) keys.push_back(PublicKey::read(file));
  if (options.threshold < 1 || options.threshold > std::max<std::size_t>(keys.size(), 1))
    fail(ErrorCode::usage, "--threshold {}: wanted 1 to the number of keys, which is {}",
         options.threshold, keys.size());
  const auto envelopes = parse_evidence(text, options.receipt);
  if (!envelopes) {
    if (keys.size() > 1)
      fail(ErrorCode::usage, "{}: a receipt has one signature at most; wanted one --key",
           options.receipt);
    if (!keys.empty()) inputs.public_key = keys.front().hex();
    return parse_receipt(text, options.receipt);
  }
  EvidenceCheck check = check_evidence(*envelopes, keys, options.threshold,
                                       sha256_file(options.new_model), options.receipt);
  steps = std::move(check.steps);
  inputs.attested = !keys.empty();
  if (check.deletion) return receipt_in(*check.deletion, options.receipt);
  print(options, steps, false);
  fail(ErrorCode::self_check, "{}: does not verify", options.receipt);
}

void run(VerifyOptions options) {
  if (options.new_model.empty()) options.new_model = model_beside(options.receipt);
  for (std::string* const name : {&options.model, &options.new_model})
    while (name->size() > 1 && name->ends_with('/')) name->pop_back();
  VerifyInputs inputs;
  std::vector<VerifyStep> steps;
  const auto receipt = receipt_of(options, inputs, steps);
  inputs.make_files = options.recompute;
  if (options.recompute && options.model.empty())
    fail(ErrorCode::usage, "--recompute without --original: there is nothing to compute from");
  if (options.model.empty() && (options.has_data() || !options.means.empty()))
    fail(ErrorCode::usage, "--means or data without --original: nothing can be computed from them");
  const std::string unused =
      options.target.empty() ? options.given_run_option() : std::string("--target");
  if (options.model.empty() && !unused.empty())
    fail(ErrorCode::usage, "{} without --original: nothing is computed", unused);
  const ForgetRequest request = request_of(receipt);
  if (!options.target.empty() && (request.curvature || request.method != Method::custom))
    fail(ErrorCode::usage, "--target: the receipt is about method {}, which takes none",
         request.curvature ? kCurvature : name_of(request.method));
  if (!options.previous.empty()) inputs.previous = options.previous;
  inputs.seed = options.given_seed;
  LoadedModel original;
  options.float_head = ReceiptPart(receipt)["request"].has("float_head");
  if (!options.model.empty()) {
    const auto used = options.has_inputs() ? preparation_of(receipt) : std::nullopt;
    if (used) replay(*used, options);
    original = load_original(options, used.has_value(), inputs.problem);
    if (original.model) inputs.original = &original.inputs;
  }
  inputs.stop = original.stop;
  const auto model = open_to_look_at(options, receipt);
  inputs.model = model.get();
  if (!options.target.empty())
    inputs.custom_target =
        read_target(options.target, request.forget.size(), model->head().classes());
  std::ranges::move(verify_receipt(receipt, inputs), std::back_inserter(steps));
  throw_if_stopped(inputs.stop);
  const bool passed = std::ranges::none_of(
      steps, [](const VerifyStep& step) { return step.state == VerifyStep::State::failed; });
  print(options, steps, passed);
  if (!passed) fail(ErrorCode::self_check, "{}: does not verify", options.receipt);
}

}  // namespace

void add_verify(Command& app) {
  auto* const command = app.add_subcommand("verify", "Check a receipt against the files it names");
  const auto options = std::make_shared<VerifyOptions>();
  command
      ->add_option("receipt", options->receipt,
                   "NEW.receipt.json, NEW.intoto.jsonl or NEW.sigstore.json")
      ->required();
  command->add_option("--model", options->new_model,
                      "The new model (default: the one beside the receipt)");
  command
      ->add_option("--key,--pubkey", options->keys,
                   "Public key of whoever signed; several, if several did")
      ->one_at_a_time();
  command
      ->add_option("--threshold", options->threshold,
                   "How many of the keys must have signed a statement for it to count")
      ->range(1, 1000)
      ->capture_default_str();
  command->add_flag("--recompute", options->recompute,
                    "Do the whole request again: every file of the new model must come out "
                    "byte for byte (needs --original)");
  command->add_option("--original", options->model,
                      "The old model; with its means or data the new head is computed anew");
  command->add_option("--previous", options->previous, "The receipt before this one");
  command->add_option("--target", options->target, "Target logits, if the method was custom");
  options->add_head(*command);
  options->add_means(*command);
  options->add_data(*command);
  for (const char* const name : {"--samples", "--random-samples", "--seed"})
    command->remove_option(command->get_option(name));  // the receipt says that
  command->add_option("--seed", options->given_seed,
                      "The seed, where the receipt holds a digest of it only");
  options->add_run(*command);
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_text("--limits", limits_text, "Print what no receipt proves, and nothing else");
  command->footer(
      "Exit code 5 if a check fails, 0 if all that were made passed. Samples are chosen and "
      "inputs\n"
      "made as the receipt says; those options are for receipts that do not.\n\n"
      "Examples:\n"
      "  oubli verify new.npz.receipt.json --key receipts.key.pub\n"
      "  oubli verify new.npz.receipt.json --model new.npz --original old.npz --means means.npz");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
