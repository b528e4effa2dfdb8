#include "oubli/cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <utility>

#include "oubli/base/error.h"

namespace oubli::cli {

Option* Option::required(bool needed) {
  option_->required(needed);
  return this;
}

Option* Option::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Option* Option::type_name(const std::string& name) {
  option_->type_name(name);
  return this;
}

Option* Option::delimiter(char between) {
  option_->delimiter(between);
  return this;
}

Option* Option::take_all() {
  option_->take_all();
  return this;
}

Option* Option::one_at_a_time() {
  option_->allow_extra_args(false);
  return this;
}

Option* Option::without_value(const std::string& means) {
  option_->expected(0, 1)->default_str(means);
  return this;
}

Option* Option::excludes(const Option* other) {
  option_->excludes(other->option_);
  return this;
}

Option* Option::check(const std::function<std::string(const std::string&)>& wrong) {
  option_->check(wrong);
  return this;
}

Option* Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return this;
}

Option* Option::between(double low, double high) {
  // CLI::Range lets NaN pass.
  option_->check(
      CLI::Validator{[low, high](const std::string& word) -> std::string {
                       double value = 0;
                       if (CLI::detail::lexical_cast(word, value) && value >= low && value <= high)
                         return {};
                       return fmt::format("{}: wanted a number from {} to {}", word, low, high);
                     },
                     fmt::format("in [{}, {}]", low, high)});
  return this;
}

Option Option::count(CLI::Option& option, std::uint64_t most) {
  Option made(option);
  made.range_ = std::make_shared<Range>(Range{0, most});
  // CLI11 itself would turn -1 into the largest number there is, and 010 into 8.
  made.check([range = made.range_](const std::string& word) -> std::string {
    if (parse_count(word, range->least, range->most)) return {};
    return range->most == kLargestCount
               ? fmt::format("wanted a whole number, {} or more, not {}", range->least, word)
               : fmt::format("wanted a whole number from {} to {}, not {}", range->least,
                             range->most, word);
  });
  return made;
}

Option* Option::range(std::uint64_t least, std::uint64_t most) {
  OUBLI_ASSERT(range_ != nullptr);
  *range_ = {least, std::min(most, range_->most)};
  return this;
}

Option* Option::existing_file() {
  option_->check(CLI::ExistingFile);
  return this;
}

Option* Option::existing_path() {
  option_->check(CLI::ExistingPath);
  return this;
}

Option* Command::keep(CLI::Option* option) { return &options_.emplace_back(*option); }

template <typename Value>
Option* Command::keep_count(CLI::Option* option) {
  options_.push_back(Option::count(*option, std::numeric_limits<Value>::max()));
  return &options_.back();
}

Command* Command::add_subcommand(const std::string& name, const std::string& help) {
  return &commands_.emplace_back(*app_->add_subcommand(name, help));
}

Command* Command::add_option_group(const std::string& name, const std::string& help) {
  return &commands_.emplace_back(*app_->add_option_group(name, help));
}

Option* Command::add_option(const std::string& name, std::string& value, const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::filesystem::path& value,
                            const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::optional<std::string>& value,
                            const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::vector<std::string>& value,
                            const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::vector<std::filesystem::path>& value,
                            const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, double& value, const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::optional<double>& value,
                            const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::vector<double>& value,
                            const std::string& help) {
  return keep(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, unsigned& value, const std::string& help) {
  return keep_count<unsigned>(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::uint64_t& value,
                            const std::string& help) {
  return keep_count<std::uint64_t>(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::optional<std::uint64_t>& value,
                            const std::string& help) {
  return keep_count<std::uint64_t>(app_->add_option(name, value, help));
}

Option* Command::add_option(const std::string& name, std::vector<std::uint64_t>& value,
                            const std::string& help) {
  return keep_count<std::uint64_t>(app_->add_option(name, value, help));
}

Option* Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  return keep(app_->add_flag(name, value, help));
}

Option* Command::add_flag(const std::string& name, const std::function<void()>& given,
                          const std::string& help) {
  return keep(app_->add_flag_callback(name, given, help));
}

Option* Command::get_option(const std::string& name) { return keep(app_->get_option(name)); }

void Command::remove_option(const Option* option) { app_->remove_option(option->option_); }

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::callback(const std::function<void()>& work) { app_->callback(work); }

CommandLine::CommandLine(std::unique_ptr<CLI::App> app) : Command(*app), owned_(std::move(app)) {}

CommandLine::CommandLine(const std::string& help, const std::string& name,
                         const std::string& version)
    : CommandLine(std::make_unique<CLI::App>(help, name)) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
  app_->fallthrough();  // options of the program may follow the subcommand
}

CommandLine::~CommandLine() = default;

std::vector<std::string> CommandLine::commands() const {
  std::vector<std::string> names;
  for (const CLI::App* const command : app_->get_subcommands([](CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

bool CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0;
  }
  return true;
}

void CommandLine::run_words(std::vector<std::string> words) {
  std::ranges::reverse(words);  // as the library takes them
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    fail(ErrorCode::usage, "{}", error.what());
  }
}

}  // namespace oubli::cli
