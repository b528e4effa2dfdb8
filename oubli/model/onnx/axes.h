#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "oubli/model/onnx/head.h"
#include "oubli/onnx/shapes.h"

namespace oubli {

// What an axis of a value behind the head counts.
struct OnnxAxis {
  enum class Role { samples, classes, single, positions };
  Role role = Role::single;
  std::optional<std::int64_t> extent{};  // if it is known; always for classes and single
  std::size_t place = 0;  // of positions: tells axes of the layer, and what they became, apart
  [[nodiscard]] bool is(Role wanted) const { return role == wanted; }
};
using OnnxAxes = std::vector<OnnxAxis>;

// The axis that `axis`, which may count from the end, means; beyond all axes if there is none.
[[nodiscard]] inline std::size_t axis_in(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// Follows axes through the operations that rearrange them (Flatten, Reshape, Squeeze, Unsqueeze,
// Transpose, Gather of an only element) or take means over positions. Every function gives the axes
// of the result, or refuses the node: Error{unfilterable}.
class OnnxAxisWalker {
 public:
  // The axis that a number read from a shape is the extent of, if that is known.
  using AxisOf = std::function<std::optional<OnnxAxis>(const onnx::Shapes::Entry&)>;

  OnnxAxisWalker(const onnx::Model& model, const onnx::Shapes& shapes, std::size_t classes,
                 AxisOf axis_of)
      : model_(model), shapes_(shapes), classes_(classes), axis_of_(std::move(axis_of)) {}

  [[nodiscard]] OnnxAxes flatten(const onnx::Node& node, const OnnxAxes& from) const;
  // `spelled_out` gains the constants that hold the number of classes.
  [[nodiscard]] OnnxAxes reshape(const onnx::Node& node, const OnnxAxes& from,
                                 std::vector<OnnxTail::ShapeConstant>& spelled_out) const;
  // Squeeze or Unsqueeze.
  [[nodiscard]] OnnxAxes squeeze(const onnx::Node& node, const OnnxAxes& from) const;
  [[nodiscard]] OnnxAxes transpose(const onnx::Node& node, const OnnxAxes& from) const;
  // GlobalAveragePool, or AveragePool of all there is, of a map of logits, which only a convolution
  // makes.
  [[nodiscard]] OnnxAxes pool(const onnx::Node& node, const OnnxAxes& from, bool convolution) const;
  // Resize or Upsample of positions: mixtures of some, with weights that sum to one, for all
  // classes the same. `spelled_out` as above.
  [[nodiscard]] OnnxAxes resize(const onnx::Node& node, const OnnxAxes& from,
                                std::vector<OnnxTail::ShapeConstant>& spelled_out) const;
  // Which axes a reduction works on.
  [[nodiscard]] std::vector<bool> reduced_by(const onnx::Node& node, const OnnxAxes& from) const;
  // A reduction over `reduced`, which the classes are not among: single axes, a mean of positions.
  [[nodiscard]] OnnxAxes reduce(const onnx::Node& node, const OnnxAxes& from,
                                const std::vector<bool>& reduced) const;
  // logits[:, :, 0]: the only element of a single axis.
  [[nodiscard]] OnnxAxes pick(const onnx::Node& node, const OnnxAxes& from) const;

 private:
  class Regrouping;

  // Several axes as one: number `place` of the result of `node`.
  [[nodiscard]] OnnxAxis merge(const onnx::Node& node, std::span<const OnnxAxis> axes,
                               std::size_t place) const;
  // The number of classes, which `node` reads as part of its input number `input`: to be changed
  // where it stands, which nothing else may read.
  void spell_out(const onnx::Node& node, std::size_t input, const onnx::Shapes::Entry& entry,
                 std::vector<OnnxTail::ShapeConstant>& spelled_out) const;
  // Squeeze that does not say what it removes.
  [[nodiscard]] OnnxAxes squeeze_all(const onnx::Node& node, const OnnxAxes& from) const;

  const onnx::Model& model_;
  const onnx::Shapes& shapes_;
  std::size_t classes_;
  AxisOf axis_of_;
};

// The axes of the logits, right behind the layer and its bias.
struct OnnxLogitAxes {
  OnnxAxes axes;
  bool samples_known = true;       // else the one that is said to count them is the likeliest
  std::size_t raised_by_bias = 0;  // how many of the first come from a bias of a higher rank
  bool rank_assumed = false;       // to be confirmed by what is declared further on
};
[[nodiscard]] OnnxLogitAxes axes_of_logits(const onnx::Model& model, const onnx::Shapes& shapes,
                                           const OnnxHead& head, std::size_t classes);

}  // namespace oubli
