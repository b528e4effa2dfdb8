// oneDNN 2.6. Its 3.x removes the `desc` structures used here; nothing outside this file knows
// them.
#include "oubli/nn/convolution.h"

#include <dlfcn.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "oubli/base/error.h"
#include "oubli/nn/buffer.h"

namespace oubli::nn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kFloat = memory::data_type::f32;
// Flush to zero, denormals are zero.
constexpr unsigned kFlushBits = 0x8040;

// The OpenMP runtime that oneDNN itself uses, if it uses one. Its thread count is per thread of
// ours.
struct OpenMp {
  int (*get)() = nullptr;
  void (*set)(int) = nullptr;
  OpenMp() {
    get = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    set = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  }
};

const OpenMp& open_mp() {
  static const OpenMp functions;
  return functions;
}

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::dim dim(std::size_t size) { return static_cast<memory::dim>(size); }

// A primitive with its arguments; the memory handles are set before each execution.
class Step {
 public:
  Step() = default;
  Step(const dnnl::primitive& primitive, const std::string& kernel)
      : primitive_(primitive), kernel_(kernel) {}

  void argument(int name, const memory::desc& layout) {
    arguments_.emplace(name, memory(layout, cpu(), nullptr));
  }
  void set(int name, const float* data) {
    // oneDNN's handles are not const; sources are only read
    arguments_.at(name).set_data_handle(const_cast<float*>(data));
  }
  void scratchpad(const memory::desc& layout) {
    scratch_size_ = (layout.get_size() + sizeof(float) - 1) / sizeof(float);
    argument(DNNL_ARG_SCRATCHPAD, layout);
  }
  [[nodiscard]] std::size_t scratch_size() const { return scratch_size_; }
  void run(dnnl::stream& stream) { primitive_.execute(stream, arguments_); }
  [[nodiscard]] const std::string& kernel() const { return kernel_; }

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
  std::string kernel_;
  std::size_t scratch_size_ = 0;
};

}  // namespace

SingleThread::SingleThread() {
  if (open_mp().get != nullptr && open_mp().set != nullptr) {
    threads_ = open_mp().get();
    open_mp().set(1);
  }
#if defined(__SSE__)
  control_ = _mm_getcsr();
  _mm_setcsr(control_ | kFlushBits);
#endif
}

SingleThread::~SingleThread() {
  if (threads_ > 0) open_mp().set(threads_);
#if defined(__SSE__)
  _mm_setcsr(control_);
#endif
}

void multiply(const Product& p, const float* a, const float* b, float* c) {
  const auto status =
      dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', dim(p.m), dim(p.n), dim(p.k),
                 1.0F, a, dim(p.lda), b, dim(p.ldb), p.beta, c, dim(p.ldc));
  if (status != dnnl_success)
    fail(ErrorCode::bug, "oneDNN: sgemm failed with status {}", int{status});
}

bool has_avx512() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (isa & wanted) == wanted;
}

std::string instruction_set() {
  using enum dnnl::cpu_isa;
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  switch (isa) {
    case sse41:
      return "sse4.1";
    case avx:
      return "avx";
    case avx2:
      return "avx2";
    case avx2_vnni:
      return "avx2 vnni";
    case avx512_core:
      return "avx512";
    case avx512_core_vnni:
      return "avx512 vnni";
    case avx512_core_bf16:
      return "avx512 bf16";
    case avx512_core_amx:
      return "avx512 amx";
    default:
      return fmt::format("{:#x}", static_cast<unsigned>(isa));
  }
}

// What all steps of one convolution have in common.
struct ConvolutionShape {
  dnnl::algorithm method;
  memory::desc source, target, bias;  // bias: empty if there is none
  memory::desc weights;               // in any layout
  memory::dims strides, before, after;
};

struct Convolution::State {
  dnnl::stream stream{cpu()};
  memory::desc plain;
  memory::desc home;
  memory::desc forward_layout;
  memory::desc input_layout;     // of the weights, for backward_input
  memory::desc gradient_layout;  // of the weights' gradient
  Step forward;
  std::optional<Step> backward_input;
  std::optional<Step> backward_weights;
  Buffer forward_weights;  // copies in the layouts above, where they differ from home
  Buffer input_weights;
  Buffer gradient;
  bool bias = false;

