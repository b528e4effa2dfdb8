#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace oubli::cli {

// One function per subcommand, each in the file of its name. It adds the subcommand with its
// options, a help text and at least one example; the callback does the work and throws Error.
void add_audit(CLI::App& app);
void add_forget(CLI::App& app);
void add_inspect(CLI::App& app);
void add_invert(CLI::App& app);
void add_keygen(CLI::App& app);
void add_means(CLI::App& app);
void add_predict(CLI::App& app);
void add_report(CLI::App& app);
void add_reproduce(CLI::App& app);
void add_status(CLI::App& app);
void add_train(CLI::App& app);
void add_verify(CLI::App& app);

}  // namespace oubli::cli
