#include "oubli/report/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "oubli/base/error.h"

namespace oubli::report {
namespace {

using Level = ObserverVerdict::Level;

// Advantage -1..1 to right answers in 100 guesses.
double in_hundred(double advantage) { return 50 * (1 + advantage); }

Figure in_hundred(const Figure& advantage) {
  const auto map = [](const std::optional<double>& value) {
    return value ? std::optional(in_hundred(*value)) : std::nullopt;
  };
  return {map(advantage.value), map(advantage.low), map(advantage.high), advantage.reason};
}

// Whether somebody who sees `observer` can work out `other`: each sees all that the next one does.
bool includes(Observer observer, Observer other) {
  return static_cast<int>(observer) <= static_cast<int>(other);
}

const AuditedMethod* find_method(const Comparison& comparison, const std::string& name) {
  const auto found = std::ranges::find(comparison.methods, name, &AuditedMethod::name);
  return found == comparison.methods.end() ? nullptr : &*found;
}

// Every attack on what `method` leaves of the forgotten classes.
std::vector<AttackFound> attacks_on(const Comparison& comparison, const std::string& method) {
  std::vector<AttackFound> out;
  const AuditedMethod* found = find_method(comparison, method);
  if (found == nullptr) return out;
  for (const ObserverLeak& leak : found->audit.leaks.forgotten)
    for (const AttackLeak& attack : leak.attacks) {
      const AttackLeak* floor = comparison.floor
                                    ? find(find(comparison.floor->forgotten, leak.observer),
                                           attack.attack, attack.answers)
                                    : nullptr;
      out.push_back({leak.observer, attack.attack, attack.answers, attack.advantage,
                     floor != nullptr ? floor->advantage : Figure::missing(comparison.no_floor)});
    }
  return out;
}

std::optional<AttackFound> strongest(const std::vector<AttackFound>& attacks, Observer observer) {
  const AttackFound* best = nullptr;
  for (const AttackFound& found : attacks) {
    if (!includes(observer, found.observer) || !found.advantage.value) continue;
    if (best == nullptr || *found.advantage.value > *best->advantage.value) best = &found;
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

Level level_of(const AttackFound& found) {
  const Figure& leak = found.advantage;
  const double floor = std::max(0.0, found.floor.value.value_or(0));
  const double floor_top =
      found.floor.value ? std::max(0.0, found.floor.high.value_or(*found.floor.value)) : 0;
  if (leak.low.value_or(*leak.value) <= floor_top)
    return leak.high.value_or(*leak.value) - floor < kFaint ? Level::not_told_apart
                                                            : Level::undecided;
  return *leak.value - floor < kFaint ? Level::faint : Level::can_tell;
}

// The attacks on forgotten classes that are open to an observer.
Leaks open_to(Observer observer, const Leaks& leaks) {
  Leaks open;
  open.networks_train = leaks.networks_train;
  for (const ClassLeaks& of_class : leaks.classes) {
    if (!of_class.forgotten) continue;
    ClassLeaks& copy = open.classes.emplace_back(of_class);
    std::erase_if(copy.observers,
                  [&](const ObserverLeak& leak) { return !includes(observer, leak.observer); });
  }
  return open;
}

// Over all attacks at once; without an outcome where a file has no shares of single networks.
Verdict verdict_of(const Comparison& comparison, const std::string& method, Observer observer) {
  const AuditedMethod* found = find_method(comparison, method);
  if (found == nullptr) return {};
  const Leaks leaks = open_to(observer, found->audit.leaks);
  if (!comparison.floor) return oubli::judge(leaks, nullptr, 0);
  const Leaks floor = open_to(observer, *comparison.floor);
  return oubli::judge(leaks, &floor, 0);
}

Level level_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::told_apart:
      return Level::can_tell;
    case Outcome::faint:
      return Level::faint;
    case Outcome::not_told_apart:
      return Level::not_told_apart;
    case Outcome::too_few:
      return Level::undecided;
  }
  return Level::unknown;
}

// "somebody who sees logits or probabilities"
std::string somebody(const std::vector<const ObserverVerdict*>& verdicts) {
  std::string out = "somebody who sees ";
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (i > 0) out += i + 1 == verdicts.size() ? " or " : ", ";
    const Observer observer = verdicts[i]->observer;
    out += observer == Observer::label ? "only the top-1 label" : name_of(observer);
  }
  return out;
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

}  // namespace

std::string seen_by(Observer observer) {
  return std::string(observer == Observer::label ? "the top-1 label" : name_of(observer));
}

std::string title_of(Attack attack, std::size_t answers) {
  const std::string title(oubli::title_of(attack));
  return answers == 1 ? title : fmt::format("{}, {} answers", title, answers);
}

std::vector<std::string> plain_words(const std::vector<ObserverVerdict>& verdicts) {
  std::vector<std::string> lines;
  if (verdicts.empty() || !verdicts.front().verdict.outcome) return lines;
  std::string text = oubli::sentence(verdicts.front().verdict);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " and " : ", ";
    out += words[i];
  }
  return out;
}

