#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/audit/leaks.h"
#include "oubli/base/error.h"

namespace oubli {

// What an audit comes to, over all attacks, observers and forgotten classes together.

// An advantage of 0.1 is 5 right answers in 100 above guessing: less counts as a trace.
inline constexpr double kFaint = 0.1;

// The exit code of a gate that the networks at hand decide neither way.
inline constexpr ErrorCode kUndecided{9};

enum class Outcome {
  told_apart,      // some attack is above its floor (or far below: its mirror tells)
  faint,           // so, but by less than kFaint
  not_told_apart,  // no attack is, and none can be by kFaint or more
  too_few,         // the networks at hand decide neither
};
[[nodiscard]] std::string_view name_of(Outcome outcome);

// For attacks that get a given number of answers from one network.
struct VerdictPart {
  std::size_t answers = 1;
  Outcome outcome = Outcome::too_few;
  // The attack with the largest advantage.
  std::size_t label = 0;
  Observer observer = Observer::logits;
  Attack attack = Attack::nearest_neighbours;
  // Of that attack; the interval's ends are the largest of any attack's, and hold for all at once.
  Figure advantage;
  // The largest |leak - floor| over attacks: 95 % for all of them together.
  Figure excess;
  std::size_t networks_needed = 0;  // of each kind, for `excess` to +-kFaint; 0 unless too_few
};

struct Verdict {
  std::vector<VerdictPart> parts;  // by number of answers, ascending
  // Over all of them; empty if there is nothing to judge.
  std::optional<Outcome> outcome;
  Figure advantage, excess;
  std::size_t comparisons = 0;     // attacks x observers x classes that were judged
  std::size_t networks_train = 0;  // of each kind that attacks learnt from
  bool with_floor = false;         // else leaks are compared with 0
  std::string reason;              // why there is no outcome
};

// `floor`: retrained networks against other retrained ones, if there are any. Intervals: max-t over
// networks (simultaneous.h).
[[nodiscard]] Verdict judge(const Leaks& leaks, const Leaks* floor, std::uint64_t seed);

// "From one answer an attacker with 70 networks of each kind is right 76 times in 100 ..."
[[nodiscard]] std::string sentence(const Verdict& verdict);

void to_json(nlohmann::json& json, const Verdict& verdict);
void from_json(const nlohmann::json& json, Verdict& verdict);

}  // namespace oubli
