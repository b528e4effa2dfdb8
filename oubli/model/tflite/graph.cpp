#include "oubli/model/tflite/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/base/file.h"

namespace oubli {
namespace {

constexpr unsigned kDequantize = 6, kFullyConnected = 9, kLogistic = 14, kSoftmax = 25,
                   kLogSoftmax = 50, kArgMax = 56, kQuantize = 114;
constexpr int kLongestTail = 16;

}  // namespace

// Fills a graph from its file. Tables may share what they point to; a small file must not become a
// large list.
class TfliteGraph::Reader {
 public:
  Reader(const FlatBuffer& file, const std::string& what, TfliteGraph& graph)
      : file_(file), what_(what), graph_(graph) {}

  void read() {
    const std::uint64_t model = file_.root();
    const auto graphs = note(file_.vector(model, 2, 4), 4);
    if (!graphs || graphs->count != 1)
      fail(ErrorCode::unfilterable, "{}: {} graphs, wanted one", what_, graphs ? graphs->count : 0);
    const std::uint64_t only = file_.table_in(*graphs, 0);
    each(model, 4, [&](std::uint64_t, std::uint64_t at) { add_buffer(at); });
    graph_.buffer_readers.resize(graph_.buffers.size());
    each(only, 0, [&](std::uint64_t i, std::uint64_t at) { add_tensor(i, at); });
    each(model, 1, [&](std::uint64_t, std::uint64_t at) {
      codes_.push_back(
          static_cast<unsigned>(std::max(file_.number(at, 0, 1), file_.number(at, 3, 4))));
    });
    each(only, 3, [&](std::uint64_t i, std::uint64_t at) { add_operator(i, at); });
    graph_.outputs = file_.values<std::int32_t>(note(file_.vector(only, 2, 4), 4));
    graph_.words.emplace_back("description", file_.text(model, 3));
    each(model, 6, [&](std::uint64_t, std::uint64_t at) { add_metadata(at); });
  }

 private:
  std::optional<FlatVector> note(std::optional<FlatVector> vector, unsigned element) {
    charged_ += vector ? vector->count * element : 0;
    if (charged_ > 4 * file_.bytes().size())
      fail(ErrorCode::bad_input, "{}: damaged: its parts are larger than the whole", what_);
    if (vector && graph_.references[vector->at]++ == 0)
      graph_.extents.emplace_back(vector->at, vector->elements() + vector->count * element);
    return vector;
  }

  // Every table of the list that `table` has as its field.
  template <typename Visit>
  void each(std::uint64_t table, unsigned field, Visit&& visit) {
    const auto list = note(file_.vector(table, field, 4), 4);
    for (std::uint64_t i = 0; list && i < list->count; ++i) visit(i, file_.table_in(*list, i));
  }

  void add_buffer(std::uint64_t at) {
    if (file_.field(at, 1) && file_.number(at, 1, 8) > 1)
      fail(ErrorCode::unfilterable, "{}: weights behind the model proper (over 2 GB)", what_);
    graph_.buffers.push_back(note(file_.vector(at, 0, 1), 1));
  }

  void add_tensor(std::uint64_t i, std::uint64_t at) {
    TfliteTensor tensor;
    tensor.name = file_.text(at, 3);
    tensor.shape_at = note(file_.vector(at, 0, 4), 4);
    tensor.shape = file_.values<std::int32_t>(tensor.shape_at);
    tensor.type = static_cast<unsigned>(file_.number(at, 1, 1));
    tensor.buffer = static_cast<std::size_t>(file_.number(at, 2, 4));
    tensor.signature_at = note(file_.vector(at, 7, 4), 4);
    if (tensor.buffer >= graph_.buffers.size())
      fail(ErrorCode::bad_input, "{}: tensor {} has a buffer that is not there", what_, i);
    ++graph_.buffer_readers[tensor.buffer];
    if (const auto quantized = file_.table(at, 4)) {
      tensor.min_at = note(file_.vector(*quantized, 0, 4), 4);
      tensor.max_at = note(file_.vector(*quantized, 1, 4), 4);
      tensor.scales_at = note(file_.vector(*quantized, 2, 4), 4);
      tensor.zeros_at = note(file_.vector(*quantized, 3, 8), 8);
      tensor.scales = file_.values<float>(tensor.scales_at);
      tensor.zeros = file_.values<std::int64_t>(tensor.zeros_at);
    }
    graph_.tensors.push_back(std::move(tensor));
  }

  void add_operator(std::uint64_t i, std::uint64_t at) {
    TfliteOperator op;
    op.at = at;
    const std::uint64_t code = file_.number(at, 0, 4);
    if (code >= codes_.size())
      fail(ErrorCode::bad_input, "{}: operator {} has a code that is not there", what_, i);
    op.code = codes_[static_cast<std::size_t>(code)];
    op.inputs = file_.values<std::int32_t>(note(file_.vector(at, 1, 4), 4));
    op.outputs = file_.values<std::int32_t>(note(file_.vector(at, 2, 4), 4));
    for (const auto* const ids : {&op.inputs, &op.outputs})
      for (const std::int32_t id : *ids)
        if (id < -1 || id >= static_cast<std::int32_t>(graph_.tensors.size()))
          fail(ErrorCode::bad_input, "{}: operator {} has a tensor that is not there", what_, i);
    graph_.operators.push_back(std::move(op));
  }

