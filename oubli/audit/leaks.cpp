#include "oubli/audit/leaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "oubli/base/json_fields.h"

namespace oubli {

std::string name_of(const AttackLeak& leak) {
  const std::string name(name_of(leak.attack));
  return leak.answers == 1 ? name : fmt::format("{}, {} answers", name, leak.answers);
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

namespace {

// Verdicts are made of them.
void check_shares(std::size_t label, const AttackLeak& leak) {
  for (const auto& shares : leak.shares)
    for (const double share : shares)
      if (!(share >= 0 && share <= 1))
        fail(ErrorCode::bad_input, "classes: class {}, {}: shares of {}, wanted 0 to 1", label,
             name_of(leak), share);
  if (!leak.shares[0].empty() && (leak.answers_per_network == 0 || leak.shares[1].empty()))
    fail(ErrorCode::bad_input, "classes: class {}, {}: shares of no answers", label, name_of(leak));
}

}  // namespace

template <typename Fields>
void members(Fields& fields, AttackLeak& leak) {
  fields.named("attack", leak.attack, value_named<Attack>);
  fields("answers", leak.answers);
  for (const auto& [key, title, chart, figure] : kAttackFigures) fields(key, leak.*figure);
  // Not written where they are empty.
  constexpr bool kReads = std::is_same_v<Fields, JsonReader>;
  if (kReads || leak.tail_answers[0] != 0)
    fields.object("tail_answers", [&](auto& tails) {
      tails.required("seen", leak.tail_answers[0]);
      tails.required("unseen", leak.tail_answers[1]);
    });
  if (kReads || !leak.shares[0].empty())
    fields.object("shares", [&](auto& shares) {
      shares.required("seen", leak.shares[0]);
      shares.required("unseen", leak.shares[1]);
      shares.required("answers", leak.answers_per_network);
    });
  if (kReads || !leak.splits.empty())
    fields.object("splits", [&](auto& splits) {
      splits.required("advantages", leak.splits);
      splits.required("mean", leak.over_splits);
    });
}

template <typename Fields>
void members(Fields& fields, ObserverLeak& leak) {
  fields.named("observer", leak.observer, value_named<Observer>);
  fields("attacks", leak.attacks);
  if (const AttackLeak* worst = leak.worst()) fields.written("worst", name_of(*worst));
  for (const auto& [key, title, chart, figure] : kObserverFigures) fields(key, leak.*figure);
}

template <typename Fields>
void members(Fields& fields, ClassLeaks& leaks) {
  fields.required("class", leaks.label);
  fields("forgotten", leaks.forgotten);
  fields("points_train", leaks.points_train);
  fields("points_test", leaks.points_test);
  fields("observers", leaks.observers);
}

template <typename Fields>
void members(Fields& fields, Leaks& leaks) {
  fields("networks_train", leaks.networks_train);
  fields("classes", leaks.classes);
  fields("forgotten", leaks.forgotten);
  fields("retained", leaks.retained);
}

void to_json(nlohmann::json& out, const Leaks& leaks) { to_json<Leaks>(out, leaks); }

void from_json(const nlohmann::json& in, Leaks& leaks) {
  from_json<Leaks>(in, leaks);
  for (const ClassLeaks& of_class : leaks.classes)
    for (const ObserverLeak& observer : of_class.observers)
      for (const AttackLeak& leak : observer.attacks) check_shares(of_class.label, leak);
}

}  // namespace oubli
