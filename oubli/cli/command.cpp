#include "oubli/cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <span>
#include <sstream>
#include <type_traits>

#include "oubli/base/error.h"
#include "oubli/base/names.h"
#include "oubli/cli/result_stream.h"
#include "oubli/cli/terminal.h"

namespace oubli::cli {
namespace {

// Options and commands with their descriptions, in 80 columns.
class Help : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return row(make_option_name(option, positional) + make_option_opts(option),
               make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }
  // What may be given several times is given one at a time: no "...".
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string text = option->get_type_name().empty() ? "" : " " + option->get_type_name();
    if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
    return text + (option->get_required() ? " (needed)" : "");
  }
  // Paragraphs are filled; what is indented, examples, stays as it is.
  std::string make_footer(const CLI::App* app) const override {
    std::istringstream lines(app->get_footer());
    std::string out = "\n", prose;
    const auto end_prose = [&] {
      if (!prose.empty()) out += broken(prose, kColumns);
      prose.clear();
    };
    for (std::string text; std::getline(lines, text);) {
      const bool own_line = text.empty() || text.starts_with("  ");
      if (own_line) end_prose();
      if (own_line)
        out += text + '\n';
      else
        prose += (prose.empty() ? "" : " ") + text;
      if (text.ends_with(":")) end_prose();
    }
    end_prose();
    return out;
  }

 private:
  static constexpr std::size_t kColumns = 80, kNames = 26;
  static std::string row(const std::string& names, const std::string& text) {
    if (names.size() + 4 > kNames)
      return "  " + names + '\n' + broken(std::string(kNames, ' ') + text, kColumns, kNames);
    return broken(fmt::format("  {:<{}}{}", names, kNames - 2, text), kColumns, kNames);
  }
};

// What one word of an option's value is read as.
template <typename Value>
struct SingleOf {
  using type = Value;
};
template <typename Value>
struct SingleOf<std::optional<Value>> : SingleOf<Value> {};
template <typename Value>
struct SingleOf<std::vector<Value>> : SingleOf<Value> {};

}  // namespace

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

Command* Command::add_subcommand(const std::string& name, const std::string& help) {
  return &commands_.emplace_back(*app_->add_subcommand(name, help));
}

Command* Command::add_option_group(const std::string& name, const std::string& help) {
  return &commands_.emplace_back(*app_->add_option_group(name, help));
}

template <typename Value>
Option* Command::add_option(const std::string& name, Value& value, const std::string& help) {
  CLI::Option* const option = app_->add_option(name, value, help);
  using Single = typename SingleOf<Value>::type;
  if constexpr (std::is_unsigned_v<Single>)
    return &options_.emplace_back(Option::count(*option, std::numeric_limits<Single>::max()));
  else
    return keep(option);
}

#define OUBLI_OPTION_OF(...) \
  template Option* Command::add_option(const std::string&, __VA_ARGS__&, const std::string&)
OUBLI_OPTION_OF(std::string);
OUBLI_OPTION_OF(std::optional<std::string>);
OUBLI_OPTION_OF(std::vector<std::string>);
OUBLI_OPTION_OF(std::filesystem::path);
OUBLI_OPTION_OF(std::vector<std::filesystem::path>);
OUBLI_OPTION_OF(double);
OUBLI_OPTION_OF(std::optional<double>);
OUBLI_OPTION_OF(std::vector<double>);
OUBLI_OPTION_OF(unsigned);
OUBLI_OPTION_OF(std::uint64_t);
OUBLI_OPTION_OF(std::optional<std::uint64_t>);
OUBLI_OPTION_OF(std::vector<std::uint64_t>);
#undef OUBLI_OPTION_OF

Option* Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  return keep(app_->add_flag(name, value, help));
}

Option* Command::add_flag(const std::string& name, const std::function<void()>& given,
                          const std::string& help) {
  return keep(app_->add_flag_callback(name, given, help));
}

void Command::add_text(const std::string& name, const std::function<std::string()>& text,
                       const std::string& help) {
  app_->add_flag_callback(
      name,
      [text] {
        fmt::print(results(), "{}", text());
        throw CLI::Success();
      },
      help);
}

Option* Command::get_option(const std::string& name) { return keep(app_->get_option(name)); }

void Command::remove_option(const Option* option) { app_->remove_option(option->option_); }

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::callback(const std::function<void()>& work) { app_->callback(work); }

CommandLine::CommandLine(std::unique_ptr<CLI::App> app) : Command(*app), owned_(std::move(app)) {}

CommandLine::CommandLine(const std::string& help, const std::string& name,
                         const std::string& version)
    : CommandLine(std::make_unique<CLI::App>(help, name)) {
  app_->formatter(std::make_shared<Help>());
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

namespace {

// Every "--name" and "-n" that the command knows, those of the whole program included.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent())
    for (const CLI::Option* const option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  for (const CLI::App* const group :
       app.get_subcommands([](const CLI::App* a) { return a->get_name().empty(); }))
    for (const CLI::Option* const option : group->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// "oubli forget", "oubli"
std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

// The first option that the command does not have, and the nearest that it has.
void check_option_names(const CLI::App& command, std::span<const std::string> words) {
  const std::vector<std::string> names = option_names(command);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (name.size() < 4 || !name.starts_with("--")) continue;
    if (std::ranges::find(names, name) != names.end()) continue;
    fail(ErrorCode::usage, "{}: no such option of '{}'; did you mean {}?", name, full_name(command),
         nearest_names(name, names, 1)[0]);
  }
}

// What is wrong with the words, in our words.
[[noreturn]] void fail_words(const CLI::App& app, const CLI::ParseError& error,
                             std::span<const std::string> words) {
  const auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  check_option_names(command, words);
  const std::string what = error.what();
  const std::string help = fmt::format("see '{} --help'", full_name(command));
  const bool unexpected = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (!unexpected) fail(ErrorCode::usage, "{}; {}", what, help);
  // Words that nothing takes come after a colon.
  const std::string_view left =
      std::string_view(what).substr(std::min(what.size(), what.find(": ")));
  bool after_class = false;
  for (const std::string& word : words) {
    after_class = after_class || word == "--class";
    if (word.starts_with("-") || left.find(word) == std::string_view::npos) continue;
    fail(ErrorCode::usage, "{}: nothing takes this word; {}", word,
         after_class ? "name several classes as --class A --class B" : help);
  }
  fail(ErrorCode::usage, "{}; {}", what, help);
}

}  // namespace

bool CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and its like
    if (error.get_exit_code() == 0) return app_->exit(error) == 0;
    fail_words(*app_, error, std::vector<std::string>(argv + 1, argv + argc));
  }
  return true;
}

void CommandLine::run_words(const std::vector<std::string>& words) {
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as the library does
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) fail_words(*app_, error, words);
  }
}

}  // namespace oubli::cli