  void reorder(const memory::desc& from, const float* source, const memory::desc& to,
               float* target) {
    memory source_memory(from, cpu(), const_cast<float*>(source));
    memory target_memory(to, cpu(), target);
    dnnl::reorder(source_memory, target_memory).execute(stream, source_memory, target_memory);
  }
  dnnl::convolution_forward::primitive_desc add_forward(const ConvolutionShape& shape, const Op& op,
                                                        bool for_training);
  void add_weight_gradient(const ConvolutionShape& shape,
                           const dnnl::convolution_forward::primitive_desc& hint);
  void add_input_gradient(const ConvolutionShape& shape,
                          const dnnl::convolution_forward::primitive_desc& hint);
};

namespace {

ConvolutionShape shape_of(const Op& op, Shape in, Shape out, std::size_t batch) {
  using namespace dnnl;
  const Tag layout = op.blocked ? Tag::nChw16c : Tag::nhwc;
  return {
      .method = op.winograd ? algorithm::convolution_winograd : algorithm::convolution_direct,
      .source = {{dim(batch), dim(in.channels), dim(in.height), dim(in.width)}, kFloat, layout},
      .target = {{dim(batch), dim(out.channels), dim(out.height), dim(out.width)}, kFloat, layout},
      .bias = op.bias != kNone ? memory::desc({dim(out.channels)}, kFloat, Tag::x) : memory::desc(),
      .weights = {{dim(out.channels), dim(in.channels), dim(op.kernel), dim(op.kernel)},
                  kFloat,
                  Tag::any},
      .strides = {dim(op.stride), dim(op.stride)},
      .before = {dim(op.pad_top), dim(op.pad_left)},
      .after = {dim(op.pad_bottom), dim(op.pad_right)}};
}

// Made for each use: copies of attributes share their contents.
dnnl::primitive_attr with_own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace

dnnl::convolution_forward::primitive_desc Convolution::State::add_forward(
    const ConvolutionShape& shape, const Op& op, bool for_training) {
  using namespace dnnl;
  primitive_attr attributes = with_own_scratchpad();
  post_ops after_sums;
  if (op.sum) after_sums.append_sum(1.0F);
  if (op.relu) after_sums.append_eltwise(1.0F, algorithm::eltwise_relu, 0.0F, 0.0F);
  attributes.set_post_ops(after_sums);
  const auto kind = for_training ? prop_kind::forward_training : prop_kind::forward_inference;
  convolution_forward::primitive_desc made(
      {kind, shape.method, shape.source, shape.weights, shape.bias, shape.target, shape.strides,
       shape.before, shape.after},
      attributes, cpu());
  forward_layout = made.weights_desc();
  forward = Step(convolution_forward(made), made.impl_info_str());
  forward.argument(DNNL_ARG_SRC, shape.source);
  forward.argument(DNNL_ARG_WEIGHTS, forward_layout);
  if (bias) forward.argument(DNNL_ARG_BIAS, shape.bias);
  forward.argument(DNNL_ARG_DST, shape.target);
  forward.scratchpad(made.scratchpad_desc());
  return made;
}

void Convolution::State::add_weight_gradient(
    const ConvolutionShape& shape, const dnnl::convolution_forward::primitive_desc& hint) {
  using namespace dnnl;
  const convolution_backward_weights::primitive_desc made(
      {shape.method, shape.source, shape.weights, shape.target, shape.strides, shape.before,
       shape.after},
      with_own_scratchpad(), cpu(), hint);
  gradient_layout = made.diff_weights_desc();
  backward_weights = Step(convolution_backward_weights(made), made.impl_info_str());
  backward_weights->argument(DNNL_ARG_SRC, shape.source);
  backward_weights->argument(DNNL_ARG_DIFF_DST, shape.target);
  backward_weights->argument(DNNL_ARG_DIFF_WEIGHTS, gradient_layout);
  backward_weights->scratchpad(made.scratchpad_desc());
}

void Convolution::State::add_input_gradient(const ConvolutionShape& shape,
                                            const dnnl::convolution_forward::primitive_desc& hint) {
  using namespace dnnl;
  const convolution_backward_data::primitive_desc made(
      {shape.method, shape.source, shape.weights, shape.target, shape.strides, shape.before,
       shape.after},
      with_own_scratchpad(), cpu(), hint);
  input_layout = made.weights_desc();
  backward_input = Step(convolution_backward_data(made), made.impl_info_str());
  backward_input->argument(DNNL_ARG_DIFF_DST, shape.target);
  backward_input->argument(DNNL_ARG_WEIGHTS, input_layout);
  backward_input->argument(DNNL_ARG_DIFF_SRC, shape.source);
  backward_input->scratchpad(made.scratchpad_desc());
}

Convolution::Convolution(const Op& op, Shape in, Shape out, std::size_t batch, Use use,
                         const Convolution* like)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.bias = op.bias != kNone;
  const ConvolutionShape shape = shape_of(op, in, out, batch);
  s.plain = memory::desc(shape.weights.dims(), kFloat, Tag::oihw);
  const auto hint = s.add_forward(shape, op, use.weight_gradient || use.input_gradient);
  if (use.weight_gradient) s.add_weight_gradient(shape, hint);
  if (use.input_gradient) s.add_input_gradient(shape, hint);

