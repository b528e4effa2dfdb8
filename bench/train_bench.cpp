// train_bench train|infer NETWORK SAMPLES [BATCH]: samples per second of processor time of one
// thread, the median over windows. train_bench sgemm: GFLOP/s of a 1024 x 1024 x 1024 product. With
// `wall SECONDS` in front, work done per second of wall-clock time, for runs side by side on own
// cores; with `WORKERS` behind, the sum over as many threads that train a network each, as `oubli
// train --jobs` does. bench/train.py runs it beside PyTorch.
// train_bench layers NETWORK BATCH: the forward pass of each convolution in microseconds, direct in
// NHWC, direct in blocks of 16 channels, by Winograd's algorithm; for the choice in
// oubli/nn/inference.cpp.
// train_bench dense INPUTS UNITS BATCH: the forward pass of a dense layer in microseconds, by sgemm
// and by PackedDense, in turn.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "oubli/base/random.h"
#include "oubli/base/workers.h"
#include "oubli/nn/buffer.h"
#include "oubli/nn/convolution.h"
#include "oubli/nn/dense.h"
#include "oubli/nn/graph.h"
#include "oubli/nn/inference.h"
#include "oubli/nn/kernels.h"
#include "oubli/nn/noise_images.h"
#include "oubli/nn/train.h"

