#include "oubli/filtration/filtration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "oubli/base/random.h"
#include "oubli/filtration/class_means.h"
#include "oubli/filtration/mean_identity.h"
#include "oubli/filtration/test_example.h"

namespace oubli {
namespace {

// B_z A^{-1} as the paper writes it, in long double by Gauss-Jordan: the oracle.
Matrix<double> paper_formula(const Matrix<double>& A_transposed, const Classes& forget,
                             const Classes& retained, const Matrix<double>& z) {
  const std::size_t k = A_transposed.rows();
  std::vector<std::vector<long double>> work(k, std::vector<long double>(2 * k));
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < k; ++j) work[i][j] = static_cast<long double>(A_transposed(j, i));
    work[i][k + i] = 1;
  }
  for (std::size_t col = 0; col < k; ++col) {
    std::size_t pivot = col;
    for (std::size_t i = col; i < k; ++i)
      if (std::abs(work[i][col]) > std::abs(work[pivot][col])) pivot = i;
    std::swap(work[pivot], work[col]);
    const long double scale = work[col][col];
    for (auto& value : work[col]) value /= scale;
    for (std::size_t i = 0; i < k; ++i) {
      if (i == col) continue;
      const long double factor = work[i][col];
      for (std::size_t j = 0; j < 2 * k; ++j) work[i][j] -= factor * work[col][j];
    }
  }
  Matrix<double> F(retained.size(), k);
  for (std::size_t i = 0; i < retained.size(); ++i)
    for (std::size_t j = 0; j < k; ++j) {
      long double sum = 0;
      for (std::size_t l = 0; l < k; ++l) {
        const auto at = std::ranges::find(forget, l);
        const double b = at != forget.end() ? z(static_cast<std::size_t>(at - forget.begin()), i)
                                            : A_transposed(l, retained[i]);
        sum += static_cast<long double>(b) * work[l][k + j];
      }
      F(i, j) = static_cast<double>(sum);
    }
  return F;
}

// z as section 1 of docs/method.md defines it, straight from A.
Matrix<double> target_by_definition(const Matrix<double>& A_transposed, const Classes& forget,
                                    const Classes& retained, const Target& target) {
  Matrix<double> z(forget.size(), retained.size());
  double block_mean = 0;
  for (const std::size_t j : retained)
    for (const std::size_t i : retained) block_mean += A_transposed(j, i);
  block_mean /= static_cast<double>(retained.size() * retained.size());
  for (std::size_t n = 0; n < forget.size(); ++n) {
    RandomStream random(target.seed, task_id("randomization target", {target.model, forget[n]}));
    double own_mean = 0;
    for (const std::size_t i : retained) own_mean += A_transposed(forget[n], i);
    own_mean /= static_cast<double>(retained.size());
    for (std::size_t i = 0; i < retained.size(); ++i) {
      const double pi_a = A_transposed(forget[n], retained[i]);
      if (target.method == Method::naive) z(n, i) = pi_a;
      if (target.method == Method::normalization) z(n, i) = pi_a - own_mean + block_mean;
      if (target.method == Method::randomization) z(n, i) = random.normal();
      if (target.method == Method::custom) z(n, i) = target.custom(n, i);
    }
  }
  return z;  // zeroing: 0
}

