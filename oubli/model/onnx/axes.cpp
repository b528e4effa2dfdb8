#include "oubli/model/onnx/axes.h"

#include <algorithm>

namespace oubli {

namespace {

using onnx::Node;
using Axis = OnnxAxis;

// Whether the window of an AveragePool spans all of an axis, its number `place`, without padding.
bool is_whole(const Node& node, const Axis& axis, std::size_t place) {
  const onnx::Attribute* kernel = node.attribute("kernel_shape");
  const onnx::Attribute* pads = node.attribute("pads");
  const onnx::Attribute* auto_pad = node.attribute("auto_pad");
  return kernel != nullptr && place < kernel->ints.size() && axis.extent &&
         kernel->ints[place] == *axis.extent &&
         (pads == nullptr || std::ranges::all_of(pads->ints, [](auto pad) { return pad == 0; })) &&
         (auto_pad == nullptr || !auto_pad->s.starts_with("SAME"));
}

bool is(const Node& node, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, node.op_type) != names.end();
}

}  // namespace

Axis OnnxAxisWalker::merge(const Node& node, std::span<const Axis> axes, std::size_t place) const {
  Axis merged{Axis::Role::single, 1};
  bool classes = false;
  bool samples = false;
  bool several_samples = false;
  bool positions = false;
  for (const Axis& axis : axes) {
    if (axis.is(Axis::Role::single)) continue;
    classes = classes || axis.is(Axis::Role::classes);
    samples = samples || axis.is(Axis::Role::samples);
    several_samples = several_samples || (axis.is(Axis::Role::samples) && axis.extent != 1);
    positions = positions || axis.is(Axis::Role::positions);
    merged.place = 31 * merged.place + axis.place;  // as several axes in this order
    const bool fits = merged.extent && axis.extent && *axis.extent > 0 &&
                      *merged.extent <= (std::int64_t{1} << 40) / *axis.extent;
    merged.extent = fits ? std::optional(*merged.extent * *axis.extent) : std::nullopt;
  }
  if (classes && positions) {
    refuse_node(model_, node,
                "mixes the classes with positions: which numbers are a class's cannot be told");
  }
  if (classes && several_samples) {
    // A file made for a single sample, if it says that the classes are all there is.
    const onnx::Shapes::Shape* shape = shapes_.shape(node.outputs[0]);
    if (shape == nullptr || place >= shape->size() ||
        (*shape)[place].value != static_cast<std::int64_t>(classes_)) {
      refuse_node(model_, node, "mixes the classes with the batch");
    }
  }
  if (classes) return {Axis::Role::classes, static_cast<std::int64_t>(classes_)};
  merged.role = samples     ? Axis::Role::samples
                : positions ? Axis::Role::positions
                            : Axis::Role::single;
  return merged;
}

OnnxAxes OnnxAxisWalker::flatten(const Node& node, const OnnxAxes& from) const {
  const std::size_t axis = axis_in(node.int_or("axis", 1), from.size());
  if (axis > from.size()) refuse_node(model_, node, "its axes make no sense");
  const std::span<const Axis> axes(from);
  return {merge(node, axes.first(axis), 0), merge(node, axes.subspan(axis), 1)};
}