  // Transformed weights cannot be turned back, nor into those of another batch size.
  s.home = like != nullptr       ? like->state_->home
           : use.weight_gradient ? s.gradient_layout
           : op.winograd         ? s.plain
                                 : s.forward_layout;
  const auto copy_in = [&](const memory::desc& layout) {
    return layout != s.home ? Buffer(layout.get_size() / sizeof(float)) : Buffer();
  };
  s.forward_weights = copy_in(s.forward_layout);
  if (use.weight_gradient) s.gradient = copy_in(s.gradient_layout);
  if (use.input_gradient) s.input_weights = copy_in(s.input_layout);
}

Convolution::~Convolution() = default;
Convolution::Convolution(Convolution&&) noexcept = default;

std::size_t Convolution::workspace_size() const {
  std::size_t size = state_->forward.scratch_size();
  for (const auto* step : {&state_->backward_input, &state_->backward_weights})
    if (*step) size = std::max(size, (*step)->scratch_size());
  return size;
}

void Convolution::set_workspace(float* workspace) {
  state_->forward.set(DNNL_ARG_SCRATCHPAD, workspace);
  for (auto* step : {&state_->backward_input, &state_->backward_weights})
    if (*step) (*step)->set(DNNL_ARG_SCRATCHPAD, workspace);
}

std::size_t Convolution::home_size() const { return state_->home.get_size() / sizeof(float); }

void Convolution::import_weights(std::span<const float> plain, float* home) const {
  state_->reorder(state_->plain, plain.data(), state_->home, home);
}

void Convolution::export_weights(const float* home, std::span<float> plain) const {
  state_->reorder(state_->home, home, state_->plain, plain.data());
}

void Convolution::prepare(const float* home) {
  State& s = *state_;
  if (s.forward_layout != s.home)
    s.reorder(s.home, home, s.forward_layout, s.forward_weights.data());
  if (s.backward_input && s.input_layout != s.home)
    s.reorder(s.home, home, s.input_layout, s.input_weights.data());
}

void Convolution::forward(const float* input, const float* home, const float* bias, float* output) {
  State& s = *state_;
  s.forward.set(DNNL_ARG_SRC, input);
  s.forward.set(DNNL_ARG_WEIGHTS, s.forward_layout == s.home ? home : s.forward_weights.data());
  if (s.bias) s.forward.set(DNNL_ARG_BIAS, bias);
  s.forward.set(DNNL_ARG_DST, output);
  s.forward.run(s.stream);
}

void Convolution::backward_input(const float* output_gradient, const float* home,
                                 float* input_gradient) {
  State& s = *state_;
  s.backward_input->set(DNNL_ARG_DIFF_DST, output_gradient);
  s.backward_input->set(DNNL_ARG_WEIGHTS, s.input_layout == s.home ? home : s.input_weights.data());
  s.backward_input->set(DNNL_ARG_DIFF_SRC, input_gradient);
  s.backward_input->run(s.stream);
}

void Convolution::backward_weights(const float* input, const float* output_gradient,
                                   float* home_gradient) {
  State& s = *state_;
  const bool direct = s.gradient_layout == s.home;
  s.backward_weights->set(DNNL_ARG_SRC, input);
  s.backward_weights->set(DNNL_ARG_DIFF_DST, output_gradient);
  s.backward_weights->set(DNNL_ARG_DIFF_WEIGHTS, direct ? home_gradient : s.gradient.data());
  s.backward_weights->run(s.stream);
  if (!direct) s.reorder(s.gradient_layout, s.gradient.data(), s.home, home_gradient);
}

std::vector<std::string> Convolution::kernels() const {
  std::vector<std::string> names = {state_->forward.kernel()};
  if (state_->backward_weights) names.push_back(state_->backward_weights->kernel());
  if (state_->backward_input) names.push_back(state_->backward_input->kernel());
  return names;
}

}  // namespace oubli::nn
