#include "oubli/audit/audit.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oubli/array/array_file.h"
#include "oubli/array/labels.h"
#include "oubli/audit/alignment.h"
#include "oubli/audit/columns.h"
#include "oubli/audit/gate.h"
#include "oubli/audit/resplit.h"
#include "oubli/audit/sampling.h"
#include "oubli/base/digest.h"
#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/interrupt.h"
#include "oubli/base/json.h"
#include "oubli/base/memory.h"
#include "oubli/base/names.h"
#include "oubli/base/output.h"
#include "oubli/base/progress.h"
#include "oubli/base/workers.h"
#include "oubli/cli/audit_summary.h"
#include "oubli/cli/choices.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/evidence/evidence_file.h"
#include "oubli/evidence/keys.h"

namespace oubli::cli {
namespace {

using Files = std::vector<std::string>;

constexpr std::size_t kFewestResamples = 100;
constexpr std::uint64_t kMostImages = 1'000'000'000;

struct AuditCommandOptions {
  Files seen, unseen, unseen2, before, features, unseen_features, before_features;
  std::vector<std::size_t> answers;
  std::string labels, class_names;
  std::vector<std::string> classes, attacks, observers;
  std::optional<double> fail_above;
  std::size_t splits = 1;
  std::filesystem::path csv, attest, sign;
  bool json = false, full = false, force = false, forgotten_only = false, undecided_passes = false,
       ignore_accuracy = false;
  AuditOptions audit;
};

// The arrays that populations read from: mapped files, kept open until the audit is done.
class Arrays {
 public:
  // One file of models x samples x columns, or one of samples x columns per model.
  Population population(const std::string& option, const Files& files) {
    std::vector<TensorView> views;
    for (const std::string& file : files) {
      loaded_.push_back(load_array(file));
      views.push_back(loaded_.back());
    }
    if (views.size() == 1 && views.front().rank() != 2) return population_of(views.front());
    return population_of(std::move(views), option);
  }
  std::optional<Population> optional(const std::string& option, const Files& files) {
    if (files.empty()) return std::nullopt;
    return population(option, files);
  }
  std::vector<std::uint32_t> labels(const std::string& file, std::size_t classes) {
    loaded_.push_back(load_array(file));
    return to_labels(loaded_.back(), classes);
  }
  void check_unchanged() const {
    for (const SharedTensor& tensor : loaded_)
      if (tensor.file) tensor.file->check_unchanged();
  }

