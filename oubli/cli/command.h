#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oubli/base/count.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace oubli::cli {

// An option or argument of a command. All functions return `this`.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  // One whose values are counts: digits and nothing else.
  [[nodiscard]] static Option count(CLI::Option& option, std::uint64_t most);

  Option* required(bool needed = true);
  // The help shows the value that the variable has now.
  Option* capture_default_str();
  Option* type_name(const std::string& name);
  // One word may hold several values.
  Option* delimiter(char between);
  // Every value that follows, and every time the option is given.
  Option* take_all();
  // One value each time, so that arguments may follow.
  Option* one_at_a_time();
  // May stand without a value, and then means this one.
  Option* without_value(const std::string& means);
  // Refused together with that one.
  Option* excludes(const Option* other);
  // Refused with the message that `wrong` returns, unless it is empty.
  Option* check(const std::function<std::string(const std::string&)>& wrong);
  Option* one_of(const std::vector<std::string>& words);
  Option* between(double low, double high);
  // Of a count: the smallest and the largest.
  Option* range(std::uint64_t least, std::uint64_t most = kLargestCount);
  Option* existing_file();
  Option* existing_path();

 private:
  friend class Command;
  struct Range {
    std::uint64_t least = 0;
    std::uint64_t most = kLargestCount;
  };

  CLI::Option* option_;
  std::shared_ptr<Range> range_;  // of counts
};

// A command with its options. This is the one place that knows the library which reads the command
// line: its header costs ten seconds in every file that includes it.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  Command* add_subcommand(const std::string& name, const std::string& help);
  // Options under a heading of their own in the help.
  Command* add_option_group(const std::string& name, const std::string& help);

  // `value` is text, a path, a number or a count (unsigned, std::uint64_t), or an optional or a
  // vector of one. Counts are from 0 on unless range() says otherwise.
  template <typename Value>
  Option* add_option(const std::string& name, Value& value, const std::string& help);
  Option* add_flag(const std::string& name, bool& value, const std::string& help);
  Option* add_flag(const std::string& name, const std::function<void()>& given,
                   const std::string& help);
  // A flag like --help: prints a text, and nothing else is done.
  void add_text(const std::string& name, const std::function<std::string()>& text,
                const std::string& help);
  // One that is there.
  Option* get_option(const std::string& name);
  void remove_option(const Option* option);

  // Text below the options in the help.
  void footer(const std::string& text);
  // What the command does.
  void callback(const std::function<void()>& work);

 protected:
  CLI::App* app_;

 private:
  Option* keep(CLI::Option* option);

  std::deque<Option> options_;
  std::deque<Command> commands_;
};

// The whole command line.
class CommandLine : public Command {
 public:
  CommandLine(const std::string& help, const std::string& name, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] std::vector<std::string> commands() const;
  // Reads the words and does the work; false if they make no sense, which has been said then.
  [[nodiscard]] bool run(int argc, char** argv);
  // The same without the program's name; Error{usage} if they make no sense.
  void run_words(const std::vector<std::string>& words);

 private:
  explicit CommandLine(std::unique_ptr<CLI::App> app);

  std::unique_ptr<CLI::App> owned_;
};

}  // namespace oubli::cli
