#include "oubli/audit/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "oubli/audit/simultaneous.h"
#include "oubli/base/json_fields.h"

namespace oubli {
namespace {

// One attack that is judged.
struct Candidate {
  std::size_t label;
  Observer observer;
  const AttackLeak* leak;
  const AttackLeak* floor;  // null if there is none
};

// The floor's attack, where it has figures.
const AttackLeak* floor_of(const Leaks* floor, std::size_t label, Observer observer,
                           const AttackLeak& leak) {
  if (floor == nullptr) return nullptr;
  const ClassLeaks* of_class = find(floor->classes, label);
  if (of_class == nullptr) return nullptr;
  const AttackLeak* found = find(find(of_class->observers, observer), leak.attack, leak.answers);
  return found != nullptr && found->advantage.value && !found->shares[0].empty() ? found : nullptr;
}

std::vector<Candidate> candidates_of(const Leaks& leaks, const Leaks* floor) {
  std::vector<Candidate> candidates;
  for (const ClassLeaks& of_class : leaks.classes) {
    if (!of_class.forgotten) continue;
    for (const ObserverLeak& observer : of_class.observers)
      for (const AttackLeak& leak : observer.attacks)
        if (leak.advantage.value && !leak.shares[0].empty())
          candidates.push_back({of_class.label, observer.observer, &leak,
                                floor_of(floor, of_class.label, observer.observer, leak)});
  }
  return candidates;
}

// What as many independent answers would vary by; one more right and one more wrong one, since none
// wrong does not mean that none ever is.
double least_variance(const AttackLeak& leak) {
  double sum = 0;
  for (const auto& shares : leak.shares) {
    const auto answers = static_cast<double>(shares.size() * leak.answers_per_network);
    const double right = (mean_std(shares).mean * answers + 1) / (answers + 2);
    sum += right * (1 - right) / answers;
  }
  return sum;
}

// Leak minus floor as sums of means over networks. The retrained networks of leak and floor are the
// same, so that what they have in common cancels.
class Excess {
 public:
  Excess(const std::vector<Candidate>& candidates, bool paired) {
    stored_.reserve(3 * candidates.size());
    for (const Candidate& candidate : candidates) {
      const AttackLeak& leak = *candidate.leak;
      GroupedFigure figure{
          *leak.advantage.value, {leak.shares[0], leak.shares[1]}, least_variance(leak)};
      if (candidate.floor != nullptr) {
        const AttackLeak& floor = *candidate.floor;
        figure.value -= *floor.advantage.value;
        figure.least_variance += least_variance(floor);
        figure.groups.emplace_back(negated(floor.shares[0]));
        if (paired)
          figure.groups[1] = difference(leak.shares[1], floor.shares[1]);
        else
          figure.groups.emplace_back(negated(floor.shares[1]));
      }
      figures_.push_back(std::move(figure));
    }
  }
  [[nodiscard]] const std::vector<GroupedFigure>& figures() const { return figures_; }

 private:
  std::span<const double> negated(const std::vector<double>& values) {
    return difference(std::vector<double>(values.size()), values);
  }
  std::span<const double> difference(const std::vector<double>& a, const std::vector<double>& b) {
    auto& values = stored_.emplace_back(a);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= b[i];
    return values;
  }
  std::vector<std::vector<double>> stored_;  // reserved: spans stay valid
  std::vector<GroupedFigure> figures_;
};

// Figures that are judged together, and what is known of each.
struct Judged {
  std::vector<Candidate> candidates;
  std::vector<double> value, half;  // leak - floor
  std::vector<double> leak_half;    // of the leak alone
  std::size_t networks = 0;         // of each kind, training ones included
};

Figure clamped(double value, double low, double high, double least) {
  Figure figure = Figure::of(value);
  figure.low = std::clamp(low, least, 1.0);
  figure.high = std::clamp(high, least, 1.0);
  return figure;
}

// The largest |leak - floor| among `which`, with the interval that holds for all.
Figure largest(const Judged& judged, const std::vector<std::size_t>& which) {
  double value = 0, low = 0, high = 0;
  for (const std::size_t i : which) {
    const double size = std::abs(judged.value[i]);
    value = std::max(value, size);
    low = std::max(low, size - judged.half[i]);
    high = std::max(high, size + judged.half[i]);
  }
  return clamped(std::min(value, 1.0), low, high, 0);
}

Outcome outcome_of(const Figure& excess) {
  if (*excess.low > 0) return *excess.value < kFaint ? Outcome::faint : Outcome::told_apart;
  return *excess.high < kFaint ? Outcome::not_told_apart : Outcome::too_few;
}

// Errors shrink with the root of the number of networks; two digits are honest.
std::size_t networks_for(const Judged& judged, const std::vector<std::size_t>& which) {
  double widest = 0;
  for (const std::size_t i : which) widest = std::max(widest, judged.half[i]);
  const double wanted = static_cast<double>(judged.networks) * std::pow(widest / kFaint, 2);
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(wanted)) - 1));
  return static_cast<std::size_t>(std::ceil(wanted / step) * step);
}

