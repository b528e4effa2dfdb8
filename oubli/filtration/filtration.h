#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/filtration/explained.h"
#include "oubli/filtration/filter.h"
#include "oubli/filtration/head.h"
#include "oubli/filtration/methods.h"
#include "oubli/filtration/solver_choice.h"

namespace oubli {

// A deletion request, solved once: one factorisation and |C| solves. Filters for any number of
// targets z then cost O(k p |C|) each. This is the method of the paper; read it beside
// docs/method.md.
class Filtration {
 public:
  // Error{usage} or {unfilterable} if the forget set is impossible or the solver gives no answer.
  static Filtration solve(const HeadView& head, const Calibration& calibration,
                          std::span<const std::size_t> forget, Solver solver = Solver::automatic);
  // The same from mean logits alone, where nobody has the head: gives logit filters only.
  static Filtration solve_on_logits(const Calibration& calibration,
                                    std::span<const std::size_t> forget,
                                    Solver solver = Solver::automatic);

  [[nodiscard]] const SolverReport& report() const { return duals_.report; }
  [[nodiscard]] const ClassSplit& split() const { return split_; }
  // d_c = z_c - pi(a_c) as rows, forgotten x retained.
  [[nodiscard]] Matrix<double> offsets(const Target& target) const;
  // The filter of the logits; none if the solver works on features.
  [[nodiscard]] std::optional<LogitFilter> logit_filter(const Target& target) const;
  // The filter of the last layer.
  [[nodiscard]] HeadFilter head_filter(const HeadView& head, const Target& target) const;

 private:
  // `head`, if known, tells whether its logits can be independent.
  static Filtration solve_on_logits(const HeadView* head, const Calibration& calibration,
                                    std::span<const std::size_t> forget, Solver solver);
  explicit Filtration(ClassSplit split) : split_(std::move(split)) {}

  ClassSplit split_;
  SolvedDuals duals_;
  Matrix<double> forgotten_logit_means_;  // forgotten x classes
  std::vector<double> shift_;             // normalization's s_c
};

// Whether the new rows are made to sum to zero: where the old ones do, minus the sum of the others
// would be a forgotten row [docs/method.md, eq. 6].
enum class Centring { by_head, never, always };

// The whole request in one call. Naive and centre need neither means nor a solve.
struct FiltrationPlan {
  HeadFilter filter;
  std::optional<SolverReport> solver;         // none for naive and centre
  std::vector<std::string> warnings;          // in plain words, for the person who asked
  std::optional<LogitFilter> on_logits = {};  // the same filter on logits; none for features
  double row_sum = 0;                         // row_sum_ratio() of the old head
  bool centred = false;
  // The method that was carried out: the one asked for, or normalization where explained has too
  // little to go by.
  Method method = Method::normalization;
  std::optional<Explanation> explanation = {};  // of method explained

  [[nodiscard]] bool rows_summed_to_zero() const { return row_sum < kRowsSumToZero; }
};
[[nodiscard]] FiltrationPlan plan_filtration(const HeadView& head,
                                             const std::optional<Calibration>& calibration,
                                             std::span<const std::size_t> forget,
                                             const Target& target,
                                             Solver solver = Solver::automatic,
                                             Centring centring = Centring::by_head);

}  // namespace oubli