// The axes of a Reshape, from both ends to the -1, which gets what is left.
class OnnxAxisWalker::Regrouping {
 public:
  Regrouping(const OnnxAxisWalker& walker, const Node& node, const OnnxAxes& from,
             const std::vector<onnx::Shapes::Entry>& wanted,
             std::vector<OnnxTail::ShapeConstant>& spelled_out)
      : walker_(walker), node_(node), from_(from), wanted_(wanted), spelled_out_(spelled_out) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!from[i].is(Axis::Role::single)) left_.push_back(i);
    }
  }

  OnnxAxes axes() {
    if (splits_rows()) return rows_split();
    OnnxAxes result(wanted_.size());
    std::size_t front = 0;
    for (; front < wanted_.size() && !is_rest(front); ++front) result[front] = take(front, true);
    if (front == wanted_.size()) {
      if (!left_.empty()) unknown();
      return result;
    }
    for (std::size_t back = wanted_.size() - 1; back > front; --back) {
      if (is_rest(back)) unknown();
      result[back] = take(back, false);
    }
    OnnxAxes rest;
    for (const std::size_t axis : left_) rest.push_back(from_[axis]);
    result[front] = walker_.merge(node_, rest, front);
    return result;
  }

 private:
  [[noreturn]] void unknown() const {
    refuse_node(walker_.model_, node_,
                fmt::format("its shape does not show where the {} classes go", walker_.classes_));
  }
  bool is_rest(std::size_t place) const {
    return wanted_[place].source.empty() && wanted_[place].extent.value == -1;
  }
  bool is_single(std::size_t place) const {
    return wanted_[place].source.empty() && wanted_[place].extent.value == 1;
  }

  // Rows that become several axes, while the classes, last before, stay last.
  bool splits_rows() const {
    if (left_.size() != 2 || !from_[left_[0]].is(Axis::Role::samples) || wanted_.size() < 3 ||
        !from_[left_[1]].is(Axis::Role::classes))
      return false;
    std::size_t several = 0;
    for (std::size_t place = 0; place < wanted_.size(); ++place)
      if (!is_single(place)) ++several;
    const onnx::Shapes::Entry& last = wanted_.back();
    const std::optional<Axis> meant = walker_.axis_of_(last);
    return several > 2 &&
           (meant ? meant->is(Axis::Role::classes)
                  : last.node != nullptr && last.extent.value == from_[left_[1]].extent);
  }
  OnnxAxes rows_split() const {
    OnnxAxes result(wanted_.size(), Axis{Axis::Role::single, 1});
    bool first = true;
    for (std::size_t place = 0; place + 1 < wanted_.size(); ++place) {
      if (is_single(place)) continue;
      result[place] =
          first ? Axis{Axis::Role::samples} : Axis{Axis::Role::positions, std::nullopt, place + 1};
      first = false;
    }
    result.back() = from_[left_[1]];
    if (!walker_.axis_of_(wanted_.back()))
      walker_.spell_out(node_, 1, wanted_.back(), spelled_out_);
    return result;
  }

  const Axis* next(bool front) const {
    if (left_.empty()) return nullptr;
    return &from_[front ? left_.front() : left_.back()];
  }
  Axis consume(bool front) {
    const Axis axis = *next(front);
    left_.erase(front ? left_.begin() : left_.end() - 1);
    return axis;
  }

  Axis take(std::size_t place, bool front) {
    const onnx::Shapes::Entry& entry = wanted_[place];
    const Axis* candidate = next(front);
    const bool literal = entry.source.empty() && entry.extent.value.has_value();
    if (literal && *entry.extent.value == 0 && node_.int_or("allowzero", 0) == 0) {
      if (place >= from_.size()) unknown();
      if (from_[place].is(Axis::Role::single)) return from_[place];
      if (candidate != &from_[place]) unknown();
      return consume(front);
    }
    if (const std::optional<Axis> meant = walker_.axis_of_(entry)) {
      if (meant->is(Axis::Role::single)) return {Axis::Role::single, 1};
      if (candidate == nullptr || candidate->role != meant->role ||
          (meant->is(Axis::Role::positions) && candidate->place != meant->place)) {
        unknown();
      }
      return consume(front);
    }
    if (!entry.extent.value) unknown();
    const std::int64_t extent = *entry.extent.value;
    if (candidate != nullptr && candidate->is(Axis::Role::samples) &&
        (candidate->extent == extent || (!candidate->extent && extent == 1 && place == 0))) {
      return consume(front);
    }
    if (extent == 1) return {Axis::Role::single, 1};
    if (candidate == nullptr) unknown();
    if (candidate->is(Axis::Role::classes) && candidate->extent == extent &&
        entry.node != nullptr) {
      walker_.spell_out(node_, 1, entry, spelled_out_);
      return consume(front);
    }
    return positions(extent, front);
  }

  // As many axes of positions as make up `extent`.
  Axis positions(std::int64_t extent, bool front) {
    OnnxAxes parts;
    std::int64_t product = 1;
    while (product < extent) {
      const Axis* part = next(front);
      if (part == nullptr || !part->is(Axis::Role::positions) || !part->extent ||
          *part->extent < 1 || product > extent / *part->extent) {
        unknown();
      }
      product *= *part->extent;
      parts.insert(front ? parts.end() : parts.begin(), consume(front));
    }
    if (product != extent) unknown();
    return walker_.merge(node_, parts, 0);
  }

  const OnnxAxisWalker& walker_;
  const Node& node_;
  const OnnxAxes& from_;
  const std::vector<onnx::Shapes::Entry>& wanted_;
  std::vector<OnnxTail::ShapeConstant>& spelled_out_;
  std::vector<std::size_t> left_;  // axes of from_ that are not single and not placed yet
};

