#include "oubli/filtration/solver_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "oubli/array/row_blocks.h"
#include "oubli/base/workers.h"
#include "oubli/filtration/eigen.h"

namespace oubli {
namespace {

// What `auto` accepts; measured on trained heads in docs/method.md, section 4.
constexpr double kPaperFromLogits = 1e-5;  // A averaged from float32 logits
constexpr double kPaperFromHead = 1e-7;    // A = W M + b 1^T in double
constexpr double kAffine = 1e-6;
constexpr double kLargestGain = 1;
// Below this even a solver that was asked for by name gives noise; with means of logits, which
// float32 networks know to seven digits, sooner.
constexpr double kHopeless = 1e-14;
constexpr double kHopelessFromLogits = 1e-7;
constexpr std::string_view kMoved = "expect the logits of retained classes to be moved";

// One way to the dual functions, and where they live.
struct Attempt {
  Solver solver;
  DualFunctions g;
  const TensorView* means;  // that g was solved on
  Space space;
  double wanted;  // of g.conditioning
  std::vector<double> gain;
  bool gain_measured = false;
};

// Standard deviation of g_c within classes: how much g_c wobbles around the 0 and 1 it should be.
// A function of logits is, through the head, one of features, so the data may be of either kind.
void add_gain(Attempt& attempt, const HeadView* head, const Calibration& calibration) {
  const Matrix<double> u =
      attempt.space == calibration.space ? attempt.g.u : combine_rows(*head, attempt.g.u);
  attempt.gain_measured = !calibration.sample_labels.empty();
  attempt.gain.assign(u.rows(), std::nan(""));
  if (attempt.gain_measured) {
    Matrix<double> of_means(u.rows(), calibration.means.shape[0]);  // u_c . m_j
    for_each_row_block(calibration.means, [&](std::size_t first, MatrixView<const double> block) {
      eigen(of_means.view()).middleCols(eigen_index(first), eigen_index(block.rows())) =
          eigen(u.view()) * eigen(block).transpose();
    });
    const std::size_t step = calibration.sample_step;
    const std::size_t rows = (calibration.sample_labels.size() + step - 1) / step;
    constexpr std::size_t kBlock = 256;
    const std::size_t blocks = (rows + kBlock - 1) / kBlock;
    Matrix<double> sums(blocks, u.rows());  // added up in the order of blocks
    run_tasks(blocks, available_cores(), [&](std::size_t block, unsigned) {
      std::vector<float> buffer;
      for (std::size_t n = block * kBlock; n < std::min(rows, (block + 1) * kBlock); ++n) {
        const auto x = float_row(calibration.sample, n * step, buffer);
        require_finite(MatrixView<const float>(x.data(), 1, x.size()), calibration.sample.what,
                       n * step);
        for (std::size_t c = 0; c < u.rows(); ++c) {
          const double deviation =
              dot(u.row(c), x) - of_means(c, calibration.sample_labels[n * step]);
          sums(block, c) += deviation * deviation;
        }
      }
    });
    for (std::size_t c = 0; c < u.rows(); ++c) {
      double sum = 0;
      for (std::size_t block = 0; block < blocks; ++block) sum += sums(block, c);
      attempt.gain[c] = std::sqrt(sum / static_cast<double>(rows));
    }
  } else if (std::isfinite(calibration.within_variance)) {
    for (std::size_t c = 0; c < u.rows(); ++c)
      attempt.gain[c] =
          eigen(u.view()).row(eigen_index(c)).norm() * std::sqrt(calibration.within_variance);
  }
}

bool finite(const DualFunctions& g) {
  return std::ranges::all_of(g.u.flat(), [](double v) { return std::isfinite(v); }) &&
         std::ranges::all_of(g.beta, [](double v) { return std::isfinite(v); });
}

// Why auto passes an attempt over; empty if it does not.
std::string objection(const Attempt& attempt) {
  if (!finite(attempt.g) || attempt.g.conditioning < attempt.wanted)
    return fmt::format("{}: conditioning {:.1e} is below {:.0e}", name_of(attempt.solver),
                       attempt.g.conditioning, attempt.wanted);
  for (const double gain : attempt.gain)
    if (gain > kLargestGain)
      return fmt::format("{}: gain {:.3g} is above {}", name_of(attempt.solver), gain,
                         kLargestGain);
  return {};
}

// Everything the attempts need; `head` may be absent.
struct Problem {
  const HeadView* head;
  const Calibration* calibration;
  std::span<const std::size_t> forget;
  std::size_t classes;
  Matrix<double> computed;  // A^T = M W^T + 1 b^T, if it had to be computed
  TensorView logit_means;   // of the data, or computed