TEST(Filtration, RankFormEqualsThePapersFormula) {
  const Matrix<double> custom(2, 5, {1, 2, 3, 4, 5, -1, -2, -3, -4, -5});
  for (const bool bias : {false, true})
    for (const Classes& forget : {Classes{0}, Classes{4, 1}}) {
      const Example e = make_example(7, 12, bias);
      const ClassMeans means = e.means();
      const Matrix<double> A_t = logits_of(e.head(), means.means());
      for (const Method method : {Method::naive, Method::normalization, Method::randomization,
                                  Method::zeroing, Method::custom}) {
        if (method == Method::custom && forget.size() == 1) continue;
        const Target target{method, 9, 2, custom};
        const auto f =
            Filtration::solve(e.head(), feature_calibration(means), forget, Solver::paper);
        const Classes& retained = f.split().retained;
        const Matrix<double> F = paper_formula(A_t, forget, retained,
                                               target_by_definition(A_t, forget, retained, target));
        expect_near(f.logit_filter(target)->matrix(), F, 1e-11);
        // W_z = F W, b_z = F b
        const NewHead head = f.head_filter(e.head(), target).apply(e.head());
        Matrix<double> FW(retained.size(), 12);
        for (std::size_t i = 0; i < retained.size(); ++i)
          for (std::size_t j = 0; j < 7; ++j)
            for (std::size_t d = 0; d < 12; ++d) FW(i, d) += F(i, j) * e.W(j, d);
        expect_near(to_matrix(head.weights.view("W_z")), FW, 1e-11);
        EXPECT_EQ(head.bias.has_value(), bias) << "a bias-free head stays bias-free";
        for (std::size_t i = 0; bias && i < retained.size(); ++i) {
          double Fb = 0;
          for (std::size_t j = 0; j < 7; ++j) Fb += F(i, j) * e.b[j];
          EXPECT_NEAR(to_vector(head.bias->view("b_z"))[i], Fb, 1e-11);
        }
      }
    }
}

TEST(Filtration, LogitMeansAndFeatureMeansGiveTheSameFilter) {
  const Example e = make_example(6, 9, true);
  const ClassMeans features = e.means();
  ClassMeans logits(6, 6);
  logits.add(e.logits().view(), e.labels);
  const Calibration from_logits{.space = Space::logits,
                                .means = tensor_view(logits.means().view(), "A")};
  const Classes forget{2, 5};
  for (const Solver solver : {Solver::paper, Solver::logit_affine}) {
    const auto a = Filtration::solve(e.head(), feature_calibration(features), forget, solver);
    const auto b = Filtration::solve_on_logits(from_logits, forget, solver);
    expect_near(a.logit_filter({})->matrix(), b.logit_filter({})->matrix(), 1e-9);
  }
}

// The bound of section 3, fact 1, for two float32 heads that agree in exact arithmetic.
void expect_same_softmax_and_labels(const Matrix<double>& a, const Matrix<double>& b,
                                    double bound) {
  for (std::size_t n = 0; n < a.rows(); ++n) {
    const double shift = a(n, 0) - b(n, 0);
    for (std::size_t i = 0; i < a.cols(); ++i) EXPECT_NEAR(a(n, i) - b(n, i), shift, bound);
    const auto top = [n](const Matrix<double>& m) {
      return std::ranges::max_element(m.row(n)) - m.row(n).begin();
    };
    EXPECT_EQ(top(a), top(b));
  }
}

TEST(Filtration, NormalizationEqualsNaiveAfterSoftmaxForEverySolver) {
  struct Case {
    Example example;
    std::vector<Solver> solvers;
  };
  const std::vector<Case> cases{
      {make_example(8, 20, false),
       {Solver::paper, Solver::affine, Solver::logit_affine, Solver::ridge}},
      {make_example(8, 20, true),
       {Solver::paper, Solver::affine, Solver::logit_affine, Solver::ridge}},
      {sum_zero_example(8, 20),
       {Solver::affine, Solver::logit_affine, Solver::ridge, Solver::automatic}},
      {make_example(40, 10, true),
       {Solver::ridge, Solver::automatic}}};  // more classes than features
  for (const Case& c : cases) {
    const ClassMeans means = c.example.means();
    for (const Classes& forget : {Classes{3}, Classes{1, 6, 2}})
      for (const Solver solver : c.solvers) {
        const HeadView head = c.example.head();
        const auto calibration = feature_calibration(means);
        const NewHead naive = plan_filtration(head, {}, forget, {Method::naive}).filter.apply(head);
        const NewHead normalized =
            plan_filtration(head, calibration, forget, {}, solver).filter.apply(head);
        expect_same_softmax_and_labels(logits_after(c.example, naive),
                                       logits_after(c.example, normalized), 1e-9);
      }
  }
}

