#include "oubli/rivals/layers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/images.h"

namespace oubli {
namespace {

using Eigen::Index;

// Few enough that the patches of a batch fit into cache, many enough that products are worth it.
constexpr std::size_t kBatch = 128;

bool has_weights(const nn::Op& op) {
  return op.kind == nn::OpKind::conv || op.kind == nn::OpKind::dense;
}

// The operations with weights, in order.
std::vector<nn::Op> weighted_ops(const nn::Graph& graph, const std::string& name) {
  std::vector<nn::Op> ops;
  for (const nn::Op& op : graph.ops) {
    if (op.kind == nn::OpKind::batch_norm || (has_weights(op) && op.bias == nn::kNone))
      fail(ErrorCode::usage,
           "{}: this method is written for networks of dense layers and convolutions with biases, "
           "without batch normalisation",
           name);
    if (has_weights(op)) ops.push_back(op);
  }
  return ops;
}

// A window over an image, channels last; a dense layer's is the whole image.
struct Window {
  std::size_t height, width, stride, top, left;
};

// Rows of patches, each channels first and with a last 1, of the image at `from`.
void write_patches(const nn::Shape& in, const nn::Shape& out, const Window& window,
                   const float* from, double* to) {
  for (std::size_t y = 0; y < out.height; ++y)
    for (std::size_t x = 0; x < out.width; ++x) {
      for (std::size_t c = 0; c < in.channels; ++c)
        for (std::size_t i = 0; i < window.height; ++i)
          for (std::size_t j = 0; j < window.width; ++j) {
            // Above and left of the image they wrap to large numbers.
            const std::size_t row = y * window.stride + i - window.top;
            const std::size_t column = x * window.stride + j - window.left;
            *to++ = row < in.height && column < in.width
                        ? static_cast<double>(from[(row * in.width + column) * in.channels + c])
                        : 0;
          }
      *to++ = 1;
    }
}

RowMajorMatrix inputs_of(const nn::Graph& graph, const nn::Op& op, std::span<const float> values) {
  const nn::Shape in = graph.values[op.input], out = graph.values[op.output];
  const Window window = op.kind == nn::OpKind::conv
                            ? Window{op.kernel, op.kernel, op.stride, op.pad_top, op.pad_left}
                            : Window{in.height, in.width, 1, 0, 0};
  const std::size_t images = values.size() / in.size();
  const std::size_t columns = in.channels * window.height * window.width + 1;
  RowMajorMatrix rows(eigen_index(images * out.pixels()), eigen_index(columns));
  for (std::size_t i = 0; i < images; ++i)
    write_patches(in, out, window, values.data() + i * in.size(),
                  rows.data() + i * out.pixels() * columns);
  return rows;
}

}  // namespace

RowMajorMatrix to_double(MatrixView<const float> values) {
  RowMajorMatrix result(eigen_index(values.rows()), eigen_index(values.cols()));
  std::ranges::copy(values.flat(), result.data());
  return result;
}

LayerWeights layer_weights(const nn::Network& network) {
  LayerWeights layers;
  for (const nn::Op& op : weighted_ops(compile(network.spec()), network.spec().name)) {
    const nn::Parameter& weight = network.parameters()[op.weight];
    const nn::Parameter& bias = network.parameters()[op.bias];
    const std::size_t units = weight.shape[0], inputs = weight.values.size() / units;
    RowMajorMatrix& layer = layers.emplace_back(eigen_index(units), eigen_index(inputs) + 1);
    layer.leftCols(eigen_index(inputs)) =
        to_double(MatrixView<const float>(weight.values.data(), units, inputs));
    layer.rightCols(1) = to_double(MatrixView<const float>(bias.values.data(), units, 1));
  }
  return layers;
}

nn::Network with_weights(const nn::Network& network, const LayerWeights& weights) {
  nn::NetworkSpec spec = network.spec();
  const std::vector<nn::Op> ops = weighted_ops(compile(spec), spec.name);
  OUBLI_ASSERT(ops.size() == weights.size());
  spec.classes = static_cast<std::size_t>(weights.back().rows());
  std::vector<nn::Parameter> parameters = network.parameters();
  for (std::size_t l = 0; l < ops.size(); ++l) {
    nn::Parameter& weight = parameters[ops[l].weight];
    nn::Parameter& bias = parameters[ops[l].bias];
    const RowMajorMatrix& values = weights[l];
    weight.shape[0] = bias.shape[0] = static_cast<std::size_t>(values.rows());
    weight.values.clear();
    bias.values.clear();
    for (Index i = 0; i < values.rows(); ++i) {
      for (Index j = 0; j + 1 < values.cols(); ++j)
        weight.values.push_back(static_cast<float>(values(i, j)));
      bias.values.push_back(static_cast<float>(values(i, values.cols() - 1)));
    }
  }
  return {std::move(spec), std::move(parameters)};
}

void visit_layers(const nn::Network& network, const ImageSet& set,
                  std::span<const std::size_t> images, const LogitsGradient& gradient,
                  const std::function<void(const LayerBatch&)>& visit, std::size_t first) {
  const nn::NetworkSpec& spec = network.spec();
  const nn::Graph graph = compile(spec);
  const std::vector<nn::Op> ops = weighted_ops(graph, spec.name);
  const nn::SingleThread single;
  const nn::Shape shape = graph.values.front();
  const std::size_t whole = std::min(kBatch, images.size());
  std::map<std::size_t, nn::Executor> executors;  // by batch size
  nn::ParameterStore store;
  for (std::size_t done = 0; done < images.size(); done += whole) {
    const auto chosen = images.subspan(done, std::min(whole, images.size() - done));
    const nn::Executor* like = executors.empty() ? nullptr : &executors.begin()->second;
    nn::Executor& executor = executors
                                 .try_emplace(chosen.size(), graph, chosen.size(),
                                              nn::Executor::Mode::input_gradient, like)
                                 .first->second;
    if (store.empty()) store = executor.import_parameters(network.parameters());
    for (std::size_t i = 0; i < chosen.size(); ++i)
      nn::to_channels_last(shape, set.image(chosen[i]), executor.input().data() + i * shape.size());
    executor.prepare(store);
    executor.forward(store);
    if (gradient) {
      const RowMajorMatrix wanted = gradient(
          to_double(MatrixView(executor.logits().data(), chosen.size(), spec.classes)), chosen);
      std::ranges::transform(std::span(wanted.data(), executor.logits().size()),
                             executor.logits_gradient().begin(),
                             [](double g) { return static_cast<float>(g); });
      executor.backward(store, nullptr);
    }
    for (std::size_t l = first; l < ops.size(); ++l) {
      const nn::Shape out = graph.values[ops[l].output];
      LayerBatch batch{.layer = l,
                       .positions = eigen_index(out.pixels()),
                       .inputs = inputs_of(graph, ops[l], executor.value(ops[l].input)),
                       .deltas = {}};
      if (gradient)
        batch.deltas = to_double(MatrixView(executor.gradient(ops[l].output).data(),
                                            chosen.size() * out.pixels(), out.channels));
      visit(batch);
    }
  }
}

std::vector<LayerSums> layer_sums(const nn::Network& network, const ImageSet& set,
                                  std::span<const std::size_t> images,
                                  const LogitsGradient& gradient, std::size_t first) {
  std::vector<LayerSums> sums;
  const auto add = [](const auto& product, auto& sum) {
    if (sum.size() == 0) sum.setZero(product.rows(), product.cols());
    sum.noalias() += product;
  };
  const auto visit = [&](const LayerBatch& batch) {
    if (batch.layer >= sums.size()) sums.resize(batch.layer + 1);
    LayerSums& sum = sums[batch.layer];
    sum.positions = static_cast<double>(batch.positions);
    add(batch.inputs.transpose() * batch.inputs, sum.inputs);
    if (!gradient) return;
    add(batch.deltas.transpose() * batch.deltas, sum.deltas);
    add(batch.deltas.transpose() * batch.inputs, sum.gradient);
  };
  visit_layers(network, set, images, gradient, visit, first);
  return sums;
}

RowMajorMatrix softmax(const RowMajorMatrix& logits) {
  RowMajorMatrix rows = logits.colwise() - logits.rowwise().maxCoeff();
  rows = rows.array().exp();
  rows.array().colwise() /= rows.rowwise().sum().array();
  return rows;
}

RowMajorMatrix loss_gradient(const RowMajorMatrix& logits, std::span<const std::size_t> labels) {
  RowMajorMatrix gradient = softmax(logits);
  for (std::size_t i = 0; i < labels.size(); ++i)
    gradient(eigen_index(i), eigen_index(labels[i])) -= 1;
  return gradient;
}

LogitsGradient loss_gradient(const ImageSet& set) {
  return [&set](const RowMajorMatrix& logits, std::span<const std::size_t> images) {
    std::vector<std::size_t> labels;
    for (const std::size_t i : images) labels.push_back(set.labels[i]);
    return loss_gradient(logits, labels);
  };
}

}  // namespace oubli