void OnnxAxisWalker::spell_out(const Node& node, std::size_t input,
                               const onnx::Shapes::Entry& entry,
                               std::vector<OnnxTail::ShapeConstant>& spelled_out) const {
  if (entry.node != &node) {
    const auto readers = onnx::readers_of(model_.graph());
    for (const std::string& value : {entry.node->outputs.at(0), node.inputs.at(input)}) {
      if (readers.at(value).count() != 1)
        refuse_node(model_, node, "its shape is used elsewhere too");
    }
  }
  spelled_out.push_back({entry.node, entry.input, entry.position});
}

OnnxAxes OnnxAxisWalker::reshape(const Node& node, const OnnxAxes& from,
                                 std::vector<OnnxTail::ShapeConstant>& spelled_out) const {
  std::vector<onnx::Shapes::Entry> wanted;
  if (const onnx::Attribute* attribute = node.attribute("shape")) {
    for (const std::int64_t number : attribute->ints)
      wanted.push_back({{number, false}, "", 0, &node, 1, wanted.size()});
  } else if (auto entries = shapes_.entries(node, 1)) {
    wanted = std::move(*entries);
  } else {
    refuse_node(model_, node, "its shape is computed, wanted constants");
  }
  if (wanted.empty()) refuse_node(model_, node, "its shape is not known");
  return Regrouping(*this, node, from, wanted, spelled_out).axes();
}

OnnxAxes OnnxAxisWalker::squeeze_all(const Node& node, const OnnxAxes& from) const {
  OnnxAxes result;
  for (const Axis& axis : from) {
    if (axis.is(Axis::Role::positions) && !axis.extent) {
      refuse_node(model_, node, "does not say which axes it removes");
    }
    if (axis.extent != 1) result.push_back(axis);
  }
  // A file made for a single sample says that its axis goes, too.
  const onnx::Shapes::Shape* shape = shapes_.shape(node.outputs[0]);
  if (shape != nullptr && shape->size() + 1 == result.size()) {
    std::erase_if(result,
                  [](const Axis& axis) { return axis.is(Axis::Role::samples) && !axis.extent; });
  }
  return result;
}

OnnxAxes OnnxAxisWalker::squeeze(const Node& node, const OnnxAxes& from) const {
  const auto axes = onnx::axes_of(model_, node);
  const bool removes = node.op_type == "Squeeze";
  if (!axes && !removes) refuse_node(model_, node, "does not say which axes it adds");
  if (!axes) return squeeze_all(node, from);
  const std::size_t rank = removes ? from.size() : from.size() + axes->size();
  std::vector<bool> named(rank);
  for (const std::int64_t axis : *axes) {
    const std::size_t place = axis_in(axis, rank);
    if (place >= rank || named[place]) refuse_node(model_, node, "its axes make no sense");
    named[place] = true;
  }
  OnnxAxes result;
  std::size_t old = 0;
  for (std::size_t place = 0; place < rank; ++place) {
    if (!removes) {
      result.push_back(named[place] ? Axis{Axis::Role::single, 1} : from[old++]);
    } else if (!named[place]) {
      result.push_back(from[place]);
    } else if (from[place].extent.value_or(1) != 1) {
      // An axis of unknown extent is single, or the model does not run.
      refuse_node(model_, node,
                  from[place].is(Axis::Role::classes) ? "removes the axis of the classes"
                                                      : "removes an axis that is not single");
    }
  }
  return result;
}

OnnxAxes OnnxAxisWalker::transpose(const Node& node, const OnnxAxes& from) const {
  const onnx::Attribute* perm = node.attribute("perm");
  if (perm == nullptr) return {from.rbegin(), from.rend()};
  std::vector<bool> seen(from.size());
  OnnxAxes axes;
  for (const std::int64_t axis : perm->ints) {
    const std::size_t place = axis_in(axis, from.size());
    if (place >= from.size() || seen[place]) refuse_node(model_, node, "its axes make no sense");
    seen[place] = true;
    axes.push_back(from[place]);
  }
  if (axes.size() != from.size()) refuse_node(model_, node, "its axes make no sense");
  return axes;
}