TEST(Filtration, MeanIdentityHoldsForEverySolverMethodAndType) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const bool transposed : {false, true}) {
      const Example e = make_example(9, 14, true);
      const ClassMeans means = e.means();
      // The head as a file would hold it: rounded, perhaps transposed, scaled like a Gemm.
      Matrix<double> stored = e.W;
      if (transposed) {
        stored = Matrix<double>(14, 9);
        for (std::size_t j = 0; j < 9; ++j)
          for (std::size_t d = 0; d < 14; ++d) stored(d, j) = e.W(j, d);
      }
      Tensor W{type, {stored.rows(), stored.cols()}, std::vector<std::byte>(126 * size_of(type))};
      encode(type, stored.flat(), W.bytes);
      const Tensor b = to_tensor(e.b, type);
      const HeadView head{W.view("W"), transposed, 0.5, b.view("b"), 2.0};
      for (const Solver solver :
           {Solver::paper, Solver::affine, Solver::logit_affine, Solver::ridge})
        for (const Method method : {Method::naive, Method::normalization, Method::randomization,
                                    Method::zeroing, Method::centre}) {
          const auto p =
              plan_filtration(head, feature_calibration(means), Classes{0, 7}, {method, 4}, solver);
          const NewHead next = p.filter.apply(head);
          const auto check = check_mean_identity(head, view_of(next, head), p.filter,
                                                 tensor_view(means.means().view(), "m"));
          EXPECT_TRUE(check.holds()) << name_of(solver) << ' ' << name_of(method) << ' '
                                     << name_of(type) << ": ratio " << check.largest_ratio;
          EXPECT_EQ(check.classes_checked, 9u);
        }
    }
}

TEST(Filtration, MeanIdentityNoticesAWrongHead) {
  const Example e = make_example(5, 8, true);
  const ClassMeans means = e.means();
  const auto p = plan_filtration(e.head(), feature_calibration(means), Classes{1}, {});
  NewHead next = p.filter.apply(e.head());
  Matrix<double> W = to_matrix(next.weights.view("W"));
  W(2, 3) += 1e-9;
  next.weights = to_tensor(MatrixView<const double>(W));
  EXPECT_FALSE(check_mean_identity(e.head(), view_of(next, e.head()), p.filter,
                                   tensor_view(means.means().view(), "m"))
                   .holds());
}

TEST(Filtration, RetainedMeansStayAndForgottenOnesGoToTheTarget) {
  const Example e = make_example(6, 10, true);
  const ClassMeans means = e.means();
  const Matrix<double> z(1, 5, {5, 4, 3, 2, 1});
  for (const Solver solver : {Solver::paper, Solver::affine, Solver::logit_affine}) {  // r = 0
    const auto p = plan_filtration(e.head(), feature_calibration(means), Classes{2},
                                   {Method::custom, 0, 0, z}, solver);
    EXPECT_LT(p.solver->residual_forgotten, 1e-10);
    EXPECT_LT(p.solver->residual_retained, 1e-10);
    const NewHead next = p.filter.apply(e.head());
    const Matrix<double> after = logits_of(view_of(next, e.head()), means.means());
    const Matrix<double> before = logits_of(e.head(), means.means());
    for (std::size_t j = 0; j < 6; ++j)
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_NEAR(after(j, i), j == 2 ? z(0, i) : before(j, i < 2 ? i : i + 1), 1e-9);
  }
  // Ridge is exact on the forgotten class for any number of classes, and nearly so on the others.
  const Example many = make_example(200, 20, true);
  const ClassMeans many_means = many.means();
  const auto p = plan_filtration(many.head(), feature_calibration(many_means), Classes{7, 100}, {});
  EXPECT_EQ(p.solver->chosen, Solver::ridge);
  EXPECT_LT(p.solver->residual_forgotten, 1e-10);
  EXPECT_GT(p.solver->residual_retained, 1e-3) << "or r = 0 was possible after all";
}