std::string judged_method(const Comparison& comparison, const std::string& wanted) {
  for (const std::string& name : {wanted, std::string("normalization")})
    if (find_method(comparison, name) != nullptr) return name;
  return comparison.methods.empty() ? "" : comparison.methods.front().name;
}

std::vector<ObserverVerdict> judge(const Comparison& comparison, const std::string& method) {
  const std::vector<AttackFound> attacks = attacks_on(comparison, method);
  const std::vector<AttackFound> on_naive = attacks_on(comparison, "naive");
  std::vector<ObserverVerdict> out;
  for (const Observer observer : all_values<Observer>()) {
    const bool measured = std::ranges::any_of(comparison.methods, [&](const AuditedMethod& other) {
      return find(other.audit.leaks.forgotten, observer) != nullptr;
    });
    if (!measured) continue;
    ObserverVerdict verdict{.observer = observer};
    verdict.worst = strongest(attacks, observer);
    if (method != "naive") verdict.naive = strongest(on_naive, observer);
    // Attacks on what he could work out may convict an observer, but do not clear him if none on
    // what he sees could be computed.
    const AttackFound* missing = nullptr;
    bool any_own = false;
    for (const AttackFound& found : attacks) {
      if (found.observer != observer) continue;
      any_own = any_own || found.advantage.value;
      if (!found.advantage.value && missing == nullptr) missing = &found;
    }
    if (verdict.worst && !any_own && level_of(*verdict.worst) != Level::can_tell)
      verdict.worst.reset();
    if (verdict.worst) {
      verdict.verdict = verdict_of(comparison, method, observer);
      if (verdict.verdict.outcome) {
        verdict.level = level_of(*verdict.verdict.outcome);
        // Of one forgotten class these are the same figures; of several, the worst class's.
        const VerdictPart& part = *std::ranges::max_element(
            verdict.verdict.parts, {}, [](const VerdictPart& p) { return *p.advantage.value; });
        verdict.worst->observer = part.observer;
        verdict.worst->attack = part.attack;
        verdict.worst->answers = part.answers;
        verdict.worst->advantage = verdict.verdict.advantage;
        for (const AttackFound& found : attacks)
          if (found.observer == part.observer && found.attack == part.attack &&
              found.answers == part.answers)
            verdict.worst->floor = found.floor;
      } else {
        verdict.level = level_of(*verdict.worst);
      }
      verdict.has_interval = verdict.worst->advantage.low.has_value();
      verdict.reason = verdict.worst->advantage.reason;
    } else if (missing != nullptr) {
      verdict.reason = missing->advantage.reason;
    }
    out.push_back(std::move(verdict));
  }
  return out;
}

std::string sentence(const std::vector<ObserverVerdict>& verdicts, const std::string& method) {
  std::array<std::vector<const ObserverVerdict*>, 5> by_level;
  for (const ObserverVerdict& v : verdicts)
    by_level[static_cast<std::size_t>(v.level)].push_back(&v);
  const auto& hidden = by_level[0];
  const auto& faint = by_level[1];
  const auto& visible = by_level[2];

  const auto odds = [](const std::vector<const ObserverVerdict*>& group) {
    const AttackFound& worst = *(*std::ranges::max_element(group, {}, [](const auto* v) {
                                  return *v->worst->advantage.value;
                                }))->worst;
    return fmt::format(
        "the best attack, {} on {}, rightly tells it from a retrained model in {:.0f} of 100 cases "
        "(guessing: 50)",
        title_of(worst.attack, worst.answers), seen_by(worst.observer),
        in_hundred(*worst.advantage.value));
  };
  std::string out;
  const auto add = [&out](const std::string& part) {
    out += out.empty() ? capital(part) : "; " + part;
  };
  if (!hidden.empty()) add(fmt::format("against {}: yes, as far as tested", somebody(hidden)));
  const auto& undecided = by_level[4];
  if (!undecided.empty()) {
    double most = 0;
    for (const ObserverVerdict* v : undecided)
      most = std::max(most, v->worst->advantage.high.value_or(*v->worst->advantage.value));
    add(
        fmt::format("against {}: not told apart, but so few networks do not rule out {:.0f} right "
                    "answers in 100 (guessing: 50)",
                    somebody(undecided), in_hundred(most)));
  }
  if (!faint.empty()) add(fmt::format("against {}: nearly; {}", somebody(faint), odds(faint)));
  if (!visible.empty()) add(fmt::format("against {}: no; {}", somebody(visible), odds(visible)));
  const auto in_brackets = [](const std::string& reason) {
    return reason.empty() ? std::string() : fmt::format(" ({})", reason);
  };
  const auto& unknown = by_level[3];
  const std::string why = unknown.empty() ? "" : in_brackets(unknown.front()->reason);
  if (out.empty())
    return fmt::format("Not known: no attack on {} could be computed{}.", method, why);
  if (!unknown.empty())
    add(fmt::format("against {}: not known, no attack could be computed{}", somebody(unknown),
                    why));
  if (std::ranges::none_of(verdicts, &ObserverVerdict::has_interval)) {
    const auto known = std::ranges::find_if(
        verdicts, [](const ObserverVerdict& v) { return v.worst.has_value(); });
    out += ": a sketch, without intervals" + in_brackets(known->reason);
  }
  return out + ".";
}

