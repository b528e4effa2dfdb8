#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oubli/nn/graph.h"

namespace oubli::nn {

// All of oneDNN is behind this header: convolutions, matrix products, and its threads.

// While it lives, oneDNN works on the calling thread alone, and numbers too small for the normal
// range count as zero (they cost a hundred times more to compute with, and dying momenta become
// such numbers).
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int threads_ = 0;
  unsigned control_ = 0;
};

// C = op(A) op(B) + beta C, row-major; op transposes if asked. op(A) is m x k, op(B) k x n.
struct Product {
  bool transpose_a = false;
  bool transpose_b = false;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  std::size_t lda = 0;
  std::size_t ldb = 0;
  std::size_t ldc = 0;
  float beta = 0;
};
void multiply(const Product& product, const float* a, const float* b, float* c);

// Whether oneDNN uses AVX-512 here, as Op::winograd, Op::blocked and Op::packed need.
[[nodiscard]] bool has_avx512();
// The instructions it uses, "avx2" or another: results differ in their last digits between them.
[[nodiscard]] std::string instruction_set();

// A convolution of `batch` images (NHWC, or as the op says), with bias, sum and relu if the op says
// so. Weights live in a layout of oneDNN's choice, `home`: the one in which their gradient arrives.
class Convolution {
 public:
  struct Use {
    bool weight_gradient = false;
    bool input_gradient = false;
  };
  // `like` (may be null) is a convolution of another batch size whose home layout to share.
  Convolution(const Op& op, Shape in, Shape out, std::size_t batch, Use use,
              const Convolution* like);
  ~Convolution();
  Convolution(Convolution&&) noexcept;

  // Floats of working memory that it needs while it runs, and where they are: several may share it.
  [[nodiscard]] std::size_t workspace_size() const;
  void set_workspace(float* workspace);
  // Elements of the home layout, padding included; the padding is and stays zero.
  [[nodiscard]] std::size_t home_size() const;
  // To and from filters x channels x k x k.
  void import_weights(std::span<const float> plain, float* home) const;
  void export_weights(const float* home, std::span<float> plain) const;

  // To be called after the weights at `home` have changed.
  void prepare(const float* home);
  // `home` as in prepare(). bias may be null if the op has none.
  void forward(const float* input, const float* home, const float* bias, float* output);
  void backward_input(const float* output_gradient, const float* home, float* input_gradient);
  // That of the bias is not oneDNN's, which is slower than kernels::sums_in_order.
  void backward_weights(const float* input, const float* output_gradient, float* home_gradient);

  // oneDNN's names of the kernels in use: none may be a reference implementation.
  [[nodiscard]] std::vector<std::string> kernels() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace oubli::nn
