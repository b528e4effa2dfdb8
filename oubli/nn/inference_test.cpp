// What the forward pass alone is turned into. That it computes the same is checked layer by layer
// in gradient_test.cpp (InferenceAgreesWithReference).
#include "oubli/nn/inference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "oubli/base/random.h"
#include "oubli/nn/convolution.h"
#include "oubli/nn/executor.h"
#include "oubli/nn/network.h"

namespace oubli::nn {
namespace {

std::size_t count(const Graph& graph, bool Op::*flag) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.ops, [&](const Op& op) { return op.*flag; }));
}

std::size_t count(const Graph& graph, OpKind kind) {
  return static_cast<std::size_t>(std::ranges::count(graph.ops, kind, &Op::kind));
}

LayerSpec plain(LayerKind kind) {
  LayerSpec layer;
  layer.kind = kind;
  return layer;
}

TEST(ForInference, TheResidualNetworkAddsInItsShortcutsAndUsesWinograd) {
  NetworkSpec spec = residual_network();
  std::erase_if(spec.layers, [](const LayerSpec& l) { return l.kind == LayerKind::batch_norm; });
  for (LayerSpec& layer : spec.layers)
    for (auto* part : {&layer.branch, &layer.shortcut})
      std::erase_if(*part, [](const LayerSpec& l) { return l.kind == LayerKind::batch_norm; });
  const Graph graph = for_inference(compile(spec));
  EXPECT_EQ(count(graph, OpKind::add), 0U);
  EXPECT_EQ(count(graph, &Op::sum), 5U);
  EXPECT_EQ(graph.values[graph.features].size(), 256U);
  // of 16, 32 and 64 channels; and all convolutions but the first three work in blocks, or in 16
  // channels, which is the same
  EXPECT_EQ(count(graph, &Op::winograd), has_avx512() ? 3U : 0U);
  EXPECT_EQ(count(graph, &Op::blocked), has_avx512() ? 1U + 4 * 3 + 1 : 0U);
  const SingleThread single;
  std::size_t found = 0;
  for (const std::string& kernel : Executor(compile(spec), 8, Executor::Mode::inference).kernels())
    if (kernel.find("wino") != std::string::npos) ++found;
  EXPECT_EQ(found, has_avx512() ? 3U : 0U);
}

TEST(ForInference, DenseLayersArePackedInTheForwardPassAlone) {
  const Graph graph = compile(mlp_network());
  EXPECT_EQ(count(for_inference(graph), &Op::packed), has_avx512() ? 2U : 0U);
  EXPECT_EQ(count(graph, &Op::packed), 0U);
}

TEST(ForInference, LeavesALayoutThatOthersNeed) {
  // The dense layer after it reads NHWC: the CNN stays as it is.
  EXPECT_EQ(count(for_inference(compile(cnn_network(64))), &Op::blocked), 0U);
  NetworkSpec spec = cnn_network(64);
  spec.layers = {conv(16, 3, 1, Padding::same), conv(32, 3, 1, Padding::same),
                 plain(LayerKind::sigmoid), max_pool(2)};
  EXPECT_EQ(count(for_inference(compile(spec)), &Op::winograd), 0U);
  spec.layers.push_back(plain(LayerKind::global_max_pool));
  const Graph graph = for_inference(compile(spec));
  EXPECT_EQ(count(graph, &Op::winograd), has_avx512() ? 1U : 0U);
  // conv, sigmoid, two poolings; not the first convolution and the head
  EXPECT_EQ(count(graph, &Op::blocked), has_avx512() ? 4U : 0U);
  spec.layers.insert(spec.layers.end() - 1, plain(LayerKind::batch_norm));
  EXPECT_EQ(count(for_inference(compile(spec)), &Op::winograd), 0U);
}

TEST(ForInference, AddsInPlaceOnlyWhatNobodyElseReads) {
  NetworkSpec spec = cnn_network(64);
  LayerSpec block = plain(LayerKind::residual);
  block.branch = {conv(3, 3, 1, Padding::same)};
  spec.layers = {block};  // the shortcut is the image itself, which is the caller's
  EXPECT_EQ(count(for_inference(compile(spec)), &Op::sum), 0U);
  spec.layers = {block, block};  // the first block's result is read twice
  EXPECT_EQ(count(for_inference(compile(spec)), &Op::sum), 0U);
  block.shortcut = {conv(3, 1), plain(LayerKind::relu)};  // a relu before the sum
  spec.layers = {block};
  EXPECT_EQ(count(for_inference(compile(spec)), &Op::sum), 0U);
  block.shortcut = {conv(3, 1)};
  spec.layers = {block};
  EXPECT_EQ(count(for_inference(compile(spec)), &Op::sum), 1U);
}

// Whatever a person defines: blocked layouts never end in a reference kernel.
TEST(ForInference, UsesNoReferenceKernels) {
  const SingleThread single;
  for (const std::size_t size : {1U, 2U, 5U, 14U, 33U})
    for (const std::size_t kernel : {1U, 2U, 3U, 5U, 7U, 9U})
      for (const std::size_t stride : {1U, 2U, 3U})
        for (const Padding padding : {Padding::valid, Padding::same}) {
          if (padding == Padding::valid && size < kernel) continue;
          NetworkSpec spec{
              .name = "any",
              .channels = 16,
              .height = size,
              .width = size + 1,
              .classes = 3,
              .layers = {conv(32, 3, 1, Padding::same), plain(LayerKind::relu),
                         conv(48, kernel, stride, padding), conv(32, 3, 1, Padding::same),
                         plain(LayerKind::global_average_pool)}};
          for (const std::string& name :
               Executor(compile(spec), 2, Executor::Mode::inference).kernels())
            EXPECT_EQ(name.find("ref"), std::string::npos)
                << size << " kernel " << kernel << " stride " << stride << ": " << name;
        }
}

// An image's logits are its own, whatever batch it comes in.
TEST(ForInference, BatchesDoNotMatter) {
  const Network network(residual_network(), 3, 0);
  RandomStream random(4, task_id("images"));
  Matrix<float> images(11, network.image_size());
  for (float& v : images.flat()) v = static_cast<float>(random.uniform());
  const Matrix<float> together = network.logits(images);
  for (std::size_t i = 0; i < images.rows(); ++i) {
    const Matrix<float> alone = network.logits(MatrixView<const float>(images).middle_rows(i, 1));
    for (std::size_t j = 0; j < alone.cols(); ++j)
      EXPECT_NEAR(alone(0, j), together(i, j), 1e-5F) << i;
  }
}

}  // namespace
}  // namespace oubli::nn
