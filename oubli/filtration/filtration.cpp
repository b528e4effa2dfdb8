#include "oubli/filtration/filtration.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "oubli/array/row_blocks.h"

namespace oubli {
namespace {

void check_means(const Calibration& calibration, std::size_t classes, std::size_t dimensions) {
  const TensorView& means = calibration.means;
  if (means.rank() != 2 || means.shape[0] != classes || means.shape[1] != dimensions)
    fail(ErrorCode::bad_input, "{}: {}, wanted {} classes x {} {}", means.what, describe(means),
         classes, dimensions, name_of(calibration.space));
}

std::vector<std::string> warnings_of(const HeadView& head, const Calibration& calibration,
                                     const Target& target, const FiltrationPlan& plan) {
  std::vector<std::string> warnings;
  if (plan.method != target.method)
    warnings.push_back(fmt::format("method {} was used, not {}: {}", name_of(plan.method),
                                   name_of(target.method), plan.explanation->too_few));
  if (!plan.solver->doubts.empty()) warnings.push_back(plan.solver->doubts);
  if (plan.solver->chosen == Solver::ridge && !std::isfinite(calibration.within_variance))
    warnings.push_back(
        "how far the data scatters within classes is not known, so solver ridge guesses its "
        "penalty: the result is not what the data itself would give");
  if (plan.method == Method::normalization) return warnings;
  const bool explained = plan.method == Method::explained;
  if (head.classes() > head.features() + 1)
    warnings.push_back(
        fmt::format("{} classes and {} features: method {} disturbs retained classes here, "
                    "normalization does not",
                    head.classes(), head.features(), name_of(target.method)));
  if (const auto& along = plan.solver->moved_along; !along.empty()) {
    std::vector<std::size_t> shown(along.begin(),
                                   along.begin() + std::min<std::ptrdiff_t>(std::ssize(along), 10));
    warnings.push_back(fmt::format(
        "retained class {}{}: its mean is that of a forgotten class, or nearly. Method {} takes it "
        "along{}; normalization keeps it",
        fmt::join(shown, ", "), along.size() > shown.size() ? ", ..." : "", name_of(target.method),
        explained ? "" : ", and the new model knows it less or not at all"));
  }
  if (explained) return warnings;  // nobody else knows where the mean went
  // W_z m + b_z = z has one solution. Where randomization sends the mean is drawn, but small beside
  // the logits, so that 0 will do.
  const std::size_t equations = plan.filter.split.retained.size() - (plan.centred ? 1 : 0);
  if (equations >= head.features())
    warnings.push_back(fmt::format(
        "{} new logits of {} features: whoever knows{} where method {} sends the forgotten mean "
        "can compute that mean from the new model; normalization does not give it away",
        plan.filter.split.retained.size(), head.features(),
        target.method == Method::randomization ? " about" : "", name_of(target.method)));
  return warnings;
}

}  // namespace

Filtration Filtration::solve(const HeadView& head, const Calibration& calibration,
                             std::span<const std::size_t> forget, Solver solver) {
  validate(head);
  if (calibration.space == Space::logits) {
    check_means(calibration, head.classes(), head.classes());
    return solve_on_logits(&head, calibration, forget, solver);
  }
  check_means(calibration, head.classes(), head.features());
  Filtration f(split_for_deletion(head.classes(), forget));
  f.duals_ = solve_duals(&head, calibration, forget, solver);
  const Matrix<double> m_C = pick_rows(calibration.means, forget);
  f.forgotten_logit_means_ = logits_of(head, m_C);
  // s_c = w_R . (m_R - m_c) with the mean retained row w_R and the mean m_R of the retained class
  // means; the bias cancels [docs/method.md, eq. 4].
  const Matrix<double> w_R = combine_rows(head, average_of(f.split_));
  const std::vector<double> m_R = rows_mean(calibration.means, f.split_.retained);
  f.shift_.assign(forget.size(), 0);
  for (std::size_t n = 0; n < forget.size(); ++n)
    for (std::size_t i = 0; i < m_R.size(); ++i) f.shift_[n] += w_R(0, i) * (m_R[i] - m_C(n, i));
  return f;
}

Filtration Filtration::solve_on_logits(const Calibration& calibration,
                                       std::span<const std::size_t> forget, Solver solver) {
  return solve_on_logits(nullptr, calibration, forget, solver);
}

Filtration Filtration::solve_on_logits(const HeadView* head, const Calibration& calibration,
                                       std::span<const std::size_t> forget, Solver solver) {
  OUBLI_ASSERT(calibration.space == Space::logits);
  const std::size_t classes = calibration.means.shape.empty() ? 0 : calibration.means.shape[0];
  check_means(calibration, classes, classes);
  Filtration f(split_for_deletion(classes, forget));
  f.duals_ = solve_duals(head, calibration, forget, solver);
  f.forgotten_logit_means_ = pick_rows(calibration.means, forget);
  // s_c = (mean of A over rows and columns R) - (mean of pi a_c) [the paper's formula for z].
  const std::vector<double> a_R = rows_mean(calibration.means, f.split_.retained);
  for (std::size_t n = 0; n < forget.size(); ++n)
    f.shift_.push_back(retained_mean(a_R, f.split_) -
                       retained_mean(f.forgotten_logit_means_.row(n), f.split_));
  return f;
}

Matrix<double> Filtration::offsets(const Target& target) const {
  return target_offsets(target, split_, forgotten_logit_means_, shift_);
}

std::optional<LogitFilter> Filtration::logit_filter(const Target& target) const {
  if (auto filter = filter_without_means(target.method, split_)) return filter;
  if (duals_.space == Space::features) return std::nullopt;
  return LogitFilter{split_, offsets(target), duals_.g.u, duals_.g.beta};
}

HeadFilter Filtration::head_filter(const HeadView& head, const Target& target) const {
  if (const auto filter = logit_filter(target)) return absorb(*filter, head);
  return {split_, offsets(target), duals_.g.u, duals_.g.beta};
}

FiltrationPlan plan_filtration(const HeadView& head, const std::optional<Calibration>& calibration,
                               std::span<const std::size_t> forget, const Target& target,
                               Solver solver, Centring centring) {
  validate(head);
  FiltrationPlan plan;
  plan.method = target.method;
  if (!needs_class_means(target.method)) {
    plan.on_logits =
        filter_without_means(target.method, split_for_deletion(head.classes(), forget));
    plan.filter = absorb(*plan.on_logits, head);
  } else if (!calibration) {
    fail(ErrorCode::usage, "method {} needs class means: give data or a means file",
         name_of(target.method));
  } else {
    const Filtration filtration = Filtration::solve(head, *calibration, forget, solver);
    Target used = target;
    if (target.method == Method::explained) {
      plan.explanation = explain_means(head, *calibration, filtration.split(), target);
      used.explained = plan.explanation->logits;
      if (!plan.explanation->too_few.empty()) used.method = Method::normalization;
    }
    plan.method = used.method;
    plan.filter = filtration.head_filter(head, used);
    plan.on_logits = filtration.logit_filter(used);
    plan.solver = filtration.report();
  }
  plan.row_sum = row_sum_ratio(head);
  plan.centred =
      centring == Centring::by_head ? plan.rows_summed_to_zero() : centring == Centring::always;
  if (plan.centred) {
    plan.filter = centred(plan.filter, head);
    if (plan.on_logits) plan.on_logits = centred(*plan.on_logits);
  }
  if (plan.solver) plan.warnings = warnings_of(head, *calibration, target, plan);
  return plan;
}

}  // namespace oubli
