#include "oubli/forget/alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "oubli/base/error.h"
#include "oubli/base/names.h"
#include "oubli/base/workers.h"

namespace oubli {
namespace {

constexpr unsigned kShift = 32;

std::uint64_t pair_of(std::uint32_t label, std::uint32_t predicted) {
  return std::uint64_t{label} << kShift | predicted;
}
std::uint32_t label_in(std::uint64_t pair) { return static_cast<std::uint32_t>(pair >> kShift); }
std::uint32_t predicted_in(std::uint64_t pair) { return static_cast<std::uint32_t>(pair); }

// Multiplications for the logits of so many samples take tenths of a second.
constexpr double kSteps = 2e9;
constexpr std::size_t kFewest = 256;

// At most `most` of them, at equal distances.
std::vector<std::size_t> spread(const std::vector<std::size_t>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(all[i * all.size() / most]);
  return chosen;
}

// The name that each class's samples get most often, for classes that have samples.
std::map<std::uint32_t, std::uint32_t> commonest_names(const Confusion& confusion) {
  std::map<std::uint32_t, std::uint32_t> names;
  for (std::uint32_t label = 0; label < confusion.classes(); ++label)
    if (const auto all = confusion.names_of(label); !all.empty())
      names.emplace(label, all.front().predicted);
  return names;
}

}  // namespace

void Confusion::add(std::uint32_t label, std::uint32_t predicted) {
  OUBLI_ASSERT(label < classes_ && predicted < classes_);
  pairs_.push_back(pair_of(label, predicted));
  sorted_ = false;
}

void Confusion::sort() const {
  if (!sorted_) std::ranges::sort(pairs_);
  sorted_ = true;
}

double Confusion::accuracy() const {
  if (pairs_.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto right = std::ranges::count_if(
      pairs_, [](std::uint64_t pair) { return label_in(pair) == predicted_in(pair); });
  return static_cast<double>(right) / static_cast<double>(pairs_.size());
}

std::vector<double> Confusion::class_accuracy() const {
  std::vector<std::size_t> right(classes_), count(classes_);
  for (const std::uint64_t pair : pairs_) {
    ++count[label_in(pair)];
    if (label_in(pair) == predicted_in(pair)) ++right[label_in(pair)];
  }
  std::vector<double> accuracy;
  for (std::size_t j = 0; j < classes_; ++j)
    accuracy.push_back(count[j] == 0
                           ? std::numeric_limits<double>::quiet_NaN()
                           : static_cast<double>(right[j]) / static_cast<double>(count[j]));
  return accuracy;
}

std::vector<Confusion::Name> Confusion::names_of(std::uint32_t label) const {
  sort();
  std::vector<Name> names;
  for (auto at = std::ranges::lower_bound(pairs_, pair_of(label, 0));
       at != pairs_.end() && label_in(*at) == label; ++at) {
    if (names.empty() || names.back().predicted != predicted_in(*at))
      names.push_back({predicted_in(*at), 0});
    ++names.back().count;
  }
  std::ranges::stable_sort(names, [&](const Name& a, const Name& b) {
    if (a.count != b.count) return a.count > b.count;
    return a.predicted == label && b.predicted != label;
  });
  return names;
}

Confusion confusion_of(const HeadView& head, const CalibrationData& data,
                       std::span<const std::size_t> forget) {
  const std::size_t per_sample =
      head.classes() * (data.space == Space::features ? head.features() : std::size_t{1});
  const std::size_t most = std::max<std::size_t>(
      kFewest, static_cast<std::size_t>(kSteps / static_cast<double>(per_sample)));
  std::vector<std::size_t> of_forgotten, others;
  for (std::size_t i = 0; i < data.samples(); ++i)
    (std::ranges::find(forget, data.labels[i]) != forget.end() ? of_forgotten : others)
        .push_back(i);
  std::vector<std::size_t> rows = spread(of_forgotten, most / 2);
  const std::vector<std::size_t> more = spread(others, most - rows.size());
  rows.insert(rows.end(), more.begin(), more.end());
  std::ranges::sort(rows);
  Confusion confusion(head.classes());
  for (std::size_t begin = 0; begin < rows.size(); begin += kFewest) {
    const auto some = std::span(rows).subspan(begin, std::min(kFewest, rows.size() - begin));
    const Matrix<float> values = pick_samples(data.values, some);
    const Matrix<float> logits =
        data.space == Space::logits ? values : logits_of(head, values.view(), available_cores());
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto row = logits.row(i);
      confusion.add(data.labels[some[i]],
                    static_cast<std::uint32_t>(std::ranges::max_element(row) - row.begin()));
    }
  }
  return confusion;
}

bool near_chance(double accuracy, std::size_t classes, std::size_t samples) {
  // Chance is right once in `classes` times; three standard deviations above that is still chance.
  const double chance = 1 / static_cast<double>(classes);
  const double deviation = std::sqrt(chance * (1 - chance) / static_cast<double>(samples));
  return accuracy < 0.5 && accuracy <= 1.5 * chance + 3 * deviation;
}

std::optional<std::string> why_misaligned(const Confusion& confusion,
                                          std::span<const std::size_t> forget,
                                          std::span<const std::string> class_names) {
  if (confusion.samples() == 0) return std::nullopt;
  const double accuracy = confusion.accuracy();
  if (near_chance(accuracy, confusion.classes(), confusion.samples()))
    return fmt::format("the model is right on {:.1f} % of {} samples, near chance ({:.1f} %)",
                       100 * accuracy, confusion.samples(),
                       100 / static_cast<double>(confusion.classes()));
  const auto name = [&](std::uint32_t c) { return class_label(c, class_names); };
  for (const std::size_t c : forget) {
    const auto label = static_cast<std::uint32_t>(c);
    const auto names = confusion.names_of(label);
    if (names.empty() || names.front().predicted == label) continue;
    std::size_t all = 0, own = 0;
    for (const Confusion::Name& one : names) {
      all += one.count;
      if (one.predicted == label) own = one.count;
    }
    return fmt::format(
        "of {} samples of class {} the model calls {} by that name and {} by that of {} (all "
        "classes: {:.1f} % right)",
        all, name(label), own, names.front().count, name(names.front().predicted), 100 * accuracy);
  }
  const auto names = commonest_names(confusion);
  for (const auto& [a, b] : names)
    if (const auto other = names.find(b); a < b && other != names.end() && other->second == a)
      return fmt::format(
          "the model calls most samples of class {} by the name of {}, and the other way round: "
          "these "
          "two look swapped",
          name(a), name(b));
  return std::nullopt;
}

void require_aligned(const Confusion& confusion, std::span<const std::size_t> forget,
                     std::span<const std::string> class_names, const std::string& made) {
  const auto why = why_misaligned(confusion, forget, class_names);
  if (!why) return;
  fail(ErrorCode::unfilterable,
       "labels look misaligned: {}; is it the right class? {}; if the model is as bad as that, say "
       "--ignore-accuracy",
       *why,
       made.empty()
           ? std::string("Check the labels and the order of the classes (--class-names)")
           : "Check the order of the classes (--class-names) and how inputs are made (--scale, "
             "--mean, --std, --layout): " +
                 made);
}

}  // namespace oubli
