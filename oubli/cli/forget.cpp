#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/array/array_file.h"
#include "oubli/base/digest.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/base/output.h"
#include "oubli/base/printable.h"
#include "oubli/base/progress.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/forget_curvature.h"
#include "oubli/cli/forget_summary.h"
#include "oubli/cli/forget_text.h"
#include "oubli/cli/request_options.h"
#include "oubli/cli/result_stream.h"
#include "oubli/cli/terminal.h"
#include "oubli/evidence/keys.h"
#include "oubli/forget/attestation.h"
#include "oubli/forget/curvature.h"
#include "oubli/forget/receipt.h"
#include "oubli/report/certificate.h"

namespace oubli::cli {
namespace {

struct ForgetOptions : RequestOptions {
  ForgetOptions() { takes_curvature = true; }

  std::string output;
  std::string previous;
  std::string sign;
  std::string report;
  std::string date;
  bool no_names = false;
  bool attest = false;
  bool no_attest = false;
  bool bundle = false;
  bool dry_run = false;
  bool force = false;
  bool json = false;
  bool full = false;
};

// The receipt that came with the input, if it did: then the new one continues the chain.
std::optional<std::filesystem::path> find_previous(const ForgetOptions& options,
                                                   const ModelFile& model) {
  const bool given = !options.previous.empty();
  const std::filesystem::path path =
      given ? std::filesystem::path(options.previous) : receipt_path(options.model);
  if (!given && !std::filesystem::exists(path)) return std::nullopt;
  const auto receipt = parse_receipt(read_text_file(path), path.string());
  const std::string digest = sha256_file(model.files().front());
  if (is_output_of(receipt, digest)) return path;
  if (given)
    fail(ErrorCode::bad_input, "{}: is not the receipt of {}", path.string(), options.model);
  remark(fmt::format("note: {} belongs to another file than {}; not chained", path.string(),
                     options.model));
  return std::nullopt;
}

// Before any work: everything that will be written can be, and is none of what is read.
void check_outputs(const ForgetOptions& options, const ModelFile& model) {
  std::vector<std::filesystem::path> inputs = options.named_files();
  for (const std::string& word : {options.target, options.sign, options.previous})
    inputs.emplace_back(word);
  inputs.push_back(receipt_path(options.model));  // see find_previous()
  inputs.push_back(evidence_path(options.model));
  std::ranges::copy(model.files(), std::back_inserter(inputs));
  const std::filesystem::path output = options.output;
  std::vector<std::filesystem::path> outputs{output,
                                             receipt_path(output),
                                             means_path(output),
                                             class_names_path(output),
                                             evidence_path(output),
                                             bundle_path(output),
                                             options.report};
  if (!options.report.empty())
    std::ranges::copy(report::card_paths(options.report), std::back_inserter(outputs));
  std::ranges::copy(model.files_beside(output), std::back_inserter(outputs));
  require_apart(outputs, inputs);
  prepare_output(output, options.force);
  if (!options.report.empty()) {
    prepare_output(options.report, options.force);
    for (const auto& card : report::card_paths(options.report)) prepare_output(card, options.force);
  }
  if (const std::string ending = output.extension().string();
      (ending == ".onnx" || ending == ".npz" || ending == ".npy" || ending == ".safetensors") &&
      ending != model.format())
    remark(fmt::format("note: {} is {} {} file, like the model, whatever its name says",
                       output.string(), model.format() == ".onnx" ? "an" : "a", model.format()));
}

std::string capital(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// What appeared beside the new model.
std::string describe_written(const ForgetOptions& options, const ForgetPlan& plan,
                             const ForgetOutputs& outputs) {
  std::vector<std::string> endings{".receipt.json"};
  if (plan.means && std::filesystem::exists(means_path(options.output)))
    endings.emplace_back(".means.npz");
  if (outputs.class_names) endings.emplace_back(".class-names.txt");
  if (outputs.attest) endings.emplace_back(".intoto.jsonl");
  if (outputs.bundle) endings.emplace_back(".sigstore.json");
  return told(fmt::format("Beside {}: {}.",
                          std::filesystem::path(options.output).filename().string(),
                          fmt::join(endings, ", ")));
}

// Everything there is to say.
void print_full(const ForgetOptions& options, const LoadedModel& loaded,
                const ForgetRequest& request, const ForgetPlan& plan, const ForgetOutcome& outcome,
                const ForgetOutputs& outputs) {
  fmt::print(results(), "{}{}", describe_model(*loaded.model, loaded.class_names),
             describe_plan(loaded.inputs, request, plan, outcome));
  if (options.dry_run) {
    fmt::print(results(), "dry run: nothing was written\n");
    return;
  }
  fmt::print(results(), "{}", describe_findings(*loaded.model, outcome));
  fmt::print(results(), "\n{}{}",
             line("written: {} ({} classes)", options.output, plan.split().retained.size()),
             line("receipt: {}", receipt_path(options.output).string()));
  if (outputs.attest)
    fmt::print(results(), "{}", line("signed:  {}", evidence_path(options.output).string()));
  if (outputs.bundle)
    fmt::print(results(), "{}", line("bundle:  {}", bundle_path(options.output).string()));
  if (plan.means && std::filesystem::exists(means_path(options.output)))
    fmt::print(results(), "{}", line("means:   {}", means_path(options.output).string()));
  fmt::print(results(), "{}", describe_digests(plan, outcome));
}

void print_summary(const ForgetOptions& options, const LoadedModel& loaded,
                   const ForgetRequest& request, const ForgetPlan& plan,
                   const ForgetOutcome& outcome, const ForgetOutputs& outputs) {
  fmt::print(results(), "{}{}",
             headline(loaded.inputs, request, plan, options.dry_run ? "" : options.output),
             findings_in_words(loaded.inputs, request, outcome));
  if (options.dry_run)
    fmt::print(results(), "{}",
               told("Dry run: nothing was written. More: --full; limits: --limits."));
  else
    fmt::print(results(), "{}{}{}", checks_in_words(plan, outcome),
               describe_written(options, plan, outputs),
               labelled("To do:", Look::bold,
                        fmt::format("delete {}, its means and all copies. More: --full, --limits.",
                                    options.model)));
  remark_on(loaded.inputs, plan, outcome);
}

void draw_certificate(const ForgetOptions& options, const ForgetRequest& request) {
  report::CertificateWords words{.date = options.date};
  if (!options.no_names) {
    words.classes = capital(classes_in_words(request));
    words.receipt_name = receipt_path(options.output).filename();
    words.new_model = std::filesystem::path(options.output).filename();
    words.old_model = std::filesystem::path(options.model).filename();
  }
  report::write_certificate(receipt_path(options.output), options.report, options.force, words);
}

ForgetOutputs outputs_of(const ForgetOptions& options, const LoadedModel& loaded) {
  ForgetOutputs outputs;
  outputs.previous_receipt = find_previous(options, *loaded.model);
  outputs.model = options.output;
  outputs.replace = options.force;
  if (!options.sign.empty()) outputs.signing_key = options.sign;
  outputs.attest = !options.sign.empty() && !options.no_attest;
  outputs.bundle = options.bundle;
  if (outputs.attest && std::filesystem::exists(evidence_path(options.model)))
    outputs.previous_evidence = evidence_path(options.model);
  if (loaded.names_need_file && !options.dry_run)
    outputs.class_names = class_names_path(options.output);
  return outputs;
}

void run(ForgetOptions options) {
  // "NEW/" would put the receipt of a folder into it.
  for (std::string* const name : {&options.model, &options.output})
    while (name->size() > 1 && name->ends_with('/')) name->pop_back();
  if (!options.dry_run && options.output.empty())
    fail(ErrorCode::usage, "-o NEW is missing (or --dry-run)");
  for (const auto& [option, word] :
       {std::pair("--report", &options.report), std::pair("--sign", &options.sign)})
    if (options.dry_run && !word->empty())
      fail(ErrorCode::usage, "{} needs a receipt: not together with --dry-run", option);
  check_words(options);
  if ((options.attest || options.bundle) && (options.sign.empty() || options.no_attest))
    fail(ErrorCode::usage, "{} needs --sign KEY{}", options.attest ? "--attest" : "--bundle",
         options.no_attest ? ", and no --no-attest" : "");
  if (asks_for_curvature(options) && !options.report.empty())
    fail(ErrorCode::usage,
         "--report: there is no page about method curvature, which is experimental");
  LoadedModel loaded = open_model(options);
  const ForgetRequest request = make_request(options, loaded);
  if (request.curvature) (void)network_for_curvature(*loaded.model);
  if (!options.dry_run) check_outputs(options, *loaded.model);
  if (!options.sign.empty()) (void)PrivateKey::read(options.sign);
  const ForgetOutputs outputs = outputs_of(options, loaded);
  run_on_data(loaded, options);
  if (request.curvature)
    return forget_by_curvature(loaded, request, outputs,
                               {options.dry_run, options.json, options.full});

  const ForgetPlan plan = plan_forget(loaded.inputs, request, loaded.stop);
  if (options.dry_run) {
    const ForgetOutcome outcome = look_for_leaks(loaded.inputs, request, plan);
    throw_if_stopped(loaded.stop);
    if (options.json) {
      nlohmann::ordered_json json{{"dry_run", true},
                                  {"head", head_json(*loaded.model, plan.digests.head)}};
      json.update(plan_json(loaded.inputs, request, plan, outcome));
      fmt::print(results(), "{}\n", to_text(json, 1));
    } else {
      (options.full ? print_full : print_summary)(options, loaded, request, plan, outcome, outputs);
    }
    return;
  }
  const ForgetOutcome outcome = carry_out(loaded.inputs, request, plan, outputs, loaded.stop);
  if (!options.report.empty()) draw_certificate(options, request);
  if (options.json) {
    fmt::print(results(), "{}", outcome.receipt);
    return;
  }
  (options.full ? print_full : print_summary)(options, loaded, request, plan, outcome, outputs);
}

}  // namespace

void add_forget(Command& app) {
  auto* const command =
      app.add_subcommand("forget", "Take classes out of a model, without retraining it");
  const auto options = std::make_shared<ForgetOptions>();
  options->add_request(*command);
  command->add_option("-o,--output", options->output,
                      "The new model; NEW.receipt.json and NEW.means.npz appear beside it");
  command->add_option("--note", options->note, "Words of your own for the receipt");
  command->add_option("--previous", options->previous,
                      "Receipt of the request before this one (default: MODEL.receipt.json)");
  command->add_option("--sign", options->sign, "Sign the receipt with this key ('oubli keygen')");
  command->add_flag("--attest", options->attest,
                    "Also NEW.intoto.jsonl, an in-toto statement in a signed envelope, which other "
                    "programs can check (the default with --sign)");
  command->add_flag("--no-attest", options->no_attest, "No statement beside the receipt");
  command->add_flag("--bundle", options->bundle,
                    "Also NEW.sigstore.json, the statement as a sigstore bundle");
  command->add_option("--report", options->report,
                      "Also a page of one sheet for whoever asked (HTML), and a card to show "
                      "(.card.svg, .card.png)");
  command->add_option("--date", options->date, "Date on the page (default: that of the receipt)");
  command->add_flag("--no-names", options->no_names, "Forgotten classes by number on the page");
  command->add_flag("--keep-seed", options->keep_seed,
                    "Method randomization: the seed itself in the receipt, not a digest of it");
  command->add_flag("--dry-run", options->dry_run, "Say what would be done, write nothing");
  command->add_flag("--allow-nonlinear-tail", options->allow_nonlinear_tail,
                    "Although a Relu, Sigmoid, ... after the logits shows a shift of them");
  command->add_flag("--ignore-accuracy", options->ignore_accuracy,
                    "Although the model seems to be wrong about the data's labels");
  command->add_flag("--force", options->force, "Replace outputs that exist");
  command->add_flag("--json", options->json, "Print the receipt as JSON");
  command->add_flag("--full", options->full, "Print every figure, name and digest");
  command->add_text("--limits", limits_text, "Print what forgetting does not do, and nothing else");
  command->footer(
      "Methods: normalization (default), explained (--explain), naive, randomization, zeroing, "
      "centre, custom (--target);\n"
      "curvature (experimental): for networks of 'oubli train' alone, with the images they were "
      "trained on.\n"
      "Solvers: auto (default), paper, affine, logit-affine, ridge.\n\n"
      "Examples:\n"
      "  oubli forget model.onnx --class alice --data calibration/ -o new.onnx --report "
      "report.html\n"
      "  oubli forget model.pth --class cat --features f.npy --labels y.npy -o new.pth\n"
      "  oubli forget head.npz --class 3 --features f.npy --labels y.npy -o new.npz\n"
      "  oubli forget head.safetensors --class alice --class bob --class-names names.txt \\\n"
      "        --means means.npz -o new.safetensors\n"
      "  oubli forget new.npz --class 5 --means new.npz.means.npz --sign receipts.key -o "
      "newer.npz\n"
      "  oubli forget head.npz --class 3 --method naive --dry-run --json\n"
      "  oubli train mnist -o model.onnx && oubli forget model.onnx --class 3 --method curvature "
      "\\\n"
      "        --data mnist:train -o new.onnx");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
