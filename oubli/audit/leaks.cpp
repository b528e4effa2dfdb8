#include "oubli/audit/leaks.h"

#include <fmt/format.h>

#include <algorithm>

#include "oubli/base/json_fields.h"

namespace oubli {

using nlohmann::json;

std::string name_of(const AttackLeak& leak) {
  const std::string name(name_of(leak.attack));
  return leak.answers == 1 ? name : fmt::format("{}, {} answers", name, leak.answers);
}

void to_json(json& out, const AttackLeak& leak) {
  out = {{"attack", name_of(leak.attack)}, {"answers", leak.answers}};
  if (leak.tail_answers[0] != 0)
    out["tail_answers"] = {{"seen", leak.tail_answers[0]}, {"unseen", leak.tail_answers[1]}};
  if (!leak.shares[0].empty())
    out["shares"] = {{"seen", leak.shares[0]},
                     {"unseen", leak.shares[1]},
                     {"answers", leak.answers_per_network}};
  for (const auto& [key, title, chart, figure] : kAttackFigures) out[key] = leak.*figure;
}

namespace {

void read_shares(const json& in, AttackLeak& leak) {
  require_field(in, "seen", leak.shares[0]);
  require_field(in, "unseen", leak.shares[1]);
  require_field(in, "answers", leak.answers_per_network);
  for (const auto& side : leak.shares)
    for (const double share : side)
      if (!(share >= 0 && share <= 1))
        fail(ErrorCode::bad_input, ": {}, wanted shares from 0 to 1", share);
  if (leak.answers_per_network == 0) fail(ErrorCode::bad_input, ": of 0 answers");
}

}  // namespace

void from_json(const json& in, AttackLeak& leak) {
  require_named(in, "attack", leak.attack, attack_of);
  read_field(in, "answers", leak.answers);
  for (const auto& [key, title, chart, figure] : kAttackFigures) read_field(in, key, leak.*figure);
  if (const json& tails = member(in, "tail_answers"); !tails.is_null())
    at_place("tail_answers", [&] {
      require_field(tails, "seen", leak.tail_answers[0]);
      require_field(tails, "unseen", leak.tail_answers[1]);
    });
  if (const json& shares = member(in, "shares"); !shares.is_null())
    at_place("shares", [&] { read_shares(shares, leak); });
}

const AttackLeak* ObserverLeak::worst() const {
  const AttackLeak* worst = nullptr;
  for (const AttackLeak& attack : attacks)
    if (attack.advantage.value &&
        (worst == nullptr || *attack.advantage.value > *worst->advantage.value))
      worst = &attack;
  return worst;
}

const ObserverLeak* find(std::span<const ObserverLeak> leaks, Observer observer) {
  const auto found = std::ranges::find(leaks, observer, &ObserverLeak::observer);
  return found == leaks.end() ? nullptr : &*found;
}

const AttackLeak* find(const ObserverLeak* leak, Attack attack, std::size_t answers) {
  if (leak == nullptr) return nullptr;
  const auto found = std::ranges::find_if(leak->attacks, [&](const AttackLeak& other) {
    return other.attack == attack && other.answers == answers;
  });
  return found == leak->attacks.end() ? nullptr : &*found;
}

const ClassLeaks* find(std::span<const ClassLeaks> classes, std::size_t label) {
  const auto found = std::ranges::find(classes, label, &ClassLeaks::label);
  return found == classes.end() ? nullptr : &*found;
}

void to_json(json& out, const ObserverLeak& leak) {
  out = {{"observer", name_of(leak.observer)}, {"attacks", leak.attacks}};
  if (const AttackLeak* worst = leak.worst()) out["worst"] = name_of(*worst);
  for (const auto& [key, title, chart, figure] : kObserverFigures) out[key] = leak.*figure;
}

void from_json(const json& in, ObserverLeak& leak) {
  require_named(in, "observer", leak.observer, observer_of);
  read_field(in, "attacks", leak.attacks);
  for (const auto& [key, title, chart, figure] : kObserverFigures)
    read_field(in, key, leak.*figure);
}

void to_json(json& out, const ClassLeaks& leaks) {
  out = {{"class", leaks.label},
         {"forgotten", leaks.forgotten},
         {"points_train", leaks.points_train},
         {"points_test", leaks.points_test},
         {"observers", leaks.observers}};
}

void from_json(const json& in, ClassLeaks& leaks) {
  require_field(in, "class", leaks.label);
  read_field(in, "forgotten", leaks.forgotten);
  read_field(in, "points_train", leaks.points_train);
  read_field(in, "points_test", leaks.points_test);
  read_field(in, "observers", leaks.observers);
}

void to_json(json& out, const Leaks& leaks) {
  out = {{"networks_train", leaks.networks_train},
         {"classes", leaks.classes},
         {"forgotten", leaks.forgotten},
         {"retained", leaks.retained}};
}

void from_json(const json& in, Leaks& leaks) {
  read_field(in, "networks_train", leaks.networks_train);
  read_field(in, "classes", leaks.classes);
  read_field(in, "forgotten", leaks.forgotten);
  read_field(in, "retained", leaks.retained);
}

}  // namespace oubli