TEST(Filtration, ThreeRequestsFromStoredMeansEqualRedoingEachFromData) {
  for (const Solver solver : {Solver::automatic, Solver::paper, Solver::affine, Solver::ridge})
    for (const Method method :
         {Method::naive, Method::normalization, Method::zeroing, Method::centre}) {
      Example e = make_example(9, 16, true);
      ClassMeans all = e.means();
      Matrix<double> stored = all.means();
      for (const std::size_t c : {4U, 0U, 5U}) {
        // from data: the samples of classes still there, labels as the current head numbers them
        ClassMeans fresh(e.W.rows(), 16);
        fresh.add(e.x.view(), e.labels);
        const auto from_data =
            plan_filtration(e.head(), feature_calibration(fresh), Classes{c}, {method}, solver)
                .filter.apply(e.head());
        const Calibration kept{.space = Space::features,
                               .means = tensor_view(MatrixView<const double>(stored), "stored"),
                               .within_variance = fresh.within_variance()};
        const auto from_stored =
            plan_filtration(e.head(), kept, Classes{c}, {method}, solver).filter.apply(e.head());
        expect_near(to_matrix(from_data.weights.view("a")),
                    to_matrix(from_stored.weights.view("b")), 1e-9);

        // the next step's model, data and stored means
        Matrix<double> next_stored(stored.rows() - 1, 16);
        for (std::size_t j = 0, row = 0; j < stored.rows(); ++j)
          if (j != c) std::ranges::copy(stored.row(j), next_stored.row(row++).begin());
        stored = next_stored;
        Example next{to_matrix(from_stored.weights.view("W")),
                     to_vector(from_stored.bias->view("b")),
                     {},
                     {}};
        std::vector<float> rows;
        for (std::size_t i = 0; i < e.labels.size(); ++i) {
          if (e.labels[i] == c) continue;
          rows.insert(rows.end(), e.x.row(i).begin(), e.x.row(i).end());
          next.labels.push_back(e.labels[i] > c ? e.labels[i] - 1 : e.labels[i]);
        }
        next.x = Matrix<float>(next.labels.size(), 16, rows);
        e = next;
      }
    }
}

// Section 3, fact 3: where one by one and all at once agree.
TEST(Filtration, OneByOneAgainstAllAtOnce) {
  const Example e = make_example(8, 15, true);
  const ClassMeans means = e.means();
  const auto one_by_one = [&](Method method, Solver solver) {
    Example current = e;
    Matrix<double> m = means.means();
    for (const std::size_t c : {6U, 2U}) {  // descending, so that numbers need no translation
      const Calibration calibration{.space = Space::features,
                                    .means = tensor_view(MatrixView<const double>(m), "m"),
                                    .within_variance = means.within_variance()};
      const NewHead next =
          plan_filtration(current.head(), calibration, Classes{c}, {method}, solver)
              .filter.apply(current.head());
      current.W = to_matrix(next.weights.view("W"));
      current.b = to_vector(next.bias->view("b"));
      Matrix<double> kept(m.rows() - 1, 15);
      for (std::size_t j = 0, row = 0; j < m.rows(); ++j)
        if (j != c) std::ranges::copy(m.row(j), kept.row(row++).begin());
      m = kept;
    }
    return current.logits();
  };
  const auto at_once = [&](Method method, Solver solver) {
    return logits_after(
        e, plan_filtration(e.head(), feature_calibration(means), Classes{2, 6}, {method}, solver)
               .filter.apply(e.head()));
  };
  for (const Solver solver : {Solver::paper, Solver::affine, Solver::ridge}) {
    expect_near(one_by_one(Method::naive, solver), at_once(Method::naive, solver), 1e-9);
    expect_near(one_by_one(Method::centre, solver), at_once(Method::centre, solver), 1e-9);
    expect_same_softmax_and_labels(one_by_one(Method::normalization, solver),
                                   at_once(Method::normalization, solver), 1e-9);
  }
  expect_near(one_by_one(Method::zeroing, Solver::paper), at_once(Method::zeroing, Solver::paper),
              1e-9);
}

