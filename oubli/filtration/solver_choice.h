#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"
#include "oubli/base/enum_names.h"
#include "oubli/filtration/calibration.h"
#include "oubli/filtration/head.h"
#include "oubli/filtration/solvers.h"

namespace oubli {

enum class Solver { automatic, paper, affine, logit_affine, ridge };
template <>
struct EnumNames<Solver> {
  static constexpr std::string_view kWhat = "solver";
  static constexpr EnumName<Solver> kTable[] = {{Solver::automatic, "auto"},
                                                {Solver::paper, "paper"},
                                                {Solver::affine, "affine"},
                                                {Solver::logit_affine, "logit-affine"},
                                                {Solver::ridge, "ridge"}};
};

// What the solver did, for people and receipts.
struct SolverReport {
  Solver chosen = Solver::automatic;
  std::string reason;
  double conditioning = 0;   // DualFunctions::conditioning of the chosen solver
  std::vector<double> gain;  // per forgotten class: deviation of g_c within classes, NaN if unknown
  bool gain_measured = false;     // on data; else estimated from the pooled variance
  double residual_forgotten = 0;  // largest |r_cj| over forgotten j
  double residual_retained = 0;   // ... over retained j
  // Retained j with g_c(m_j) > 1/4 for a forgotten c: the mean of j goes where that of c goes, by
  // so much of the way.
  std::vector<std::size_t> moved_along;
  std::vector<std::string> tried;  // auto: the solvers passed over, and why
  std::string doubts;              // why the solution is a poor one, if it is
};

// The dual functions by the solver asked for, or by the best that is well conditioned (auto).
struct SolvedDuals {
  DualFunctions g;
  Space space = Space::logits;  // what g is a function of
  SolverReport report;
};

// `head` may be null if the calibration is of logits. Error{unfilterable} if the solver cannot give
// an answer worth having.
[[nodiscard]] SolvedDuals solve_duals(const HeadView* head, const Calibration& calibration,
                                      std::span<const std::size_t> forget, Solver solver);

}  // namespace oubli