  void add_metadata(std::uint64_t at) {
    const auto buffer = static_cast<std::size_t>(file_.number(at, 1, 4));
    if (buffer >= graph_.buffers.size()) return;
    ++graph_.buffer_readers[buffer];
    if (const auto& data = graph_.buffers[buffer])
      graph_.words.emplace_back(fmt::format("metadata {}", file_.text(at, 0)),
                                as_text(file_.span(data->elements(), data->count)));
  }

  const FlatBuffer& file_;
  const std::string& what_;
  TfliteGraph& graph_;
  std::uint64_t charged_ = 0;
  std::vector<unsigned> codes_;
};

TfliteGraph::TfliteGraph(const FlatBuffer& file, const std::string& what) {
  Reader(file, what, *this).read();
}

namespace {

// The constant that is read as `tensor`: itself, or, in files made with float16, what DEQUANTIZE
// widens to it.
std::size_t constant_behind(const TfliteGraph& graph, std::int32_t tensor, TfliteHead& head,
                            const std::string& what) {
  const auto makes = [&](const TfliteOperator& op) {
    return std::ranges::find(op.outputs, tensor) != op.outputs.end();
  };
  const auto maker = std::ranges::find_if(graph.operators, makes);
  if (maker == graph.operators.end()) return static_cast<std::size_t>(tensor);
  const auto refuse = [&](std::string_view why) {
    fail(ErrorCode::unfilterable, "{}: the last layer's {} {}", what,
         graph.tensors[static_cast<std::size_t>(tensor)].name, why);
  };
  if (maker->code != kDequantize || maker->inputs.size() != 1 || maker->inputs[0] < 0)
    refuse(fmt::format("is computed by operator {}; wanted a constant", maker->code));
  for (const std::int32_t id : {tensor, maker->inputs[0]}) {
    std::ptrdiff_t readers = 0;
    for (const TfliteOperator& op : graph.operators) readers += std::ranges::count(op.inputs, id);
    if (readers != 1) refuse("is read by something else, too");
  }
  const auto narrow = static_cast<std::size_t>(maker->inputs[0]);
  const auto wide = static_cast<std::size_t>(tensor);
  if (graph.tensors[narrow].type != tflite_type::kFloat16 ||
      graph.tensors[narrow].shape != graph.tensors[wide].shape)
    refuse("is made from something else than float16 of the same shape");
  head.widened.push_back(wide);
  return narrow;
}

}  // namespace

TfliteHead find_tflite_head(const FlatBuffer& file, const TfliteGraph& graph,
                            const std::string& what) {
  const auto refuse = [&](const std::string& why) {
    fail(ErrorCode::unfilterable, "{}: {}", what, why);
  };
  if (graph.outputs.size() != 1)
    refuse(fmt::format("{} outputs; one head can be filtered", graph.outputs.size()));
  TfliteHead head;
  std::int32_t at = graph.outputs[0];
  const TfliteOperator* reader = nullptr;
  for (int steps = 0; steps < kLongestTail; ++steps) {
    const TfliteOperator* maker = nullptr;
    for (const TfliteOperator& op : graph.operators) {
      if (std::ranges::count(op.inputs, at) != (&op == reader ? 1 : 0))
        refuse(fmt::format("tensor {} is read by something else, too", at));
      if (std::ranges::find(op.outputs, at) == op.outputs.end()) continue;
      if (maker != nullptr || op.outputs.size() != 1)
        refuse(fmt::format("tensor {} is not made by one operator alone", at));
      maker = &op;
    }
    if (at < 0 || maker == nullptr || maker->inputs.empty())
      refuse("no FULLY_CONNECTED layer before its output");
    const unsigned code = maker->code;
    if (code != kArgMax || !head.results.empty())
      head.results.push_back(static_cast<std::size_t>(at));
    if (code == kFullyConnected) {
      if (maker->inputs.size() < 2 || maker->inputs[1] < 0) refuse("a layer without weights");
      const auto options = file.table(maker->at, 4);
      if (options && file.number(*options, 1, 1) != 0) refuse("weights in a shuffled format");
      if (options && file.number(*options, 0, 1) != 0) head.shift_shows = true;
      head.weights = constant_behind(graph, maker->inputs[1], head, what);
      if (maker->inputs.size() > 2 && maker->inputs[2] >= 0)
        head.bias = constant_behind(graph, maker->inputs[2], head, what);
      const unsigned type = graph.tensors[head.results.back()].type;
      head.rounds_logits = type != 0 && type != 1;
      return head;
    }
    if (code == kLogistic) head.shift_shows = true;
    if (code != kLogistic && code != kSoftmax && code != kLogSoftmax && code != kDequantize &&
        code != kQuantize && !(code == kArgMax && head.results.empty()))
      refuse(
          fmt::format("operator {} follows the last layer, if there is one; wanted softmax, "
                      "logistic, (de)quantize or arg max",
                      code));
    reader = maker;
    at = maker->inputs[0];
  }
  refuse("too many operators behind the last layer, if there is one");
  return head;
}

}  // namespace oubli