  [[nodiscard]] const TensorView& need_logit_means() {
    if (logit_means.shape.empty()) {
      if (calibration->space == Space::logits) {
        logit_means = calibration->means;
      } else {
        const auto stored = as_double_matrix(calibration->means);
        computed =
            stored ? logits_of(*head, *stored) : logits_of(*head, to_matrix(calibration->means));
        logit_means = tensor_view(MatrixView<const double>(computed), "mean logits");
      }
    }
    return logit_means;
  }

  // A = [W b][M; 1]: k mean predictions of a layer of p features lie in p dimensions, and cannot be
  // independent, not even affinely, if there are more than p + 1.
  [[nodiscard]] bool logits_are_dependent() const {
    return head != nullptr && classes > head->features() + 1;
  }
  // What a solver that was asked for must reach to be more than noise.
  [[nodiscard]] double hopeless(Solver solver) const {
    return calibration->space == Space::logits && solver != Solver::ridge ? kHopelessFromLogits
                                                                          : kHopeless;
  }

  Attempt attempt(Solver solver) {
    const TensorView& means = calibration->means;
    const std::size_t dimensions = means.shape[1];
    // Means of logits span no more dimensions than the features they are functions of.
    const std::size_t spanned = head ? std::min(dimensions, head->features()) : dimensions;
    if ((solver == Solver::paper || solver == Solver::logit_affine) && logits_are_dependent())
      fail(ErrorCode::unfilterable,
           "solver {}: {} classes on {} features: their mean predictions are linearly dependent; "
           "use --solver auto or ridge",
           name_of(solver), classes, head->features());
    Attempt result{solver, {}, &means, calibration->space, 0, {}, false};
    switch (solver) {
      case Solver::paper:
        result.means = &need_logit_means();
        result.space = Space::logits;
        result.wanted = calibration->space == Space::logits ? kPaperFromLogits : kPaperFromHead;
        result.g = solve_paper(*result.means, forget);
        break;
      case Solver::logit_affine:
        result.means = &need_logit_means();
        result.space = Space::logits;
        result.wanted = kAffine;
        result.g = solve_affine(*result.means, forget);
        break;
      case Solver::affine:
        if (calibration->space == Space::logits)
          fail(ErrorCode::usage, "solver affine needs features; with logits use logit-affine");
        if (classes > dimensions + 1)
          fail(ErrorCode::unfilterable,
               "solver affine needs at most features + 1 = {} classes, the head has {}; use ridge",
               dimensions + 1, classes);
        result.wanted = kAffine;
        result.g = solve_affine(means, forget);
        break;
      case Solver::automatic:
      case Solver::ridge:
        OUBLI_ASSERT(solver != Solver::automatic);
        if (forget.size() > spanned + 1)
          fail(ErrorCode::unfilterable,
               "solver ridge can forget at most features + 1 = {} classes at once, not {}",
               spanned + 1, forget.size());
        result.wanted = kHopeless;
        result.g = solve_ridge(means, forget, calibration->within_variance);
        break;
    }
    add_gain(result, head, *calibration);
    return result;
  }

