#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "oubli/base/json.h"
#include "oubli/base/progress.h"
#include "oubli/base/text_table.h"
#include "oubli/cli/command.h"
#include "oubli/cli/commands.h"
#include "oubli/experiment/reproduce.h"

namespace oubli::cli {
namespace {

void print_json(const RunStatus& status) {
  nlohmann::json rows = nlohmann::json::array();
  for (const RunStatus::Row& row : status.rows) {
    rows.push_back({{"population", row.population},
                    {"planned", row.planned},
                    {"done", row.done},
                    {"failed", row.failed},
                    {"underway", row.underway}});
  }
  nlohmann::json failures = nlohmann::json::array();
  for (const auto& [id, reason] : status.failures)
    failures.push_back({{"id", id}, {"reason", reason}});
  const nlohmann::json out = {
      {"format", "oubli-status"},
      {"version", 1},
      {"finished", status.finished},
      {"running", status.holder.empty() ? nlohmann::json(nullptr) : nlohmann::json(status.holder)},
      {"populations", rows},
      {"audits", {{"planned", status.audits_planned}, {"done", status.audits_done}}},
      {"training_seconds_left",
       status.seconds_left < 0 ? nlohmann::json(nullptr) : nlohmann::json(status.seconds_left)},
      {"failures", failures}};
  fmt::print("{}\n", to_text(out, 1));
}

void print_text(const RunStatus& status) {
  using Align = TextTable::Align;
  TextTable table({{"networks", Align::left},
                   {"planned", Align::right},
                   {"done", Align::right},
                   {"under way", Align::right},
                   {"failed", Align::right}});
  for (const RunStatus::Row& row : status.rows) {
    table.add_row({row.population, std::to_string(row.planned), std::to_string(row.done),
                   std::to_string(row.underway), std::to_string(row.failed)});
  }
  fmt::print("{}\naudits: {} of {}\n", table.text(), status.audits_done, status.audits_planned);
  if (status.finished) {
    fmt::print("finished: results.json is there\n");
  } else if (status.holder.empty()) {
    fmt::print("nobody works on it; the command that began it continues it\n");
  } else if (status.seconds_left >= 0) {
    fmt::print("{} works on it; training left: about {}\n", status.holder,
               format_duration(status.seconds_left));
  } else {
    fmt::print("{} works on it\n", status.holder);
  }
  for (const auto& [id, reason] : status.failures) fmt::print("failed: {}: {}\n", id, reason);
}

}  // namespace

void add_status(Command& app) {
  struct Options {
    std::string folder;
    bool as_json = false;
  };
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand("status", "How far a run folder is, also while it runs");
  command->add_option("folder", options->folder, "Run folder")->required();
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Example:\n  oubli status run-mnist");
  command->callback([options] {
    const RunStatus status = status_of(options->folder);
    options->as_json ? print_json(status) : print_text(status);
  });
}

}  // namespace oubli::cli
