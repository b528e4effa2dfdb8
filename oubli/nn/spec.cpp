#include "oubli/nn/spec.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/nn/graph.h"

namespace oubli::nn {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<LayerKind, std::string_view>, 9> kKindNames = {{
    {LayerKind::dense, "dense"},
    {LayerKind::conv, "conv"},
    {LayerKind::max_pool, "max_pool"},
    {LayerKind::global_max_pool, "global_max_pool"},
    {LayerKind::global_average_pool, "global_average_pool"},
    {LayerKind::batch_norm, "batch_norm"},
    {LayerKind::relu, "relu"},
    {LayerKind::sigmoid, "sigmoid"},
    {LayerKind::residual, "residual"},
}};

LayerSpec plain(LayerKind kind) {
  LayerSpec layer;
  layer.kind = kind;
  return layer;
}

json layers_to_json(const std::vector<LayerSpec>& layers) {
  json list = json::array();
  for (const LayerSpec& layer : layers) {
    json entry;
    for (const auto& [kind, name] : kKindNames)
      if (kind == layer.kind) entry["kind"] = name;
    if (layer.units != 0) entry["units"] = layer.units;
    if (layer.kernel != 0) entry["kernel"] = layer.kernel;
    if (layer.stride != 1) entry["stride"] = layer.stride;
    if (layer.padding == Padding::same) entry["padding"] = "same";
    if (!layer.bias) entry["bias"] = false;
    if (layer.kind == LayerKind::residual) {
      entry["branch"] = layers_to_json(layer.branch);
      entry["shortcut"] = layers_to_json(layer.shortcut);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<LayerSpec> layers_from_json(const json& list, int depth) {
  if (depth > 8) throw Error(ErrorCode::bad_input, "residual layers nested too deep");
  std::vector<LayerSpec> layers;
  for (const json& entry : list) {
    LayerSpec layer;
    const auto name = entry.at("kind").get<std::string>();
    bool known = false;
    for (const auto& [kind, kind_name] : kKindNames)
      if (kind_name == name) {
        layer.kind = kind;
        known = true;
      }
    if (!known) fail(ErrorCode::bad_input, "no layer kind '{}'", name);
    for (const auto& [key, value] : entry.items()) {
      if (key == "kind") continue;
      if (key == "units")
        layer.units = whole_number(value);
      else if (key == "kernel")
        layer.kernel = whole_number(value);
      else if (key == "stride")
        layer.stride = whole_number(value);
      else if (key == "bias")
        layer.bias = value.get<bool>();
      else if (key == "branch")
        layer.branch = layers_from_json(value, depth + 1);
      else if (key == "shortcut")
        layer.shortcut = layers_from_json(value, depth + 1);
      else if (key == "padding" && value == "same")
        layer.padding = Padding::same;
      else if (key == "padding" && value == "valid")
        layer.padding = Padding::valid;
      else
        fail(ErrorCode::bad_input, "layer {}: unknown or wrong '{}'", name, key);
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace

LayerSpec dense(std::size_t units) {
  LayerSpec layer = plain(LayerKind::dense);
  layer.units = units;
  return layer;
}

LayerSpec conv(std::size_t filters, std::size_t kernel, std::size_t stride, Padding padding,
               bool bias) {
  LayerSpec layer = plain(LayerKind::conv);
  layer.units = filters;
  layer.kernel = kernel;
  layer.stride = stride;
  layer.padding = padding;
  layer.bias = bias;
  return layer;
}

LayerSpec max_pool(std::size_t size) {
  LayerSpec layer = plain(LayerKind::max_pool);
  layer.kernel = layer.stride = size;
  return layer;
}

NetworkSpec mlp_network(std::size_t classes) {
  return {.name = "mlp",
          .channels = 1,
          .height = 28,
          .width = 28,
          .classes = classes,
          .layers = {dense(50), plain(LayerKind::relu)}};
}

NetworkSpec cnn_network(std::size_t features, std::size_t classes) {
  const LayerSpec relu = plain(LayerKind::relu);
  return {.name = "cnn",
          .channels = 3,
          .height = 32,
          .width = 32,
          .classes = classes,
          .layers = {conv(16, 3), relu, max_pool(2), conv(32, 3), relu, max_pool(2),
                     dense(features), relu}};
}

NetworkSpec residual_network(std::size_t classes) {
  const LayerSpec relu = plain(LayerKind::relu);
  const LayerSpec norm = plain(LayerKind::batch_norm);
  // batch normalisation follows every convolution and has a shift: no biases
  const auto convolution = [](std::size_t filters, std::size_t kernel, std::size_t stride) {
    return conv(filters, kernel, stride, Padding::same, false);
  };
  NetworkSpec spec{.name = "residual",
                   .channels = 1,
                   .height = 112,
                   .width = 92,
                   .classes = classes,
                   .layers = {convolution(8, 5, 1), norm, relu}};
  for (const std::size_t filters : {16U, 32U, 64U, 128U, 256U}) {
    LayerSpec block = plain(LayerKind::residual);
    block.branch = {convolution(filters, 3, 2), norm, relu, convolution(filters, 3, 1), norm, relu};
    block.shortcut = {convolution(filters, 3, 2), norm};
    spec.layers.push_back(block);
    spec.layers.push_back(relu);
  }
  spec.layers.push_back(plain(LayerKind::global_max_pool));
  return spec;
}

NetworkSpec inversion_network(std::size_t classes) {
  const LayerSpec sigmoid = plain(LayerKind::sigmoid);
  return {.name = "inversion-mlp",
          .channels = 1,
          .height = 56,
          .width = 46,
          .classes = classes,
          .layers = {dense(1000), sigmoid, dense(300), sigmoid}};
}

void check(const NetworkSpec& spec) { (void)compile(spec); }

json to_json(const NetworkSpec& spec) {
  return {{"format", "oubli-network"}, {"version", 1},
          {"name", spec.name},         {"input", {spec.channels, spec.height, spec.width}},
          {"classes", spec.classes},   {"layers", layers_to_json(spec.layers)}};
}

NetworkSpec network_from_json(const json& document, const std::string& what) {
  try {
    if (document.at("format") != "oubli-network")
      fail(ErrorCode::bad_input, "format {}, wanted oubli-network", document.at("format").dump());
    if (document.at("version") != 1)
      fail(ErrorCode::bad_input, "version {}; this program reads version 1",
           document.at("version").dump());
    NetworkSpec spec;
    spec.name = document.value("name", "");
    const std::vector<std::size_t> input = whole_numbers(document.at("input"));
    if (input.size() != 3)
      fail(ErrorCode::bad_input, "input has {} numbers, wanted channels, height, width",
           input.size());
    spec.channels = input[0];
    spec.height = input[1];
    spec.width = input[2];
    spec.classes = whole_number(document.at("classes"));
    spec.layers = layers_from_json(document.at("layers"), 0);
    check(spec);
    return spec;
  } catch (const json::exception& error) {
    fail(ErrorCode::bad_input, "{}: {}", what, error.what());
  } catch (const Error& error) {
    fail(ErrorCode::bad_input, "{}: {}", what, error.what());
  }
}

}  // namespace oubli::nn