 private:
  std::vector<SharedTensor> loaded_;
};

// Files by layer: "NAME=FILE", or "FILE" for what the head is given. In the order of the names.
std::vector<std::pair<std::string, Files>> by_layer(const Files& words) {
  std::vector<std::pair<std::string, Files>> layers;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const bool named = equals != std::string::npos && equals > 0 && word.find('/') > equals &&
                       !std::filesystem::exists(word);
    const std::string name = named ? word.substr(0, equals) : "";
    const std::string file = named ? word.substr(equals + 1) : word;
    if (file.empty()) fail(ErrorCode::usage, "'{}': no file after the layer's name", word);
    const auto found = std::ranges::find(layers, name, &std::pair<std::string, Files>::first);
    if (found == layers.end())
      layers.emplace_back(name, Files{file});
    else
      found->second.push_back(file);
  }
  return layers;
}

Files files_of(const std::vector<std::pair<std::string, Files>>& layers) {
  Files files;
  for (const auto& [name, of_layer] : layers)
    files.insert(files.end(), of_layer.begin(), of_layer.end());
  return files;
}

std::vector<FeatureLayer> feature_layers(Arrays& arrays, const AuditCommandOptions& options) {
  std::vector<FeatureLayer> layers;
  const auto layer_of = [&](const std::string& name) -> FeatureLayer& {
    const auto found = std::ranges::find(layers, name, &FeatureLayer::name);
    return found != layers.end() ? *found : layers.emplace_back(FeatureLayer{name, {}, {}, {}});
  };
  for (const auto& [name, files] : by_layer(options.features))
    layer_of(name).seen = arrays.population("--features", files);
  for (const auto& [name, files] : by_layer(options.unseen_features))
    layer_of(name).unseen = arrays.population("--unseen-features", files);
  for (const auto& [name, files] : by_layer(options.before_features))
    layer_of(name).before = arrays.population("--before-features", files);
  return layers;
}

// No file twice, under whatever name: two populations that share a model cannot be told apart.
void check_files(const AuditCommandOptions& options) {
  struct Named {
    std::string option, file;
  };
  std::vector<Named> all;  // of one kind, so far
  const auto add = [&](const std::string& option, const Files& files) {
    for (const std::string& file : files) {
      for (const Named& other : all) {
        std::error_code ignored;
        const ArrayPlace a = split_place(other.file), b = split_place(file);
        if (other.file == file ||
            (a.name == b.name && std::filesystem::equivalent(a.file, b.file, ignored)))
          fail(ErrorCode::usage, "{} {} and {} {} are the same file: {}", other.option, other.file,
               option, file,
               other.option == option ? "a model counts once" : "populations must be different");
      }
      all.push_back({option, file});
    }
  };
  add("--seen", options.seen);
  add("--unseen", options.unseen);
  add("--unseen2", options.unseen2);
  all.clear();
  add("--before", options.before);
  all.clear();
  add("--features", files_of(by_layer(options.features)));
  add("--unseen-features", files_of(by_layer(options.unseen_features)));
  all.clear();
  add("--before-features", files_of(by_layer(options.before_features)));
}

// What the audit reads: each FILE or FILE:NAME.
std::vector<std::filesystem::path> inputs_of(const AuditCommandOptions& options) {
  std::vector<std::filesystem::path> inputs{options.labels, options.class_names};
  for (const Files& files :
       {options.seen, options.unseen, options.unseen2, options.before,
        files_of(by_layer(options.features)), files_of(by_layer(options.unseen_features)),
        files_of(by_layer(options.before_features))})
    inputs.insert(inputs.end(), files.begin(), files.end());
  return inputs;
}

std::filesystem::path statement_path(const AuditCommandOptions& options) {
  return options.attest.empty() ? std::filesystem::path()
                                : std::filesystem::path(options.attest) += ".audit.intoto.jsonl";
}

// --force is meant for an older table or statement, not for what the audit reads.
void check_output(const AuditCommandOptions& options) {
  if (options.attest.empty() != options.sign.empty())
    fail(ErrorCode::usage, "--attest MODEL and --sign KEY go together");
  const std::filesystem::path statement = statement_path(options);
  std::vector<std::filesystem::path> inputs = inputs_of(options);
  inputs.insert(inputs.end(), {options.attest, options.sign});
  require_apart(std::vector<std::filesystem::path>{options.csv, statement}, inputs);
  for (const std::filesystem::path& output : {options.csv, statement})
    if (!output.empty()) prepare_output(output, options.force);
  if (options.sign.empty()) return;
  warn_if_open(options.sign);
  static_cast<void>(PrivateKey::read(options.sign));  // before hours of work, not after
  static_cast<void>(sha256_file(options.attest));
}

// Names as they stand in the file, however many.
std::vector<std::string> read_class_names(const std::string& file) {
  const std::string text = read_text_file(file);
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  return parse_class_names(text, lines + (text.empty() || text.ends_with('\n') ? 0 : 1), file);
}

std::vector<std::size_t> forgotten_classes(const AuditCommandOptions& options,
                                           const std::vector<std::string>& names,
                                           std::size_t classes) {
  std::set<std::size_t> forgotten;
  for (const std::string& word : options.classes)
    if (!forgotten.insert(class_named(word, names, classes)).second)
      fail(ErrorCode::usage, "--class {}: named twice", word);
  return {forgotten.begin(), forgotten.end()};
}

std::vector<std::size_t> chosen_answers(std::vector<std::size_t> answers) {
  std::ranges::sort(answers);
  answers.erase(std::unique(answers.begin(), answers.end()), answers.end());
  return answers;
}

// After everything was printed: the gate.
void check_gate(const Verdict& verdict, double limit, bool undecided_passes) {
  const Gate outcome = gate(verdict.excess, limit);
  if (outcome == Gate::passed || (outcome == Gate::undecided && undecided_passes)) return;
  if (!verdict.outcome) fail(kUndecided, "--fail-above {}: undecided: {}", limit, verdict.reason);
  const Figure& excess = verdict.excess;
  const std::string found = fmt::format("the largest {} is {:.3f}, between {:.3f} and {:.3f}",
                                        verdict.with_floor ? "leak minus floor" : "leak",
                                        *excess.value, *excess.low, *excess.high);
  if (outcome == Gate::failed)
    fail(ErrorCode::self_check, "--fail-above {}: {}: seen and unseen models are told apart", limit,
         found);
  std::size_t needed = 0;
  for (const VerdictPart& part : verdict.parts) needed = std::max(needed, part.networks_needed);
  fail(kUndecided, "--fail-above {}: undecided: {}{}", limit, found,
       needed == 0
           ? std::string("; more networks would decide it")
           : fmt::format("; about {} networks of each kind would decide it to ±0.1", needed));
}

// Signs what the audit came to, about the model. Digests are of what was read: the files are
// checked to be unchanged afterwards.
std::string attested_line(const AuditCommandOptions& options, const AuditResult& result) {
  std::vector<Artifact> arrays;
  std::set<std::string> digested;
  for (const std::filesystem::path& input : inputs_of(options)) {
    const std::string file = split_place(input.string()).file;
    if (!file.empty() && digested.insert(file).second)
      arrays.push_back({std::filesystem::path(file).filename().string(), sha256_file(file)});
  }
  const Artifact model{options.attest.filename().string(), sha256_file(options.attest)};
  Envelope envelope = enclose(
      audit_statement(model, result, options.fail_above.value_or(kFaint), std::move(arrays)));
  sign(envelope, PrivateKey::read(options.sign));
  return envelope_line(envelope);
}

// Who vouches for every forgotten class has every one looked at.
void require_all_forgotten(const AuditCommandOptions& options, const AuditSamples& samples) {
  const std::size_t audited = audited_classes(samples, options.audit).forgotten.size();
  if (audited == samples.forgotten.size() || (!options.fail_above && options.attest.empty()))
    return;
  fail(
      ErrorCode::usage,
      "{}: {} of {} forgotten classes would be looked at, and this is about every one of them; say "
      "--all, which takes as much longer",
      options.fail_above ? "--fail-above" : "--attest", audited, samples.forgotten.size());
}

void run(AuditCommandOptions& options) {
  check_output(options);
  check_files(options);
  AuditOptions& chosen = options.audit;
  if (chosen.bootstrap != 0 && chosen.bootstrap < kFewestResamples)
    fail(ErrorCode::usage, "--bootstrap {}: fewer than {} resamples have no 95 % interval; 0: none",
         chosen.bootstrap, kFewestResamples);
  if (!options.attacks.empty()) chosen.attacks = chosen_from<Attack>(options.attacks);
  if (!options.answers.empty()) chosen.answers = chosen_answers(options.answers);
  if (!options.observers.empty()) chosen.observers = chosen_from<Observer>(options.observers);
  chosen.retained = !options.forgotten_only;

  Arrays arrays;
  AuditInput input{.seen = arrays.population("--seen", options.seen),
                   .unseen = arrays.population("--unseen", options.unseen),
                   .unseen2 = arrays.optional("--unseen2", options.unseen2),
                   .before = arrays.optional("--before", options.before),
                   .features = feature_layers(arrays, options),
                   .samples = {},
                   .class_names = {}};
  const std::size_t classes = input.seen.columns + options.classes.size();
  if (!options.class_names.empty()) input.class_names = read_class_names(options.class_names);
  // Before anything is made of their number: a class that is named twice is one class.
  const std::vector<std::size_t> forgotten = forgotten_classes(
      options, input.class_names, input.class_names.empty() ? classes : input.class_names.size());
  const std::vector<std::uint32_t> labels = arrays.labels(options.labels, classes);
  if (labels.empty()) fail(ErrorCode::bad_input, "{}: no labels", options.labels);
  check_columns_gone(input, options.classes.size(), std::ranges::max(labels));
  if (!input.class_names.empty() && input.class_names.size() != classes)
    fail(ErrorCode::bad_input, "{}: {} names, wanted one for each of {} classes",
         options.class_names, input.class_names.size(), classes);
  input.samples = {.labels = labels, .classes = classes, .forgotten = forgotten};
  require_all_forgotten(options, input.samples);

  const auto misaligned = options.ignore_accuracy ? why_misaligned(input) : std::nullopt;
  if (!options.ignore_accuracy) require_aligned(input);

  chosen.stop = stop_on_interrupt();
  const std::size_t audited = audited_classes(input.samples, chosen).all().size();
  AuditResult result;
  {
    Progress progress("audit", audited * (options.splits + (input.unseen2 ? 1 : 0)));
    chosen.on_class = [&] { progress.step(); };
    result = audit(input, chosen);
    if (result.leaks_reason.empty())
      add_splits(result.leaks, input.seen, input.unseen, input.samples, chosen, options.splits);
  }
  if (misaligned) result.warnings.push_back(ignored_warning(*misaligned));
  const std::string statement = options.attest.empty() ? "" : attested_line(options, result);
  arrays.check_unchanged();
  if (!options.csv.empty()) write_file(options.csv, to_csv(result), options.force);
  if (!statement.empty()) write_file(statement_path(options), statement, options.force);
  if (options.json)
    fmt::print("{}\n", to_text(nlohmann::json(result), 2));
  else
    fmt::print("{}", options.full ? to_text(result) : summary_of(result));
  if (options.fail_above) check_gate(result.verdict, *options.fail_above, options.undecided_passes);
}

void add_inputs(Command& command, AuditCommandOptions& options) {
  const auto files = [&](const char* name, Files& where, const char* help) {
    return command.add_option(name, where, help)->type_name("FILE");
  };
  files("--seen", options.seen,
        "Logits of models trained on everything, then unlearned: one .npy of models x samples x "
        "retained classes, or one of samples x retained classes per model")
      ->required();
  files("--unseen", options.unseen,
        "The same of models trained without the forgotten classes; a single one gives less")
      ->required();
  files("--unseen2", options.unseen2, "More such models: what telling retrained ones apart gives");
  files("--before", options.before,
        "Logits of the seen models before unlearning, a column for every class: for label flips");
  files("--features", options.features,
        "Features of the seen models, for a linear probe; NAME=FILE for those of several layers")
      ->type_name("[NAME=]FILE");
  files("--unseen-features", options.unseen_features, "Features of the unseen models")
      ->type_name("[NAME=]FILE");
  files("--before-features", options.before_features,
        "Features of the seen models before unlearning: how far they have moved (CKA)")
      ->type_name("[NAME=]FILE");
  command.add_option("--labels", options.labels, "True classes of the samples, original numbering")
      ->required()
      ->type_name("FILE");
  command.add_option("--class", options.classes, "A forgotten class, by index or name; repeatable")
      ->required()
      ->take_all();
  command.add_option("--class-names", options.class_names,
                     "Text file with one class name per line");
}

void add_choices(Command& command, AuditCommandOptions& options) {
  AuditOptions& audit = options.audit;
  command
      .add_option("--attack", options.attacks,
                  "nearest-neighbours, forest, adaboost, logistic, per-image, per-image-spread, "
                  "strong-forest (default: all but the last)")
      ->delimiter(',');
  command
      .add_option("--answers", options.answers,
                  "How many answers of one network attacks per image are given (default: 1,10,100)")
      ->delimiter(',')
      ->between(1, kMostImages);
  command
      .add_option("--observer", options.observers, "logits, probabilities, label (default: all)")
      ->delimiter(',');
  command
      .add_option("--images", audit.images_forgotten,
                  "Images per model of a forgotten class that attacks see (default: all; the "
                  "paper: 150)")
      ->range(0, kMostImages);
  command
      .add_option("--images-retained", audit.images_retained,
                  "The same for a retained class (the paper: 150, and 100 for MNIST)")
      ->range(0, kMostImages);
  command.add_flag("--forgotten-only", options.forgotten_only, "Leave the retained classes out");
  command.add_flag(
      "--all", audit.all,
      fmt::format("Everything of large arrays, which takes as much longer. Without it an evenly "
                  "spread part is looked at beyond {} forgotten and {} retained classes, {} "
                  "networks of a kind, {} directions per column and the like; the result says what",
                  kAuditedForgotten, kAuditedRetained, kAuditedNetworks, kDirectionsPerColumn));
  command.add_option("--train-share", audit.train_share, "Share of the models attacks learn from")
      ->between(0.05, 0.95)
      ->capture_default_str();
  command
      .add_option("--splits", options.splits,
                  "Split the models into those attacks learn from and the rest so many times, for "
                  "an interval over both; each takes as long as all attacks")
      ->range(1, 1000)
      ->capture_default_str();
  command.add_option("--directions", audit.directions, "Random directions of the KS distance")
      ->range(0, 1'000'000)
      ->capture_default_str();
  command
      .add_option("--bootstrap", audit.bootstrap,
                  "Resamples for the intervals: 100 or more, or 0 for none")
      ->range(0, 1'000'000)
      ->capture_default_str();
  command.add_option("--seed", audit.seed, "Seed")->capture_default_str();
  audit.workers = available_cores();
  command.add_option("--jobs", audit.workers, "Threads (the result does not depend on it)")
      ->range(1, 1024)
      ->capture_default_str();
}

}  // namespace