  // The solvers auto tries, best first; the last is taken whatever its gain.
  [[nodiscard]] std::vector<Solver> candidates() const {
    if (calibration->space == Space::logits && logits_are_dependent()) return {Solver::ridge};
    if (calibration->space == Space::logits)
      return {Solver::paper, Solver::logit_affine, Solver::ridge};
    if (classes > calibration->means.shape[1] + 1) return {Solver::ridge};
    return {Solver::paper, Solver::affine, Solver::ridge};
  }
};

Attempt choose(Problem& problem, Solver solver, SolverReport& report) {
  if (solver != Solver::automatic) {
    Attempt attempt = problem.attempt(solver);
    report.reason = "asked for";
    if (!finite(attempt.g) || attempt.g.conditioning < problem.hopeless(solver))
      fail(ErrorCode::unfilterable,
           "solver {}: the {} are linearly dependent (conditioning {:.1e}), so it would compute "
           "noise; use --solver auto{}",
           name_of(solver),
           attempt.space == Space::logits ? "mean predictions" : "class means of the features",
           attempt.g.conditioning,
           solver != Solver::paper                       ? " or ridge"
           : problem.calibration->space == Space::logits ? ", logit-affine or ridge"
                                                         : ", affine, logit-affine or ridge");
    if (const std::string why_not = objection(attempt); !why_not.empty())
      report.doubts =
          fmt::format("{}, and auto would take it as a last resort at most: {}", why_not, kMoved);
    return attempt;
  }
  const std::vector<Solver> candidates = problem.candidates();
  for (const Solver candidate : candidates) {
    Attempt attempt = problem.attempt(candidate);
    const std::string why_not = objection(attempt);
    if (why_not.empty() || (candidate == candidates.back() && finite(attempt.g) &&
                            attempt.g.conditioning >= attempt.wanted)) {
      report.reason = candidates.size() == 1
                          ? "more classes than features + 1: the mean predictions are dependent"
                      : report.tried.empty() ? "well conditioned"
                                             : "the first that is well conditioned";
      if (!why_not.empty()) {
        report.reason = "the last resort; " + why_not;
        report.doubts = fmt::format("{}, and no other solver does better: {}", why_not, kMoved);
      }
      return attempt;
    }
    report.tried.push_back(why_not);
  }
  fail(ErrorCode::unfilterable,
       "no solver can tell the forgotten class's mean from the others': {}", report.tried.back());
}

}  // namespace

SolvedDuals solve_duals(const HeadView* head, const Calibration& calibration,
                        std::span<const std::size_t> forget, Solver solver) {
  OUBLI_ASSERT(head != nullptr || calibration.space == Space::logits);
  Problem problem{head, &calibration, forget, calibration.means.shape[0], {}, {}};
  SolvedDuals solved;
  Attempt attempt = choose(problem, solver, solved.report);
  solved.report.chosen = attempt.solver;
  solved.report.conditioning = attempt.g.conditioning;
  solved.report.gain = std::move(attempt.gain);
  solved.report.gain_measured = attempt.gain_measured;
  const Matrix<double> r = residual(attempt.g, *attempt.means, forget);
  // Of two equal means ridge leaves the retained one half way, now a little more, now a little
  // less.
  constexpr double kAlong = 0.25;
  std::vector<bool> goes(r.cols());
  for (const std::size_t c : forget) goes[c] = true;
  for (std::size_t j = 0; j < r.cols(); ++j) {
    double& largest = goes[j] ? solved.report.residual_forgotten : solved.report.residual_retained;
    bool along = false;
    for (std::size_t c = 0; c < r.rows(); ++c) {
      largest = std::max(largest, std::abs(r(c, j)));
      along = along || (!goes[j] && r(c, j) > kAlong);
    }
    if (along) solved.report.moved_along.push_back(j);
  }
  solved.g = std::move(attempt.g);
  solved.space = attempt.space;
  return solved;
}

}  // namespace oubli
