// onnx_bench MODEL SAMPLES: how long ONNX Runtime takes for one pass over SAMPLES inputs that lie
// in memory, by the fastest of four ways: batches of 8 and 32, with its own threads on all cores or
// with batches side by side. Loading the model is not counted. Prints JSON: the seconds by the
// clock and of the processor for each, and of the fastest.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <vector>

#include "oubli/base/count.h"
#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/base/workers.h"
#include "oubli/onnx/model.h"
#include "oubli/runtime/onnx_runtime.h"

namespace {

using namespace oubli;

struct Seconds {
  double wall, processor;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Seconds one_pass(const onnx::Model& model, std::size_t samples, std::size_t batch,
                 bool side_by_side) {
  const onnx::ValueInfo& input = model.graph().inputs.front();
  std::vector<std::size_t> shape{batch};
  for (auto dim = input.shape->begin() + 1; dim != input.shape->end(); ++dim)
    shape.push_back(static_cast<std::size_t>(dim->value.value()));
  std::vector<float> values(element_count(shape, "input"));
  RandomStream random(1, task_id("onnx bench"));
  for (float& value : values) value = static_cast<float>(random.uniform());
  const OnnxSession::Input in{input.name,
                              {DType::f32, shape, std::as_bytes(std::span(values)), "input"}};
  const std::vector<std::string> outputs{model.graph().outputs.front().name};
  const OnnxSession session(OnnxRuntime::open(), model.bytes(), model.folder(), model.what(),
                            side_by_side ? 1 : available_cores());
  const double begin = now(), processor_begin = processor_now();
  run_tasks((samples + batch - 1) / batch, side_by_side ? available_cores() : 1,
            [&](std::size_t, unsigned) { (void)session.run(std::span(&in, 1), outputs); });
  return {now() - begin, processor_now() - processor_begin};
}

void measure(const char* path, const char* count) {
  const onnx::Model model{std::filesystem::path(path)};
  const auto samples = parse_count(count, 1, 1000000);
  if (!samples) fail(ErrorCode::usage, "{}: wanted a number of samples", count);
  Seconds best{HUGE_VAL, HUGE_VAL};
  fmt::print("{{");
  for (const std::size_t batch : {std::size_t{8}, std::size_t{32}})
    for (const bool side_by_side : {false, true}) {
      const Seconds taken = one_pass(model, *samples, batch, side_by_side);
      fmt::print("\"batch {}, {}\": [{:.3f}, {:.3f}], ", batch,
                 side_by_side ? "side by side" : "own threads", taken.wall, taken.processor);
      best = {std::min(best.wall, taken.wall), std::min(best.processor, taken.processor)};
    }
  fmt::print("\"best\": [{:.3f}, {:.3f}]}}\n", best.wall, best.processor);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) fail(ErrorCode::usage, "usage: onnx_bench MODEL SAMPLES");
    measure(argv[1], argv[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "onnx_bench: {}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
