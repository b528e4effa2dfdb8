#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "oubli/base/json.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/report/read_report.h"

namespace oubli::cli {
namespace {

struct ReportOptions {
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output = "report.html";
  std::string method;
  std::string title;
  bool force = false;
  bool json = false;
  bool full = false;
  bool markdown = false;
};

void run(const ReportOptions& options) {
  if (options.markdown) return fmt::print("{}", report::tables_as_markdown(options.inputs));
  report::write_report(options.inputs, options.output, options.force, options.method, options.title,
                       options.full);
  if (options.json) {
    const auto where = std::filesystem::absolute(options.output).lexically_normal();
    fmt::print("{}\n", to_text(nlohmann::json{{"report", where.string()}}, -1));
  }
}

}  // namespace

void add_report(Command& app) {
  auto options = std::make_shared<ReportOptions>();
  Command* command = app.add_subcommand(
      "report", "Draw what a run, an audit or a deletion gave as one self-contained HTML page");
  command
      ->add_option(
          "INPUT", options->inputs,
          "Run folders, results.json, audits (oubli audit --json), receipts, inversion.json")
      ->required()
      ->existing_path();
  command->add_option("-o,--output", options->output, "The page")->capture_default_str();
  command->add_option("--method", options->method,
                      "The method judged at the top (default: normalization)");
  command->add_option("--title", options->title, "Title of the page");
  command->add_flag("--force", options->force, "Replace the page if it exists");
  command->add_flag("--full", options->full, "Fold nothing away, on the screen or on paper");
  command->add_flag("--markdown", options->markdown,
                    "Print the tables of a run as Markdown instead");
  command->add_flag("--json", options->json, "Say where the page is as JSON on stdout");
  command->footer(
      "Examples:\n"
      "  oubli report runs/mnist -o report.html\n"
      "  oubli report new.receipt.json -o report.html\n"
      "  oubli report results.json --markdown\n"
      "  oubli audit ... --json > audit.json; oubli report audit.json new.receipt.json -o "
      "report.html");
  command->callback([options] { run(*options); });
}

}  // namespace oubli::cli
