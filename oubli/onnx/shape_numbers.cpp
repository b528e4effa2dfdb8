#include <algorithm>

#include "oubli/onnx/constants.h"
#include "oubli/onnx/shape_rules.h"

namespace oubli::onnx {
namespace {

using Entries = std::vector<Shapes::Entry>;

// `place`, counted from the end if negative, within 0 to `size`.
std::size_t bounded(std::int64_t place, std::size_t size) {
  const auto last = static_cast<std::int64_t>(size);
  const std::int64_t from_start = place < 0 ? std::max(place, -last) + last : place;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(from_start, 0, last));
}

std::optional<Entries> of_shape(const Shapes& known, const Node& node) {
  const Shapes::Shape* from = known.input_shape(node, 0);
  if (from == nullptr) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(from->size());
  Entries result;
  for (std::size_t axis = bounded(node.int_or("start", 0), from->size());
       axis < bounded(node.int_or("end", rank), from->size()); ++axis) {
    result.push_back({(*from)[axis], node.inputs[0], axis});
  }
  return result;
}

std::optional<Entries> of_concat(const Shapes& known, const Node& node) {
  Entries result;
  for (std::size_t input = 0; input < node.inputs.size(); ++input) {
    const auto part = known.entries(node, input);
    if (!part || result.size() + part->size() > Shapes::kHighestRank) return std::nullopt;
    result.insert(result.end(), part->begin(), part->end());
  }
  return result;
}

std::optional<Entries> of_gather(const Entries& from, const Model& model, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  const auto indices = constant_ints(model, node.inputs[1]);
  if (!indices) return std::nullopt;
  Entries result;
  for (const std::int64_t index : *indices) {
    const auto place = place_of(index, from.size());
    if (!place) return std::nullopt;
    result.push_back(from[*place]);
  }
  return result;
}

std::optional<Entries> of_slice(const Entries& from, const Model& model, const Node& node) {
  std::optional<std::vector<std::int64_t>> begin;
  std::optional<std::vector<std::int64_t>> end;
  if (const Attribute* starts = node.attribute("starts")) {
    begin = starts->ints;
    if (const Attribute* ends = node.attribute("ends")) end = ends->ints;
  } else if (node.inputs.size() >= 3) {
    begin = constant_ints(model, node.inputs[1]);
    end = constant_ints(model, node.inputs[2]);
  }
  const bool steps = node.inputs.size() > 4 && !node.inputs[4].empty();
  if (steps && constant_ints(model, node.inputs[4]) != std::vector<std::int64_t>{1})
    return std::nullopt;
  if (!begin || !end || begin->size() != 1 || end->size() != 1) return std::nullopt;
  const std::size_t first = bounded(begin->front(), from.size());
  const std::size_t last = std::max(bounded(end->front(), from.size()), first);
  return Entries(from.begin() + static_cast<std::ptrdiff_t>(first),
                 from.begin() + static_cast<std::ptrdiff_t>(last));
}

}  // namespace

std::optional<Entries> result_numbers(const Shapes& known, const Model& model, const Node& node) {
  if (node.op_type == "Shape") return of_shape(known, node);
  if (node.op_type == "Concat") return of_concat(known, node);
  const Entries* from = node.inputs.empty() ? nullptr : known.entries(node.inputs[0]);
  if (from == nullptr) return std::nullopt;
  if (node.op_type == "Identity" || node.op_type == "Cast") return *from;
  if (node.op_type == "Unsqueeze" || node.op_type == "Squeeze" || node.op_type == "Reshape")
    return from->size() == 1 ? std::optional(*from) : std::nullopt;
  if (node.op_type == "Gather") return of_gather(*from, model, node);
  if (node.op_type == "Slice") return of_slice(*from, model, node);
  return std::nullopt;
}

}  // namespace oubli::onnx
