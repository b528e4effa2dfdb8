#include "oubli/audit/alignment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>

#include "oubli/base/error.h"
#include "oubli/base/largest.h"
#include "oubli/base/names.h"

namespace oubli {
namespace {

constexpr unsigned kShift = 32;

std::uint64_t pair_of(std::uint32_t label, std::uint32_t predicted) {
  return std::uint64_t{label} << kShift | predicted;
}
std::uint32_t label_in(std::uint64_t pair) { return static_cast<std::uint32_t>(pair >> kShift); }
std::uint32_t predicted_in(std::uint64_t pair) { return static_cast<std::uint32_t>(pair); }

// The name that each class's samples get most often, for classes that have samples.
std::map<std::uint32_t, std::uint32_t> commonest_names(const Confusion& confusion) {
  std::map<std::uint32_t, std::uint32_t> names;
  for (std::uint32_t label = 0; label < confusion.classes(); ++label)
    if (const auto all = confusion.names_of(label); !all.empty())
      names.emplace(label, all.front().predicted);
  return names;
}

// Classes whose samples have the name of the next, those of the last that of the first: two or more
// of them, from the smallest on; empty if there are none.
std::vector<std::uint32_t> cycle_in(const std::map<std::uint32_t, std::uint32_t>& names) {
  std::map<std::uint32_t, std::uint32_t> walked;  // in which walk a class was met
  for (const auto& [first, its] : names) {
    std::uint32_t at = first;
    while (names.contains(at) && !walked.contains(at)) {
      walked.emplace(at, first);
      at = names.at(at);
    }
    if (!names.contains(at) || walked.at(at) != first || names.at(at) == at) continue;
    std::vector<std::uint32_t> cycle{at};
    for (std::uint32_t next = names.at(at); next != at; next = names.at(next))
      cycle.push_back(next);
    std::rotate(cycle.begin(), std::ranges::min_element(cycle), cycle.end());
    return cycle;
  }
  return {};
}

// Why the samples of a class look like those of another.
std::optional<std::string> why_another(const Confusion& confusion, const Leaning& leaning,
                                       std::span<const std::string> class_names) {
  const std::uint32_t label = leaning.forgotten();
  const auto names = confusion.names_of(label);
  if (names.empty()) return std::nullopt;
  std::size_t all = 0, own = 0;
  for (const Confusion::Name& one : names) {
    all += one.count;
    if (one.predicted == label) own = one.count;
  }
  const auto name = [&](std::uint32_t c) { return class_label(c, class_names); };
  const auto [called, count] = names.front();
  const auto top = static_cast<double>(count), mine = static_cast<double>(own);
  const auto least = leaning.least();
  const bool unclear = least && !(least->deviations >= kClearLeaning);
  // A model that is mostly wrong may prefer another name: then what it leans to decides.
  const bool plausible = confusion.accuracy() < 0.5 && !confusion.names_of(called).empty();
  if ((unclear || !plausible) && top - mine > 2 * std::sqrt(top + mine))
    return fmt::format(
        "of {} samples of class {} the model calls {} by that name and {} by that of {} (all "
        "classes: {:.1f} % right)",
        all, name(label), own, count, name(called), 100 * confusion.accuracy());
  if (!unclear) return std::nullopt;
  if (least->deviations >= 0)
    return fmt::format(
        "the samples of class {} lean to that name rather than to {} hardly more than those of the "
        "latter do ({:.1f} standard deviations, wanted {:.1f}), so that these two could be "
        "swapped; "
        "more samples may tell",
        name(label), name(least->other), least->deviations, kClearLeaning);
  return fmt::format(
      "the samples of class {} lean to that name rather than to {} less than those of the latter "
      "do "
      "({:.1f} standard deviations): these two look swapped",
      name(label), name(least->other), -least->deviations);
}

struct Judged {
  Confusion confusion;
  std::vector<Leaning> leanings;
};

// What the first networks of a population, their logits summed, call every sample, and how samples
// lean where there is a column for every class. `columns` has the class of each column.
Judged judge(const Population& population, const AuditSamples& samples,
             std::span<const std::size_t> columns) {
  constexpr std::size_t kRows = 1024;
  Judged judged{Confusion(samples.classes), {}};
  if (columns.size() == samples.classes)
    for (const std::size_t c : samples.forgotten)
      judged.leanings.emplace_back(static_cast<std::uint32_t>(c), samples.classes);
  const std::size_t models = std::min(population.models, kJudgedModels);
  for (std::size_t begin = 0; begin < samples.labels.size(); begin += kRows) {
    std::vector<std::uint32_t> rows(std::min(kRows, samples.labels.size() - begin));
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(begin));
    Matrix<float> one(rows.size(), population.columns);
    Matrix<double> sum(rows.size(), population.columns);
    for (std::size_t model = 0; model < models; ++model) {
      read_finite(population, model, rows, one);
      std::ranges::transform(one.flat(), sum.flat(), sum.flat().begin(), std::plus<double>());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::span<const double> row = sum.row(i);
      const std::uint32_t label = samples.labels[rows[i]];
      judged.confusion.add(label, static_cast<std::uint32_t>(columns[place_of_largest(row)]));
      for (Leaning& leaning : judged.leanings) leaning.add(label, row);
    }
  }
  return judged;
}

// Of networks that never saw the forgotten classes: `all` has the samples of every class, those of
// forgotten ones under retained names.
std::optional<std::string> why_retrained_misaligned(const Confusion& all,
                                                    const AuditSamples& samples,
                                                    std::span<const std::string> class_names) {
  Confusion retained(samples.classes);
  for (std::uint32_t label = 0; label < samples.classes; ++label)
    if (!std::ranges::binary_search(samples.forgotten, label))
      for (const Confusion::Name& name : all.names_of(label))
        for (std::size_t i = 0; i < name.count; ++i) retained.add(label, name.predicted);
  if (auto why = why_misaligned(retained, {}, class_names)) return why;
  for (const std::size_t c : samples.forgotten) {
    const auto label = static_cast<std::uint32_t>(c);
    for (const Confusion::Name& name : all.names_of(label)) {
      if (all.names_of(name.predicted).empty()) continue;
      const double theirs = all.share(label, name.predicted);
      const double own = all.share(name.predicted, name.predicted);
      if (theirs <= own + kSwappedShare) continue;
      return fmt::format(
          "{:.1f} % of the samples of class {}, which is forgotten, are called by the name of {}, "
          "and of that one's own samples only {:.1f} %: these two look swapped",
          100 * theirs, class_label(label, class_names), class_label(name.predicted, class_names),
          100 * own);
    }
  }
  return std::nullopt;
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

double Confusion::share(std::uint32_t label, std::uint32_t predicted) const {
  sort();
  const auto between = [&](std::uint64_t first, std::uint64_t end) {
    return std::ranges::lower_bound(pairs_, end) - std::ranges::lower_bound(pairs_, first);
  };
  const auto all = between(pair_of(label, 0), std::uint64_t{label + std::uint64_t{1}} << kShift);
  const auto so = between(pair_of(label, predicted), pair_of(label, predicted) + 1);
  return all == 0 ? 0 : static_cast<double>(so) / static_cast<double>(all);
}

bool near_chance(double accuracy, std::size_t classes, std::size_t samples) {
  // Chance is right once in `classes` times; three standard deviations above that is still chance.
  const double chance = 1 / static_cast<double>(classes);
  const double deviation = std::sqrt(chance * (1 - chance) / static_cast<double>(samples));
  return accuracy < 0.5 && accuracy <= 1.5 * chance + 3 * deviation;
}

std::optional<std::string> why_misaligned(const Confusion& confusion,
                                          std::span<const Leaning> leanings,
                                          std::span<const std::string> class_names) {
  if (confusion.samples() == 0) return std::nullopt;
  const double accuracy = confusion.accuracy();
  if (near_chance(accuracy, confusion.classes(), confusion.samples()))
    return fmt::format("the model is right on {:.1f} % of {} samples, near chance ({:.1f} %)",
                       100 * accuracy, confusion.samples(),
                       100 / static_cast<double>(confusion.classes()));
  const auto name = [&](std::uint32_t c) { return class_label(c, class_names); };
  for (const Leaning& leaning : leanings)
    if (auto why = why_another(confusion, leaning, class_names)) return why;
  if (const auto cycle = cycle_in(commonest_names(confusion)); !cycle.empty()) {
    std::vector<std::string> around;
    for (const std::uint32_t label : cycle) around.push_back(name(label));
    if (cycle.size() == 2)
      return fmt::format(
          "the model calls most samples of class {} by the name of {}, and the other way round: "
          "these two look swapped",
          around[0], around[1]);
    return fmt::format(
        "the model calls most samples of class {}, in that order and round again, by the name of "
        "the next: these look permuted",
        fmt::join(around, ", "));
  }
  return std::nullopt;
}

void require_aligned(const Confusion& confusion, std::span<const Leaning> leanings,
                     std::span<const std::string> class_names, const std::string& made) {
  const auto why = why_misaligned(confusion, leanings, class_names);
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

std::optional<std::string> why_misaligned(const AuditInput& input) {
  const AuditSamples& samples = input.samples;
  std::vector<std::size_t> all(samples.classes), retained;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::ranges::set_difference(all, samples.forgotten, std::back_inserter(retained));
  const auto fits = [&](const Population& population, std::size_t columns) {
    return population.columns == columns && population.samples == samples.labels.size();
  };  // else audit() says what is wrong
  const auto of = [](const Population& population, const std::string& why) {
    return fmt::format("{}: {}", population.name, why);
  };
  if (input.before && fits(*input.before, samples.classes)) {
    const Judged before = judge(*input.before, samples, all);
    if (const auto why = why_misaligned(before.confusion, before.leanings, input.class_names))
      return of(*input.before, *why);
  }
  for (const Population* const population :
       {&input.unseen, input.unseen2 ? &*input.unseen2 : nullptr})
    if (population != nullptr && fits(*population, retained.size()))
      if (const auto why = why_retrained_misaligned(judge(*population, samples, retained).confusion,
                                                    samples, input.class_names))
        return of(*population, *why);
  return std::nullopt;
}

void require_aligned(const AuditInput& input) {
  if (const auto why = why_misaligned(input))
    fail(
        ErrorCode::unfilterable,
        "labels look misaligned: {}; check that labels, samples and columns are in the same order, "
        "and the number of the forgotten class; if the networks are as bad as that, say "
        "--ignore-accuracy",
        *why);
}

std::string ignored_warning(const std::string& why) {
  return fmt::format("labels look misaligned, and that was ignored as asked: {}", why);
}

}  // namespace oubli