// The largest advantage among `which`. Its upper end is that of any attack, not of the strongest.
Figure largest_leak(const Judged& judged, const std::vector<std::size_t>& which) {
  double value = -1, low = -1, high = -1;
  for (const std::size_t i : which) {
    const double leak = *judged.candidates[i].leak->advantage.value, half = judged.leak_half[i];
    value = std::max(value, leak);
    low = std::max(low, leak - half);
    high = std::max(high, leak + half);
  }
  return clamped(value, low, high, -1);
}

VerdictPart part_of(const Judged& judged, std::size_t answers,
                    const std::vector<std::size_t>& which) {
  VerdictPart part;
  part.answers = answers;
  std::size_t strongest = which.front();
  for (const std::size_t i : which)
    if (*judged.candidates[i].leak->advantage.value >
        *judged.candidates[strongest].leak->advantage.value)
      strongest = i;
  const Candidate& worst = judged.candidates[strongest];
  part.label = worst.label;
  part.observer = worst.observer;
  part.attack = worst.leak->attack;
  part.advantage = largest_leak(judged, which);
  part.excess = largest(judged, which);
  part.outcome = outcome_of(part.excess);
  if (part.outcome == Outcome::too_few) part.networks_needed = networks_for(judged, which);
  return part;
}

constexpr Outcome kOutcomes[] = {Outcome::told_apart, Outcome::faint, Outcome::not_told_apart,
                                 Outcome::too_few};

Outcome outcome_named(const std::string& name) {
  for (const Outcome outcome : kOutcomes)
    if (name_of(outcome) == name) return outcome;
  fail(ErrorCode::bad_input, "no outcome is named '{}'", name);
}

std::string count_of(std::size_t answers) {
  switch (answers) {
    case 1:
      return "one answer";
    case 10:
      return "ten answers";
    case 100:
      return "a hundred answers";
    default:
      return fmt::format("{} answers", answers);
  }
}

double in_hundred(double advantage) { return 50 * (1 + advantage); }

}  // namespace

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::told_apart:
      return "told apart";
    case Outcome::faint:
      return "faint trace";
    case Outcome::not_told_apart:
      return "not told apart";
    case Outcome::too_few:
      return "too few networks";
  }
  return "?";
}

Verdict judge(const Leaks& leaks, const Leaks* floor, std::uint64_t seed) {
  Verdict verdict;
  verdict.networks_train = leaks.networks_train;
  Judged judged;
  judged.candidates = candidates_of(leaks, floor);
  verdict.comparisons = judged.candidates.size();
  if (judged.candidates.empty()) {
    verdict.reason = "no attack on a forgotten class has a figure";
    return verdict;
  }
  for (const Candidate& candidate : judged.candidates) {
    const auto& shares = candidate.leak->shares;
    if (std::min(shares[0].size(), shares[1].size()) < 2) {
      verdict.reason = fmt::format("{} and {} test networks: it takes two of either population",
                                   shares[0].size(), shares[1].size());
      return verdict;
    }
  }
  // A floor for some attacks only would judge the others too harshly beside them.
  verdict.with_floor = std::ranges::all_of(judged.candidates, [](const Candidate& candidate) {
    return candidate.floor != nullptr && candidate.floor->shares[0].size() > 1 &&
           candidate.floor->shares[1].size() > 1;
  });
  if (!verdict.with_floor)
    for (Candidate& candidate : judged.candidates) candidate.floor = nullptr;
  const bool paired =
      verdict.with_floor && floor->networks_train == leaks.networks_train &&
      judged.candidates[0].floor->shares[1].size() == judged.candidates[0].leak->shares[1].size();

  const Excess excess(judged.candidates, paired);
  judged.half = simultaneous_bounds(excess.figures(), seed).half_width;
  for (const GroupedFigure& figure : excess.figures()) judged.value.push_back(figure.value);
  judged.leak_half = judged.half;
  if (verdict.with_floor) {
    std::vector<Candidate> alone = judged.candidates;
    for (Candidate& candidate : alone) candidate.floor = nullptr;
    judged.leak_half = simultaneous_bounds(Excess(alone, false).figures(), seed).half_width;
  }
  const auto& shares = judged.candidates[0].leak->shares;
  judged.networks = leaks.networks_train + std::min(shares[0].size(), shares[1].size());

  std::map<std::size_t, std::vector<std::size_t>> by_answers;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < judged.candidates.size(); ++i) {
    by_answers[judged.candidates[i].leak->answers].push_back(i);
    all.push_back(i);
  }
  for (const auto& [answers, which] : by_answers)
    verdict.parts.push_back(part_of(judged, answers, which));
  verdict.advantage = largest_leak(judged, all);
  verdict.excess = largest(judged, all);
  verdict.outcome = outcome_of(verdict.excess);
  return verdict;
}