void add_audit(Command& app) {
  auto options = std::make_shared<AuditCommandOptions>();
  Command* command = app.add_subcommand(
      "audit", "Could anyone tell from its logits that a model has seen the forgotten class?");
  add_inputs(*command, *options);
  add_choices(*command, *options);
  command
      ->add_option(
          "--fail-above", options->fail_above,
          "A gate: the largest leak minus floor, over forgotten classes, observers and attacks, "
          "and its 95 % interval, which holds for all of them at once. Exit 0 if the interval is "
          "below this, 5 if it is above, 9 if the networks do not decide it")
      ->between(0, 1);
  command->add_flag("--undecided-passes", options->undecided_passes,
                    "With --fail-above: exit 0 instead of 9");
  command->add_option("--csv", options->csv, "Also write all figures per class to this file");
  command
      ->add_option("--attest", options->attest,
                   "The model that was audited: writes MODEL.audit.intoto.jsonl, the audit as a "
                   "signed in-toto test result about that file (docs/evidence.md)")
      ->type_name("MODEL");
  command->add_option("--sign", options->sign, "With --attest: sign with this key ('oubli keygen')")
      ->type_name("KEY");
  command->add_flag("--force", options->force, "Replace files that exist (--csv, --attest)");
  command->add_flag("--ignore-accuracy", options->ignore_accuracy,
                    "Although labels look misaligned: the networks are as bad as that");
  command->add_flag("--json", options->json, "Print JSON instead of tables");
  command->add_flag("--full", options->full, "Print every attack and figure");
  command->footer(
      "Logits may come from anywhere: docs/from-pytorch.md and docs/from-keras.md export them.\n"
      "Examples:\n"
      "  oubli audit --seen seen.npy --unseen unseen.npy --labels y.npy --class 3\n"
      "  oubli audit --seen seen/*.npy --unseen unseen/*.npy --unseen2 more/*.npy --labels y.npy "
      "\\\n"
      "      --class alice --class-names names.txt --before before.npy --csv audit.csv\n"
      "  oubli audit --seen seen.npy --unseen unseen.npy --labels y.npy --class 3 --forgotten-only "
      "\\\n"
      "      --observer probabilities,label --fail-above 0.1 --json > audit.json");
  command->callback([options] {
    keep_freed_memory();
    run(*options);
  });
}

}  // namespace oubli::cli