OnnxAxes OnnxAxisWalker::pool(const Node& node, const OnnxAxes& from, bool convolution) const {
  if (!convolution || from.size() < 3 || !from[0].is(Axis::Role::samples) ||
      !from[1].is(Axis::Role::classes)) {
    refuse_node(model_, node, "pools what is no map of logits");
  }
  OnnxAxes axes = from;
  for (std::size_t axis = 2; axis < axes.size(); ++axis) {
    if (node.op_type == "AveragePool" && !is_whole(node, axes[axis], axis - 2)) {
      refuse_node(model_, node, "its output is not known to be one value per class");
    }
    axes[axis] = {Axis::Role::single, 1};
  }
  return axes;
}

OnnxAxes OnnxAxisWalker::resize(const Node& node, const OnnxAxes& from,
                                std::vector<OnnxTail::ShapeConstant>& spelled_out) const {
  const onnx::Attribute* const coordinates = node.attribute("coordinate_transformation_mode");
  if (coordinates != nullptr && coordinates->s == "tf_crop_and_resize")
    refuse_node(model_, node, "puts a fixed number where there is no position");
  const auto given = [&](std::size_t input) {
    return input < node.inputs.size() && !node.inputs[input].empty();
  };
  const std::size_t sizes_input = 3;
  const std::size_t scales_input = node.inputs.size() > 2 ? 2 : 1;  // Resize of opset 10, Upsample
  std::vector<onnx::Shapes::Entry> sizes;
  std::vector<double> scales;
  if (given(sizes_input)) {
    sizes = shapes_.entries(node, sizes_input).value_or(sizes);
  } else if (const auto stored = given(scales_input)
                                     ? onnx::constant_value(model_, node.inputs[scales_input])
                                     : std::nullopt) {
    scales.resize(stored->tensor.count());
    decode(stored->tensor.dtype, stored->tensor.bytes, std::span<double>(scales));
  }
  const onnx::Attribute* const some = node.attribute("axes");
  const std::size_t count = some != nullptr ? some->ints.size() : from.size();
  if (sizes.size() != count && scales.size() != count)
    refuse_node(model_, node, "how it changes the axes is computed, wanted constants");
  OnnxAxes axes = from;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = some != nullptr ? axis_in(some->ints[i], from.size()) : i;
    if (place >= from.size()) refuse_node(model_, node, "its axes make no sense");
    const Axis& axis = from[place];
    if (axis.is(Axis::Role::positions)) {
      axes[place] = {Axis::Role::positions, std::nullopt, 31 * axis.place + 1000};
      continue;
    }
    const std::optional<Axis> meant = sizes.empty() ? std::nullopt : axis_of_(sizes[i]);
    const bool equal = sizes.empty() ? scales[i] == 1
                       : meant       ? meant->role == axis.role
                               : sizes[i].extent.value && sizes[i].extent.value == axis.extent;
    if (!equal) refuse_node(model_, node, "changes more than positions, as far as can be told");
    if (!sizes.empty() && !meant && axis.is(Axis::Role::classes))
      spell_out(node, sizes_input, sizes[i], spelled_out);
  }
  return axes;
}

std::vector<bool> OnnxAxisWalker::reduced_by(const Node& node, const OnnxAxes& from) const {
  const auto axes = onnx::axes_of(model_, node);
  const bool named = axes && !axes->empty();
  const bool nothing = axes && axes->empty() && node.int_or("noop_with_empty_axes", 0) != 0;
  std::vector<bool> reduced(from.size(), !named && !nothing);
  for (const std::int64_t axis : axes.value_or(std::vector<std::int64_t>{})) {
    const std::size_t place = axis_in(axis, from.size());
    if (place >= from.size()) refuse_node(model_, node, "its axes make no sense");
    reduced[place] = true;
  }
  return reduced;
}