std::string sentence(const Receipt& receipt) {
  const std::string what =
      receipt.forgotten.empty() ? "the forgotten class" : join(receipt.forgotten);
  // The strongest read-out of each observer, and the same had the output merely been cut off.
  std::vector<std::string> found;
  std::vector<Observer> observers;
  for (const LeakCheck& check : receipt.leak_checks)
    if (check.chosen.value && std::ranges::find(observers, check.observer) == observers.end())
      observers.push_back(check.observer);
  for (const Observer observer : observers) {
    double chosen = 0;
    double naive = 0;
    for (const LeakCheck& check : receipt.leak_checks) {
      if (!includes(observer, check.observer)) continue;
      chosen = std::max(chosen, check.chosen.value.value_or(0));
      naive = std::max(naive, check.naive.value.value_or(0));
    }
    std::string part = fmt::format("{:.2f} from {}", chosen, seen_by(observer));
    if (naive > 0 && receipt.method != "naive")
      part += found.empty() ? fmt::format(" ({:.2f} had its output merely been cut off)", naive)
                            : fmt::format(" ({:.2f})", naive);
    found.push_back(std::move(part));
  }
  if (found.empty())
    return fmt::format(
        "Not known yet: {} was taken out by {}, and what an observer still sees was not looked "
        "for.",
        what, receipt.method);
  return fmt::format(
      "One model alone cannot settle it: an input of {} is recognised with AUC {}; 0.50 is chance, "
      "but retrained models are not at 0.50 either, and an audit with some gives that floor.",
      what, join(found));
}

VerdictChart chart(const std::vector<ObserverVerdict>& verdicts, const std::string& method) {
  VerdictChart out;
  out.title = "How often the best attack is right, by what it sees";
  out.now_name = method;
  out.before_name = "naive, for comparison";
  const auto words = std::to_array<const char*>(
      {"not told apart", "faint trace", "can tell", "not computed", "undecided"});
  for (const ObserverVerdict& v : verdicts) {
    VerdictChart::Row row;
    row.observer = "sees " + seen_by(v.observer);
    row.level = static_cast<int>(v.level);
    row.word = words[static_cast<std::size_t>(v.level)];
    if (v.worst) {
      row.word += fmt::format(": {:.0f} in 100", in_hundred(*v.worst->advantage.value));
      row.now = in_hundred(v.worst->advantage);
      row.floor = in_hundred(v.worst->floor);
      if (row.floor.value) out.floor_name = "retrained against retrained";
    } else {
      row.now.reason = v.reason;
    }
    if (v.naive) row.before = in_hundred(v.naive->advantage);
    out.description += fmt::format("An observer who {}: {} right in 100 ({}). ", row.observer,
                                   to_text(row.now, 1), row.word);
    out.rows.push_back(std::move(row));
  }
  return out;
}

DotChart chart(const Receipt& receipt) {
  DotChart out;
  out.title = "Recognising the forgotten class";
  out.axis = "AUC (0.5 = chance, 1 = always)";
  out.low = 0.5;
  out.high = 1;
  out.series = {series_of(receipt.method)};
  const bool naive =
      receipt.method != "naive" && std::ranges::any_of(receipt.leak_checks, [](const LeakCheck& c) {
        return c.naive.value.has_value();
      });
  if (naive) out.series.push_back(series_of("naive"));
  for (const LeakCheck& check : receipt.leak_checks) {
    DotChart::Row row{.label = fmt::format("sees {}: {}", seen_by(check.observer), check.read_out),
                      .marks = {{0, check.chosen}},
                      .floor = {}};
    if (naive) row.marks.push_back({1, check.naive});
    out.description +=
        fmt::format("{}: {} {}. ", row.label, receipt.method, to_text(check.chosen, 2));
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace oubli::report