TEST(Filtration, NaiveCopiesTheRetainedRowsBitForBit) {
  const Example e = make_example(5, 33, true);
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Tensor W{type, {5, 33}, std::vector<std::byte>(5 * 33 * size_of(type))};
    encode(type, e.W.flat(), W.bytes);
    const HeadView head{W.view("W"), false, 1, {}, 1};
    const NewHead next =
        plan_filtration(head, {}, Classes{0, 3}, {Method::naive}).filter.apply(head);
    std::vector<std::byte> expected;
    for (const std::size_t j : {1U, 2U, 4U})
      expected.insert(expected.end(),
                      W.bytes.begin() + static_cast<std::ptrdiff_t>(j * 33 * size_of(type)),
                      W.bytes.begin() + static_cast<std::ptrdiff_t>((j + 1) * 33 * size_of(type)));
    EXPECT_EQ(next.weights.bytes, expected);
    EXPECT_FALSE(next.bias.has_value());
  }
}

TEST(Filtration, FeatureSolversAddABiasAndSaySo) {
  const Example e = make_example(5, 8, false);
  const ClassMeans means = e.means();
  const auto affine =
      plan_filtration(e.head(), feature_calibration(means), Classes{0}, {}, Solver::affine);
  EXPECT_TRUE(affine.filter.apply(e.head()).bias_added);
  const auto paper =
      plan_filtration(e.head(), feature_calibration(means), Classes{0}, {}, Solver::paper);
  EXPECT_FALSE(paper.filter.apply(e.head()).bias_added);
}

TEST(Filtration, AffineDoesNotSeeTranslationsAndRidgeTendsToIt) {
  const Example e = make_example(6, 11, true);
  const Matrix<double> m = e.means().means();
  Matrix<double> moved = m;
  for (std::size_t j = 0; j < 6; ++j)
    for (std::size_t d = 0; d < 11; ++d) moved(j, d) += 10.0 * static_cast<double>(d);
  const Classes forget{1, 3};
  const DualFunctions g = solve_affine(tensor_view(m.view(), "m"), forget);
  expect_near(g.u, solve_affine(tensor_view(MatrixView<const double>(moved), "m"), forget).u,
              1e-10);
  expect_near(g.u, solve_ridge(tensor_view(m.view(), "m"), forget, 1e-7).u, 1e-6);
}

TEST(Filtration, RidgeIsTheConstrainedLeastSquaresOptimum) {
  // Perturbing the solution inside the constraint set must not lower the objective.
  const Example e = make_example(60, 8, true);
  const Matrix<double> m = e.means().means();
  const Classes forget{4};
  const double sigma2 = 0.25, lambda = 0.1 * 60 * sigma2;
  const DualFunctions g = solve_ridge(tensor_view(m.view(), "m"), forget, sigma2);
  const auto objective = [&](const std::vector<double>& u, double beta) {
    double sum = 0;
    for (std::size_t j = 0; j < 60; ++j) {
      double value = beta;
      for (std::size_t d = 0; d < 8; ++d) value += u[d] * m(j, d);
      if (j != 4) sum += value * value;
    }
    for (const double value : u) sum += lambda * value * value;
    return sum;
  };
  const std::vector<double> u(g.u.row(0).begin(), g.u.row(0).end());
  const double best = objective(u, g.beta[0]);
  RandomStream random(8, 0);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> other = u;
    double beta = g.beta[0];
    for (std::size_t d = 0; d < 8; ++d) {
      const double step = 0.01 * random.normal();
      other[d] += step;
      beta -= step * m(4, d);  // keeps g(m_c) = 1
    }
    EXPECT_GE(objective(other, beta), best);
  }
}