std::string sentence(const Verdict& verdict) {
  if (!verdict.outcome) return fmt::format("No verdict: {}.", verdict.reason);
  std::string text;
  for (const VerdictPart& part : verdict.parts) {
    if (!text.empty()) text += '\n';
    text += fmt::format(
        "From {} an attacker with {} networks of each kind is right {:.0f} times in "
        "100 (guessing: 50; between {:.0f} and {:.0f}): {}",
        count_of(part.answers), verdict.networks_train, in_hundred(*part.advantage.value),
        in_hundred(*part.advantage.low), in_hundred(*part.advantage.high), name_of(part.outcome));
    if (part.outcome == Outcome::not_told_apart)
      text += fmt::format(" within {:.0f} in 100", std::ceil(50 * *part.excess.high));
    if (part.outcome == Outcome::too_few)
      text += fmt::format("; about {} networks of each kind would decide it to ±{:.0f} in 100",
                          part.networks_needed, 50 * kFaint);
    text += '.';
  }
  return text;
}

void to_json(nlohmann::json& out, const VerdictPart& part) {
  out = {{"answers", part.answers},
         {"outcome", name_of(part.outcome)},
         {"class", part.label},
         {"observer", name_of(part.observer)},
         {"attack", name_of(part.attack)},
         {"advantage", part.advantage},
         {"excess", part.excess}};
  if (part.outcome == Outcome::too_few) out["networks_needed"] = part.networks_needed;
}

void from_json(const nlohmann::json& in, VerdictPart& part) {
  require_field(in, "answers", part.answers);
  require_named(in, "outcome", part.outcome, outcome_named);
  require_field(in, "class", part.label);
  require_named(in, "observer", part.observer, value_named<Observer>);
  require_named(in, "attack", part.attack, value_named<Attack>);
  require_field(in, "advantage", part.advantage);
  require_field(in, "excess", part.excess);
  read_field(in, "networks_needed", part.networks_needed);
}

void to_json(nlohmann::json& out, const Verdict& verdict) {
  out = {{"outcome", nullptr},
         {"advantage", verdict.advantage},
         {"excess", verdict.excess},
         {"comparisons", verdict.comparisons},
         {"networks_train", verdict.networks_train},
         {"with_floor", verdict.with_floor},
         {"parts", verdict.parts},
         {"sentence", sentence(verdict)}};
  if (verdict.outcome)
    out["outcome"] = name_of(*verdict.outcome);
  else
    out["reason"] = verdict.reason;
}

void from_json(const nlohmann::json& in, Verdict& verdict) {
  verdict = {};
  if (!member(in, "outcome").is_null())
    require_named(in, "outcome", verdict.outcome.emplace(), outcome_named);
  read_field(in, "advantage", verdict.advantage);
  read_field(in, "excess", verdict.excess);
  read_field(in, "comparisons", verdict.comparisons);
  read_field(in, "networks_train", verdict.networks_train);
  read_field(in, "with_floor", verdict.with_floor);
  read_field(in, "parts", verdict.parts);
  read_field(in, "reason", verdict.reason);
}

}  // namespace oubli