OnnxAxes OnnxAxisWalker::reduce(const Node& node, const OnnxAxes& from,
                                const std::vector<bool>& reduced) const {
  const bool keeps = node.int_or("keepdims", 1) != 0;
  OnnxAxes axes;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (!reduced[axis]) {
      axes.push_back(from[axis]);
      continue;
    }
    const bool same = from[axis].is(Axis::Role::single) &&
                      is(node, {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"});
    const bool mean = from[axis].is(Axis::Role::positions) && node.op_type == "ReduceMean";
    if (!same && !mean) {
      refuse_node(model_, node, "reduces over something else than the classes or all positions");
    }
    if (keeps) axes.push_back({Axis::Role::single, 1});
  }
  return axes;
}

OnnxAxes OnnxAxisWalker::pick(const Node& node, const OnnxAxes& from) const {
  const auto index = onnx::constant_value(model_, node.inputs[1]);
  const std::size_t place = axis_in(node.int_or("axis", 0), from.size());
  if (!index || index->tensor.count() != 1 || place >= from.size()) {
    refuse_node(model_, node, "picks single classes out of the logits");
  }
  if (from[place].is(Axis::Role::positions)) {
    refuse_node(model_, node, "picks one of several positions");
  }
  if (!from[place].is(Axis::Role::single)) {
    refuse_node(model_, node, "picks single classes or samples out of the logits");
  }
  const auto picked = from.begin() + static_cast<std::ptrdiff_t>(place);
  OnnxAxes axes(from.begin(), picked);
  axes.insert(axes.end(), index->tensor.rank(), Axis{Axis::Role::single, 1});
  axes.insert(axes.end(), picked + 1, from.end());
  return axes;
}

namespace {

// Which axis of the logits of a MatMul counts samples: the one that is known to. Else, of several
// that may, the first (the last, if they are columns).
struct SamplesAxis {
  std::size_t axis = 0;
  bool known = false;
};
SamplesAxis samples_axis(const onnx::Shapes::Shape* shape, std::size_t rank, std::size_t class_axis,
                         bool columns) {
  const std::size_t likeliest = columns ? rank - 1 : 0;
  std::vector<std::size_t> batches, several;
  for (std::size_t axis = 0; shape != nullptr && axis < rank; ++axis) {
    if (axis == class_axis) continue;
    if ((*shape)[axis].batch) batches.push_back(axis);
    if ((*shape)[axis].value != 1) several.push_back(axis);
  }
  if (!batches.empty()) return {batches.back(), batches.size() == 1};
  if (several.size() == 1) return {several.front(), true};
  return {likeliest, several.empty()};
}

}  // namespace

OnnxLogitAxes axes_of_logits(const onnx::Model& model, const onnx::Shapes& shapes,
                             const OnnxHead& head, std::size_t classes) {
  const onnx::Shapes::Shape* shape = shapes.shape(head.node->outputs[0]);
  const auto extent = [&](std::size_t axis) {
    return shape != nullptr && axis < shape->size() ? (*shape)[axis].value : std::nullopt;
  };
  const auto other = [&](std::size_t axis) {
    return extent(axis) == 1 ? Axis{Axis::Role::single, 1}
                             : Axis{Axis::Role::positions, extent(axis), axis + 1};
  };
  const Axis along_classes{Axis::Role::classes, static_cast<std::int64_t>(classes)};
  OnnxLogitAxes result;
  OnnxAxes& axes = result.axes;
  if (head.kind != OnnxHead::Kind::matmul) {
    axes = {{Axis::Role::samples, extent(0)}, along_classes};
    for (std::size_t axis = 2; axis < head.logits_rank; ++axis) axes.push_back(other(axis));
    return result;
  }
  result.rank_assumed = shape == nullptr;
  if (shape != nullptr && shape->size() < 2) {
    refuse_node(model, *head.node, "works on a single vector, wanted a batch axis");
  }
  const std::size_t rank = shape != nullptr ? shape->size() : 2;
  const std::size_t class_axis = rank - (head.columns ? 2 : 1);
  const SamplesAxis samples = samples_axis(shape, rank, class_axis, head.columns);
  result.samples_known = samples.known;
  result.raised_by_bias = std::max(rank, head.bias_shape.size()) - rank;
  axes.assign(result.raised_by_bias, Axis{Axis::Role::single, 1});
  for (std::size_t axis = 0; axis < rank; ++axis) {
    axes.push_back(axis == class_axis     ? along_classes
                   : axis == samples.axis ? Axis{Axis::Role::samples, extent(axis)}
                                          : other(axis));
  }
  return result;
}

}  // namespace oubli