TEST(Filtration, AutoChoosesByCondition) {
  const auto chosen = [](const Example& e) {
    const ClassMeans means = e.means();
    return plan_filtration(e.head(), feature_calibration(means), Classes{1}, {}).solver->chosen;
  };
  EXPECT_EQ(chosen(make_example(8, 20, true)), Solver::paper);
  EXPECT_EQ(chosen(make_example(30, 8, true)), Solver::ridge);
  Example exactly_zero = make_example(8, 20, false);  // rows sum to zero: A is singular
  for (std::size_t d = 0; d < 20; ++d) {
    double sum = 0;
    for (std::size_t j = 0; j < 8; ++j) sum += exactly_zero.W(j, d);
    for (std::size_t j = 0; j < 8; ++j) exactly_zero.W(j, d) -= sum / 8;
  }
  EXPECT_EQ(chosen(exactly_zero), Solver::affine);
}

TEST(Filtration, GainIsMeasuredOnTheSample) {
  const Example e = make_example(5, 12, true);
  const ClassMeans means = e.means();
  Calibration calibration = feature_calibration(means);
  calibration.sample = tensor_view(MatrixView<const float>(e.x), "x");
  calibration.sample_labels = e.labels;
  for (const Solver solver : {Solver::paper, Solver::affine, Solver::logit_affine, Solver::ridge}) {
    const auto p = plan_filtration(e.head(), calibration, Classes{2}, {}, solver);
    ASSERT_TRUE(p.solver->gain_measured);
    double sum = 0;  // straight from the definition
    for (std::size_t i = 0; i < e.x.rows(); ++i) {
      double g = p.filter.beta[0], mean = p.filter.beta[0];
      for (std::size_t d = 0; d < 12; ++d) {
        g += p.filter.u(0, d) * double{e.x(i, d)};
        mean += p.filter.u(0, d) * means.means()(e.labels[i], d);
      }
      sum += (g - mean) * (g - mean);
    }
    EXPECT_NEAR(p.solver->gain[0], std::sqrt(sum / static_cast<double>(e.x.rows())), 1e-10);
  }
}

std::string error_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Filtration, ImpossibleRequestsAreRefused) {
  const Example e = make_example(4, 6, true);
  const ClassMeans means = e.means();
  const auto ask = [&](Classes forget, Target target = {}) {
    return [&e, &means, forget, target] {
      (void)plan_filtration(e.head(), feature_calibration(means), forget, target);
    };
  };
  error_of(ask({}), ErrorCode::usage);
  error_of(ask({4}), ErrorCode::usage);
  error_of(ask({1, 1}), ErrorCode::usage);
  error_of(ask({0, 1, 2}), ErrorCode::unfilterable);
  const Matrix<double> wrong(1, 2);
  error_of(ask({0}, {Method::custom, 0, 0, wrong}), ErrorCode::bad_input);
  error_of([&] { (void)plan_filtration(e.head(), {}, Classes{0}, {}); }, ErrorCode::usage);
  const Matrix<double> other(4, 5);
  error_of(
      [&] {
        (void)plan_filtration(e.head(), Calibration{.means = tensor_view(other.view(), "m")},
                              Classes{0}, {});
      },
      ErrorCode::bad_input);
}

TEST(Filtration, ASingularMatrixUnderThePapersSolverNamesTheOthers) {
  Example e = make_example(6, 10, false);
  for (std::size_t d = 0; d < 10; ++d) e.W(3, d) = e.W(2, d);  // two equal rows: A is singular
  const ClassMeans means = e.means();
  const std::string message = error_of(
      [&] {
        (void)plan_filtration(e.head(), feature_calibration(means), Classes{0}, {}, Solver::paper);
      },
      ErrorCode::unfilterable);
  EXPECT_NE(message.find("affine"), std::string::npos);
  EXPECT_NE(message.find("ridge"), std::string::npos);
}

TEST(Filtration, CentreMakesTheMeanLogitConstant) {
  const Example e = make_example(6, 10, true);
  const NewHead next =
      plan_filtration(e.head(), {}, Classes{5}, {Method::centre}).filter.apply(e.head());
  const Matrix<double> after = logits_after(e, next);
  for (std::size_t n = 0; n < after.rows(); ++n)
    EXPECT_NEAR(std::accumulate(after.row(n).begin(), after.row(n).end(), 0.0), 0, 1e-12 * 100);
}

}  // namespace
}  // namespace oubli
