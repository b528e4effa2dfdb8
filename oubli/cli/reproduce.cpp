#include "oubli/experiment/reproduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "oubli/base/count.h"
#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/base/progress.h"
#include "oubli/cli/audit_summary.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/cli/reproduce_methods.h"
#include "oubli/cli/scheduled.h"
#include "oubli/cli/terminal.h"
#include "oubli/experiment/published.h"
#include "oubli/experiment/results.h"
#include "oubli/filtration/explained.h"
#include "oubli/report/read_report.h"
#include "oubli/rivals/rival.h"

namespace oubli::cli {
namespace {

struct ReproduceCommandOptions {
  std::string experiment;
  std::string data;                  // of methods
  std::vector<std::size_t> classes;  // of methods
  std::vector<std::string> methods;  // of methods
  std::string folder;
  std::size_t models = 0;
  std::optional<std::size_t> floor_models;
  std::vector<std::size_t> hidden;
  std::vector<std::string> samples{"1", "3", "10", "100", "all"};
  std::vector<double> explain{kExplain};
  std::size_t splits = 10;
  unsigned jobs = 0;
  std::uint64_t seed = 1;
  std::size_t epochs = 0;
  std::optional<std::size_t> each_class;  // 0: as many as --models
  bool keep_models = false;
  bool train_only = false;
  bool list = false;
  bool as_json = false;
  bool markdown = false;
  bool full = false;
};

void print_list() {
  fmt::print("{}\n\n", published().source);
  for (const PublishedTable& table : published().tables) {
    fmt::print("Table {:<5} {} ({}, {})\n            {}\n", table.number, table.title, table.place,
               table.label, table.command);
    if (!table.note.empty()) fmt::print("            note: {}\n", table.note);
  }
  for (const PublishedFigure& figure : published().figures) {
    fmt::print("Figure {:<4} {} ({})\n            {}\n", figure.number, figure.title, figure.label,
               figure.command.empty() ? "a drawing: nothing to measure" : figure.command);
  }
  fmt::print(
      "\nBeyond the paper: s = 1 and 3 (--samples), class means from training data (always), a\n"
      "refitted head (always), method explained, from test and from training data (always), each\n"
      "class in turn (oubli reproduce mnist --each-class), observers that see probabilities\n"
      "or labels only (always), fashion-mnist.\n");
}

RunConfig config_of(const ReproduceCommandOptions& options) {
  const Recipe& recipe = recipe_of(options.experiment);
  RunConfig config{.experiment = options.experiment,
                   .seed = options.seed,
                   .epochs = options.epochs,
                   .forget = recipe.forget,
                   .parts = {},
                   .each_class = 0,
                   .samples = {},
                   .explain = options.explain,
                   .splits = options.splits,
                   .keep_models = options.keep_models};
  const std::size_t models = options.models != 0 ? options.models : recipe.models;
  for (const std::size_t hidden :
       options.hidden.empty() ? std::vector{recipe.hidden[0]} : options.hidden) {
    if (recipe.architecture == "residual" && hidden != recipe.hidden[0])
      fail(ErrorCode::usage, "--hidden {}: the residual network always has {}", hidden,
           recipe.hidden[0]);
    config.parts.push_back(
        {.hidden = hidden, .models = models, .second = options.floor_models.value_or(models)});
  }
  for (const double rho : options.explain) check_share(rho);
  for (const std::string& word : options.samples) config.samples.push_back(sample_count_of(word));
  if (options.each_class) {
    config.each_class = *options.each_class != 0 ? *options.each_class : models;
  }
  return config;
}

void print_tables(const ReproduceCommandOptions& options, const Results& results,
                  const std::filesystem::path& folder) {
  if (options.markdown) return fmt::print("{}", to_markdown(results.tables));
  if (options.full)
    return fmt::print("{}{}", legend_of_tables(), to_text(without_repeats(results.tables)));
  fmt::print("{}{}", summary_of(results),
             told(fmt::format("More: {}; the paper's tables beside ours: --full, --markdown.",
                              (folder / "report.html").string())));
}

std::vector<std::string> names_of_rivals() {
  std::vector<std::string> names;
  for (const Rival& rival : all_rivals()) names.push_back(rival.name);
  return names;
}

void run_methods_of(const ReproduceCommandOptions& options) {
  MethodsCommand command{.plan = {.seed = options.seed, .epochs = options.epochs},
                         .folder = options.folder,
                         .jobs = options.jobs,
                         .as_json = options.as_json,
                         .markdown = options.markdown};
  if (!options.data.empty()) command.plan.experiment = options.data;
  if (options.models != 0) command.plan.models = options.models;
  if (!options.classes.empty()) command.plan.classes = options.classes;
  if (options.hidden.size() > 1)
    fail(ErrorCode::usage, "--hidden: 'reproduce methods' takes networks of one size");
  if (!options.hidden.empty()) command.plan.hidden = options.hidden[0];
  command.plan.methods = options.methods;
  if (command.folder.empty()) command.folder = "run-" + command.plan.experiment;
  reproduce_methods(command);
}

void run(const ReproduceCommandOptions& options) {
  if (options.list && options.as_json) return fmt::print("{}\n", published_json());
  if (options.list) return print_list();
  if (options.experiment == "methods") return run_methods_of(options);
  if (!options.data.empty() || !options.classes.empty() || !options.methods.empty())
    fail(ErrorCode::usage,
         "'reproduce {}': only 'reproduce methods' takes a data set, --classes and --methods",
         options.experiment);
  if (options.experiment.empty()) {
    fail(ErrorCode::usage, "which experiment? 'oubli reproduce --list' lists what there is");
  }
  const ReproduceOptions wanted{
      .folder = options.folder.empty() ? "run-" + options.experiment : options.folder,
      .config = config_of(options),
      .train_only = options.train_only};
  std::optional<Results> results;
  bool is_main = false;
  on_scheduler(options.jobs, [&](Scheduler& scheduler, const std::stop_token& stop) {
    results = reproduce(scheduler, wanted, stop);
    is_main = scheduler.is_main();
  });
  if (!is_main) return;
  if (options.train_only) {
    say(fmt::format("trained; 'oubli reproduce {} --run {}' audits", options.experiment,
                    wanted.folder.string()));
  } else if (options.as_json) {
    fmt::print("{}\n", to_text(nlohmann::json(*results), 1));
  } else {
    print_tables(options, *results, wanted.folder);
  }
  if (!options.train_only) {
    const std::array<std::filesystem::path, 1> inputs = {wanted.folder};
    report::write_report(inputs, wanted.folder / "report.html", /*replace=*/true);
  }
  const RunStatus status = status_of(wanted.folder);
  if (!status.failures.empty()) {
    fail(ErrorCode::some_failed, "{}: finished, but {} networks failed; the first, {}: {}",
         wanted.folder.string(), status.failures.size(), status.failures[0].first,
         status.failures[0].second);
  }
}

void add_subject_options(Command& command, ReproduceCommandOptions& options) {
  command.add_option("experiment", options.experiment,
                     "mnist, fashion-mnist, cifar10 or faces; or methods");
  command.add_option(
      "data", options.data,
      "Of methods, every way to forget in one table: mnist, fashion-mnist or cifar10 [mnist]");
  command.add_flag("--list", options.list,
                   "Say what each table and figure of the paper is, and what fills it");
  command.add_option("--run", options.folder, "Run folder [run-EXPERIMENT]");
}

void add_trial_options(Command& command, ReproduceCommandOptions& options) {
  command.add_option("--models", options.models, "Networks per population [100; methods 60]")
      ->range(1, 1'000'000);
  command
      .add_option("--floor-models", options.floor_models,
                  "Networks of the second retrained batch, for the floor [as --models]")
      ->range(0, 1'000'000);
  command
      .add_option("--hidden", options.hidden,
                  "Sizes p of the features [mnist 50, cifar10 256; methods cifar10 64]")
      ->range(1, 1'000'000)
      ->delimiter(',');
  command
      .add_option("--samples", options.samples,
                  "Samples per class that estimate the mean predictions [1,3,10,100,all]")
      ->delimiter(',');
  command
      .add_option("--explain", options.explain,
                  fmt::format("Shares rho of method explained [{}]", kExplain))
      ->delimiter(',');
  command
      .add_option("--splits", options.splits,
                  "Splits of the networks into training and test, for the paper's attacks on the "
                  "paper's rows [10]")
      ->range(1, 1000);
  command
      .add_option(
          "--each-class", options.each_class,
          "Also forget each single class in turn, with as many networks per class [--models]")
      ->range(0, 1'000'000)
      ->without_value("0");
  command
      .add_option("--classes", options.classes, "Of methods: classes to forget in turn [2,3,6,7,9]")
      ->delimiter(',');
  command
      .add_option("--methods", options.methods,
                  fmt::format("Of methods: which, beside naive: {} [all]",
                              fmt::join(names_of_rivals(), ", ")))
      ->delimiter(',');
}

void add_work_options(Command& command, ReproduceCommandOptions& options) {
  command.add_option("--jobs", options.jobs, "Threads [all cores; 1 per rank under mpirun]")
      ->range(1, 1024);
  command.add_option("--seed", options.seed, "Seed of everything [1]");
  command.add_option("--epochs", options.epochs, "Epochs of training [the paper's]")
      ->range(1, 1'000'000);
  command.add_flag("--keep-models", options.keep_models,
                   "Also save every network trained now as ONNX");
  command.add_flag("--train-only", options.train_only, "Train, and leave the audits for later");
}

void add_output_options(Command& command, ReproduceCommandOptions& options) {
  command.add_flag("--json", options.as_json,
                   "Print results.json instead of tables; with --list, the paper's numbers");
  command.add_flag("--full", options.full, "Print the paper's tables with ours beside them");
  command.add_flag("--markdown", options.markdown, "Print the tables as Markdown");
}

}  // namespace

void add_reproduce(Command& app) {
  auto options = std::make_shared<ReproduceCommandOptions>();
  Command* command = app.add_subcommand(
      "reproduce",
      "The paper's experiments: train, unlearn, attack, and print its tables beside ours");
  add_subject_options(*command, *options);
  add_trial_options(*command, *options);
  add_work_options(*command, *options);
  add_output_options(*command, *options);
  command->footer(
      "A run folder can be continued: the same command after an interruption does what is "
      "missing,\n"
      "and more --models or --hidden add to it.\n\n"
      "Examples:\n"
      "  oubli reproduce --list\n"
      "  oubli reproduce mnist --each-class --run runs/mnist\n"
      "  oubli reproduce methods fashion-mnist --run runs/fashion   # every way to forget, one "
      "table\n"
      "  oubli reproduce cifar10 --hidden 64,256,1024 --models 10\n"
      "  mpirun -n 32 oubli reproduce cifar10 --run /shared/cifar10   # ranks share the folder\n"
      "  oubli status runs/mnist");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
