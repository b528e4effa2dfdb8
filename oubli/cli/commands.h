#pragma once

namespace oubli::cli {

class Command;

// One function per subcommand, each in the file of its name. It adds the subcommand with its
// options, a help text and at least one example; the callback does the work and throws Error.
void add_audit(Command& app);
void add_forget(Command& app);
void add_inspect(Command& app);
void add_invert(Command& app);
void add_keygen(Command& app);
void add_means(Command& app);
void add_predict(Command& app);
void add_report(Command& app);
void add_reproduce(Command& app);
void add_sign(Command& app);
void add_status(Command& app);
void add_train(Command& app);
void add_verify(Command& app);

}  // namespace oubli::cli