namespace {

using namespace oubli;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

nn::NetworkSpec spec_of(const std::string& name) {
  if (name == "mlp") return nn::mlp_network();
  if (name == "residual") return nn::residual_network();
  if (name.starts_with("cnn")) return nn::cnn_network(std::stoul(name.substr(3)));
  fail(ErrorCode::usage, "train_bench: no network '{}'", name);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

constexpr std::size_t kWindows = 5;

// `once` does `work` units; how many per second?
double rate(double work, bool wall, double seconds, const std::function<void()>& once) {
  once();
  if (wall) {
    const double begin = wall_seconds();
    double done = 0;
    double now = begin;
    while ((now = wall_seconds()) < begin + seconds) {
      once();
      done += work;
    }
    return done / (now - begin);
  }
  std::vector<double> rates;
  for (std::size_t window = 0; window < kWindows; ++window) {
    const double begin = processor_seconds();
    double done = 0;
    do {
      once();
      done += work;
    } while (processor_seconds() < begin + 0.2);
    rates.push_back(done / (processor_seconds() - begin));
  }
  return median(rates);
}

double sgemm_rate(bool wall, double seconds) {
  constexpr std::size_t n = 1024;
  std::vector<float> a(n * n, 0.5F);
  std::vector<float> b(n * n, 0.25F);
  std::vector<float> c(n * n);
  const nn::SingleThread single;
  return rate(2e-9 * n * n * n, wall, seconds, [&] {
    nn::multiply({.m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n}, a.data(), b.data(),
                 c.data());
  });
}

// Over epochs of one training, so that setting up is not counted.
double train_rate(const nn::NetworkSpec& spec, const ImageSet& set, nn::TrainOptions options,
                  bool wall, double seconds) {
  options.epochs = 1000000;
  std::vector<double> rates;
  double begin = 0;
  double last = 0;
  const auto samples = static_cast<double>(set.size());
  std::stop_source stop;
  try {
    (void)train(spec, set, options, stop.get_token(), [&](const nn::EpochReport& epoch) {
      const double now = wall ? wall_seconds() : processor_seconds();
      if (epoch.epoch == 0) {
        begin = now;
      } else {
        rates.push_back(samples / (now - last));
        if (now - begin > (wall ? seconds : 1.0) && rates.size() >= (wall ? 1 : kWindows))
          stop.request_stop();
      }
      last = now;
    });
  } catch (const Error&) {  // the stop
  }
  return wall ? samples * static_cast<double>(rates.size()) / (last - begin) : median(rates);
}

// Microseconds; 0 where the layer has no such form.
double layer_time(nn::Op op, nn::Shape in, nn::Shape out, std::size_t batch, bool blocked,
                  bool winograd) {
  const bool blocks = in.channels % nn::kBlock == 0 && out.channels % nn::kBlock == 0;
  if ((blocked && (!blocks || !nn::has_avx512())) ||
      (winograd && (op.kernel != 3 || op.stride != 1)))
    return 0;
  op.blocked = blocked;
  op.winograd = winograd;
  const nn::SingleThread single;
  nn::Convolution convolution(op, in, out, batch, {}, nullptr);
  nn::Buffer workspace(convolution.workspace_size());
  convolution.set_workspace(workspace.data());
  nn::Buffer home(convolution.home_size());
  convolution.import_weights(
      std::vector<float>(in.channels * out.channels * op.kernel * op.kernel, 0.1F), home.data());
  convolution.prepare(home.data());
  nn::Buffer input(batch * in.size());
  nn::Buffer bias(out.channels);
  nn::Buffer output(batch * out.size());
  return 1e6 / rate(1, false, 0, [&] {
           convolution.forward(input.data(), home.data(), bias.data(), output.data());
         });
}

void print_layers(const nn::NetworkSpec& spec, std::size_t batch) {
  const nn::Graph graph = nn::compile(spec);
  fmt::print("channels, image, window: direct, in blocks, Winograd (us)\n");
  for (const nn::Op& op : graph.ops) {
    if (op.kind != nn::OpKind::conv) continue;
    const nn::Shape in = graph.values[op.input];
    const nn::Shape out = graph.values[op.output];
    fmt::print("{} to {}, {} x {}, {} x {} / {}: {:.0f}, {:.0f}, {:.0f}\n", in.channels,
               out.channels, in.height, in.width, op.kernel, op.kernel, op.stride,
               layer_time(op, in, out, batch, false, false),
               layer_time(op, in, out, batch, true, false),
               layer_time(op, in, out, batch, true, true));
  }
}

// Images stream through from memory.
void print_dense(std::size_t inputs, std::size_t units, std::size_t batch) {
  constexpr std::size_t kFloats = std::size_t{1} << 22;
  const std::size_t batches = std::max<std::size_t>(1, kFloats / inputs / batch);
  nn::Buffer weight(inputs * units);
  nn::Buffer images(batches * batch * inputs);
  nn::Buffer bias(units);
  nn::Buffer scratch(batch * units);
  nn::Buffer output(batch * units);
  RandomStream random(1, task_id("dense"));
  for (nn::Buffer* buffer : {&weight, &images, &bias})
    for (float& value : buffer->span()) value = static_cast<float>(random.uniform());
  const nn::SingleThread single;
  const nn::PackedDense packed(weight.data(), inputs, units);
  const auto time = [&](const auto& forward) {
    return 1e6 / rate(static_cast<double>(batches), false, 0, [&] {
             for (std::size_t b = 0; b < batches; ++b) forward(images.data() + b * batch * inputs);
           });
  };
  const double sgemm = time([&](const float* x) {
    nn::multiply({.transpose_b = true,
                  .m = units,
                  .n = batch,
                  .k = inputs,
                  .lda = inputs,
                  .ldb = inputs,
                  .ldc = batch},
                 weight.data(), x, scratch.data());
    nn::kernels::transpose(scratch.data(), units, batch, bias.data(), true, output.data());
  });
  const double own =
      time([&](const float* x) { packed.forward(x, batch, bias.data(), true, output.data()); });
  fmt::print("{} to {}, batch {}: sgemm {:.1f}, packed {:.1f} us ({:.2f}x)\n", inputs, units, batch,
             sgemm, own, sgemm / own);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    bool wall = false;
    double seconds = 0;
    if (words.size() > 2 && words[0] == "wall") {
      wall = true;
      seconds = std::stod(words[1]);
      words.erase(words.begin(), words.begin() + 2);
    }
    if (words.size() == 1 && words[0] == "sgemm") {
      fmt::print("{}\n", sgemm_rate(wall, seconds));
      return 0;
    }
    if (words.size() < 3) return 2;
    if (words.size() == 4 && words[0] == "dense") {
      if (!nn::has_avx512()) fail(ErrorCode::missing, "train_bench dense: needs AVX-512");
      print_dense(std::stoul(words[1]), std::stoul(words[2]), std::stoul(words[3]));
      return 0;
    }
    const nn::NetworkSpec spec = spec_of(words[1]);
    if (words[0] == "layers") {
      print_layers(spec, std::stoul(words[2]));
      return 0;
    }
    const std::size_t samples = std::stoul(words[2]);
    const ImageSet set = nn::noise_images(spec, samples);
    if (words[0] == "infer") {
      const nn::Network network(spec, 1, 1);
      Matrix<float> images(samples, set.image_size());
      std::ranges::transform(set.pixels, images.data(),
                             [](std::uint8_t p) { return static_cast<float>(p) / 255.0F; });
      fmt::print("{}\n", rate(static_cast<double>(samples), wall, seconds,
                              [&] { (void)network.logits(images); }));
      return 0;
    }
    nn::TrainOptions options;
    options.batch = words.size() > 3 ? std::stoul(words[3]) : 32;
    const std::size_t workers = words.size() > 4 ? std::stoul(words[4]) : 1;
    std::vector<double> rates(workers);
    run_tasks(workers, static_cast<unsigned>(workers), [&](std::size_t worker, unsigned) {
      nn::TrainOptions own = options;
      own.model = worker;
      rates[worker] = train_rate(spec, set, own, wall, seconds);
    });
    fmt::print("{}\n", std::reduce(rates.begin(), rates.end()));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_bench: {}\n", error.what());
    return 1;
  }
}
