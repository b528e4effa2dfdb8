// What must not depend on how a head is stored, and what must: places in memory, number types, the
// shape of a bias.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "oubli/array/row_blocks.h"
#include "oubli/base/random.h"
#include "oubli/filtration/filtration.h"
#include "oubli/filtration/mean_identity.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

const std::vector<std::size_t> kForget{1, 3};

Matrix<double> random_matrix(std::size_t rows, std::size_t cols, std::uint64_t seed,
                             double scale = 1) {
  RandomStream random(seed, task_id("storage"));
  Matrix<double> m(rows, cols);
  for (double& value : m.flat()) value = scale * random.normal();
  return m;
}

// The matrix as double, at an address so many bytes behind an aligned one.
class Shifted {
 public:
  Shifted(const Matrix<double>& m, std::size_t shift)
      : storage_(m.flat().size() + 8, 1), rows_(m.rows()), cols_(m.cols()), shift_(shift) {
    std::memcpy(bytes().data(), m.data(), m.flat().size_bytes());
  }
  [[nodiscard]] TensorView view() {
    return {DType::f64, {rows_, cols_}, bytes().first(rows_ * cols_ * sizeof(double)), "shifted"};
  }

 private:
  std::span<std::byte> bytes() {
    return std::as_writable_bytes(std::span(storage_.data(), storage_.rows())).subspan(shift_);
  }
  Matrix<double> storage_;
  std::size_t rows_, cols_, shift_;
};

// While it lives, small blocks from the heap begin `residue` bytes behind a multiple of 64, a
// multiple of 16: blocks of every size are taken, and those freed again that begin there. malloc of
// glibc hands these out first. Where it is another one, addresses vary in some other way.
class HeapAt {
 public:
  explicit HeapAt(std::size_t residue) {
    constexpr std::size_t kLargest = 1024, kStep = 16, kOfEachSize = 24;
    std::vector<Block> free;
    for (std::size_t size = kStep; size <= kLargest; size += kStep)
      for (std::size_t i = 0; i < kOfEachSize; ++i) {
        // malloc keeps 8 bytes of a block for itself: sizes are 8 less than a multiple of 16.
        Block block(static_cast<std::byte*>(::operator new(size - 8)));
        const auto address = reinterpret_cast<std::uintptr_t>(block.get());
        (address % 64 == residue ? free : taken_).push_back(std::move(block));
      }
  }

 private:
  struct Free {
    void operator()(std::byte* block) const { ::operator delete(block); }
  };
  using Block = std::unique_ptr<std::byte, Free>;
  std::vector<Block> taken_;
};

Tensor stored_as(const Matrix<double>& m, DType type) {
  Tensor tensor = to_tensor(m.flat(), type);
  tensor.shape = {m.rows(), m.cols()};
  return tensor;
}

TEST(Storage, ResultsDoNotDependOnAddresses) {
  for (const auto& [classes, features] : {std::pair{5, 8}, {6, 7}, {9, 40}, {37, 41}}) {
    const auto k = static_cast<std::size_t>(classes), p = static_cast<std::size_t>(features);
    const Matrix<double> W = random_matrix(k, p, 1), M = random_matrix(k, p, 2);
    const Matrix<double> A = logits_of({tensor_view(W.view(), "W")}, M);
    for (const auto& [solver, space] : {std::pair{Solver::paper, Space::features},
                                        {Solver::affine, Space::features},
                                        {Solver::ridge, Space::features},
                                        {Solver::paper, Space::logits},
                                        {Solver::logit_affine, Space::logits}}) {
      SCOPED_TRACE(std::string(name_of(solver)) + " " + std::to_string(k));
      std::optional<Tensor> first;
      for (std::size_t shift = 0; shift < 64; shift += 8) {
        Shifted weights(W, shift), means(space == Space::logits ? A : M, 56 - shift);
        const HeapAt heap(shift / 16 * 16);  // heaps differ in where they have room, too
        const FiltrationPlan done =
            plan_filtration({weights.view()}, Calibration{.space = space, .means = means.view()},
                            kForget, {.method = Method::zeroing}, solver);
        const Tensor found = done.filter.apply({weights.view()}).weights;
        if (!first) first = found;
        EXPECT_EQ(found.bytes, first->bytes) << shift;
      }
    }
  }
}

// What the sums read is aligned wherever the numbers stand in a file, first block or not.
TEST(Storage, BlocksOfStoredMatricesAreAligned) {
  const Matrix<double> W = random_matrix(7, 5, 1);
  for (std::size_t shift = 0; shift < 64; shift += 8) {
    Shifted stored(W, shift);
    std::size_t rows = 0;
    const auto visit = [&](std::size_t first, MatrixView<const double> block) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data()) % kMatrixAlignment, 0U) << shift;
      EXPECT_TRUE(std::ranges::equal(block.row(0), W.row(first))) << shift;
      rows += block.rows();
    };
    for_each_row_block(stored.view(), 1, visit, 10);  // two rows at a time
    EXPECT_EQ(rows, W.rows());
  }
}

