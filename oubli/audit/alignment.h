#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/audit/audit.h"
#include "oubli/audit/leaning.h"

namespace oubli {

// The guard against deleting the wrong person: do labels mean what the model means by them? One
// rule, wherever a model meets labelled samples.

// How often samples of one class were called by the name of another. Only what occurs takes room.
class Confusion {
 public:
  explicit Confusion(std::size_t classes = 0) : classes_(classes) {}

  void add(std::uint32_t label, std::uint32_t predicted);

  [[nodiscard]] std::size_t classes() const { return classes_; }
  [[nodiscard]] std::size_t samples() const { return pairs_.size(); }
  // Of all samples, and of one class; NaN without any.
  [[nodiscard]] double accuracy() const;
  [[nodiscard]] std::vector<double> class_accuracy() const;

  // What the model calls the samples of a class, the commonest name first.
  struct Name {
    std::uint32_t predicted = 0;
    std::size_t count = 0;
  };
  // The class's own name first among equally common ones; then by number.
  [[nodiscard]] std::vector<Name> names_of(std::uint32_t label) const;
  // The part of a class's samples that is called so; 0 without any.
  [[nodiscard]] double share(std::uint32_t label, std::uint32_t predicted) const;

 private:
  void sort() const;

  std::size_t classes_;
  mutable std::vector<std::uint64_t> pairs_;  // label, predicted; sorted when asked
  mutable bool sorted_ = true;
};

// Whether a model that is right so often may as well be guessing. Half of the samples or more is
// not guessed, however few they are.
[[nodiscard]] bool near_chance(double accuracy, std::size_t classes, std::size_t samples);

// Why the labels look wrong, if they do, for the classes to be forgotten that `leanings` are of:
//   the model is near chance;
//   the samples of a class to be forgotten do not lean to its name more than those of another class
//   do, by kClearLeaning standard deviations: the two look swapped, or it cannot be told;
//   among the samples of such a class another name is commoner than its own, by more than twice the
//   standard deviation of that difference, though the model is right on half of all samples, or
//   without samples of that other class to compare with;
//   classes have each other's names: the samples of each are called most often by the name of the
//   next, and those of the last by that of the first.
// In doubt the answer is yes, and a model that is honestly this bad about a class is refused: then
// somebody must say so. The odds: let an honest pair of classes be t standard deviations apart in
// expectation, with some twenty samples or more. It is refused with probability Phi(2 - t), and
// with its labels exchanged it is accepted with Phi(-2 - t), Phi being the normal distribution: 0.1
// % and 3e-7 at t = 5, half and 3e-5 at t = 2, and never more than 2.3 % accepted. t grows with the
// root of the number of samples. `bench/run guard` counts both.
inline constexpr double kClearLeaning = 2;
[[nodiscard]] std::optional<std::string> why_misaligned(const Confusion& confusion,
                                                        std::span<const Leaning> leanings,
                                                        std::span<const std::string> class_names);
// Error{unfilterable} if they do: what was found, and what to look at. `made` says how inputs were
// made, if it is known.
void require_aligned(const Confusion& confusion, std::span<const Leaning> leanings,
                     std::span<const std::string> class_names, const std::string& made);

// The same of an audit, from what the networks of a population say together, the first few of them:
// those from before unlearning, by the rule above; then retrained ones, by the rule for classes
// that stay, and one for those that they never saw: if the samples of a forgotten class are called
// by the name of another more often, by kSwappedShare, than that one's own samples are, the two
// look swapped. Unlearned networks are not judged: a method may have spoilt them.
inline constexpr std::size_t kJudgedModels = 10;
inline constexpr double kSwappedShare = 0.1;
[[nodiscard]] std::optional<std::string> why_misaligned(const AuditInput& input);
// Error{unfilterable}.
void require_aligned(const AuditInput& input);
// What a result says where somebody insists.
[[nodiscard]] std::string ignored_warning(const std::string& why);

}  // namespace oubli
