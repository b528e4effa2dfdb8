#include "oubli/audit/leaks.h"

#include <algorithm>

#include "oubli/base/json_fields.h"

namespace oubli {

using nlohmann::json;

void to_json(json& out, const AttackLeak& leak) {
  out = {{"attack", name_of(leak.attack)}};
  for (const auto& [key, title, chart, figure] : kAttackFigures) out[key] = leak.*figure;
}

void from_json(const json& in, AttackLeak& leak) {
  require_named(in, "attack", leak.attack, attack_of);
  for (const auto& [key, title, chart, figure] : kAttackFigures) read_field(in, key, leak.*figure);
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

const AttackLeak* find(const ObserverLeak* leak, Attack attack) {
  if (leak == nullptr) return nullptr;
  const auto found = std::ranges::find(leak->attacks, attack, &AttackLeak::attack);
  return found == leak->attacks.end() ? nullptr : &*found;
}

const ClassLeaks* find(std::span<const ClassLeaks> classes, std::uint32_t label) {
  const auto found = std::ranges::find(classes, label, &ClassLeaks::label);
  return found == classes.end() ? nullptr : &*found;
}

void to_json(json& out, const ObserverLeak& leak) {
  out = {{"observer", name_of(leak.observer)}, {"attacks", leak.attacks}};
  if (const AttackLeak* worst = leak.worst()) out["worst"] = name_of(worst->attack);
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
  out = {{"classes", leaks.classes}, {"forgotten", leaks.forgotten}, {"retained", leaks.retained}};
}

void from_json(const json& in, Leaks& leaks) {
  read_field(in, "classes", leaks.classes);
  read_field(in, "forgotten", leaks.forgotten);
  read_field(in, "retained", leaks.retained);
}

}  // namespace oubli