// Weights and bias of different types, and numbers so small that they are rounded to multiples of
// the smallest one: the identity holds within its bound, and a wrong number is still noticed.
TEST(Storage, TheSelfCheckKnowsWhatEachTypeRounds) {
  const Matrix<double> M = random_matrix(6, 9, 4);
  const auto ratio = [&](DType weights, DType bias, double scale, double spoil) {
    const Tensor W = stored_as(random_matrix(6, 9, 3, scale), weights);
    Tensor b = stored_as(random_matrix(1, 6, 5, scale), bias);
    b.shape = {6};
    HeadView head{W.view("W")};
    head.bias = b.view("b");
    const Calibration known{.means = tensor_view(M.view(), "M")};
    const FiltrationPlan done = plan_filtration(head, known, kForget, {}, Solver::affine);
    NewHead made = done.filter.apply(head);
    if (spoil != 0) {
      std::vector<double> values(made.weights.view("").count());
      decode(weights, made.weights.bytes, values);
      values[0] += spoil;
      encode(weights, values, made.weights.bytes);
    }
    HeadView after{made.weights.view("W_z")};
    after.bias = made.bias->view("b_z");
    return check_mean_identity(head, after, done.filter, known.means, 100).largest_ratio;
  };
  for (const DType weights : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const DType bias : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      EXPECT_LE(ratio(weights, bias, 1, 0), 1) << name_of(weights) << " " << name_of(bias);
      EXPECT_GT(ratio(weights, bias, 1, 0.5), 1) << name_of(weights) << " " << name_of(bias);
    }
  for (const double scale : {1e-4, 1e-5, 1e-6, 1e-7})
    EXPECT_LE(ratio(DType::f16, DType::f16, scale, 0), 1) << scale;
  for (const double scale : {1e-36, 1e-38, 1e-40, 1e-44})
    EXPECT_LE(ratio(DType::f32, DType::f32, scale, 0), 1) << scale;
}

TEST(Storage, ABiasKeepsItsShape) {
  const Tensor W = stored_as(random_matrix(6, 9, 3), DType::f32);
  Tensor b = stored_as(random_matrix(1, 6, 5), DType::f32);  // [1, 6]
  HeadView head{W.view("W")};
  head.bias = b.view("b");
  const NewHead naive =
      plan_filtration(head, std::nullopt, kForget, {.method = Method::naive}).filter.apply(head);
  EXPECT_EQ(naive.bias->shape, (std::vector<std::size_t>{1, 4}));
  b.shape = {2, 3};
  head.bias = b.view("b");
  EXPECT_EQ(error_of([&] { validate(head); }).code(), ErrorCode::bad_input);
}

TEST(Storage, SolversRefuseLogitsThatMustBeDependent) {
  const Matrix<double> W = random_matrix(10, 4, 6), M = random_matrix(10, 4, 7);
  const HeadView head{tensor_view(W.view(), "W")};
  const Matrix<double> A = logits_of(head, M);
  Matrix<float> rounded(10, 10);
  std::ranges::transform(A.flat(), rounded.flat().begin(),
                         [](double v) { return static_cast<float>(v); });
  const TensorView seen = tensor_view(MatrixView<const float>(rounded), "logits");
  for (const Solver solver : {Solver::paper, Solver::logit_affine}) {
    for (const Calibration& known :
         {Calibration{.space = Space::logits, .means = seen},
          Calibration{.space = Space::features, .means = tensor_view(M.view(), "M")}}) {
      const Error error =
          error_of([&] { (void)plan_filtration(head, known, kForget, {}, solver); });
      EXPECT_EQ(error.code(), ErrorCode::unfilterable);
      EXPECT_THAT(error.what(), HasSubstr("10 classes on 4 features"));
    }
    // Without the head, the numbers tell: float32 knows them to seven digits.
    const Error error = error_of([&] {
      (void)Filtration::solve_on_logits({.space = Space::logits, .means = seen}, kForget, solver);
    });
    EXPECT_EQ(error.code(), ErrorCode::unfilterable);
  }
  const FiltrationPlan done =
      plan_filtration(head, Calibration{.space = Space::logits, .means = seen}, kForget, {});
  EXPECT_EQ(done.solver->chosen, Solver::ridge);
}

TEST(Storage, ASolverThatAutoWouldNotTakeIsDoubted) {
  const Matrix<double> W = random_matrix(6, 9, 3);
  const Matrix<double> M = random_matrix(6, 9, 4);
  const Calibration known{.means = tensor_view(M.view(), "M"), .within_variance = 1e6};
  const FiltrationPlan done =
      plan_filtration({tensor_view(W.view(), "W")}, known, kForget, {}, Solver::affine);
  ASSERT_FALSE(done.warnings.empty());
  EXPECT_THAT(done.warnings[0], HasSubstr("gain"));
}

}  // namespace
}  // namespace oubli
