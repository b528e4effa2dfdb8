#include <CLI/CLI.hpp>

#include "oubli/cli/commands.h"

namespace oubli::cli {

void add_means(CLI::App& app) { app.add_subcommand("means", "Class means of logits or features"); }

}  // namespace oubli::cli
