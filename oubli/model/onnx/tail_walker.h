#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/model/onnx/axes.h"
#include "oubli/model/onnx/head.h"
#include "oubli/model/onnx/shift.h"
#include "oubli/onnx/shapes.h"

namespace oubli {

// The walk from the logits to the outputs: what every value on the way has of the classes. It
// refuses what it cannot follow and notes in the head's tail what a deletion has to change. The
// walk itself is in tail.cpp, single operations are in tail_steps.cpp.
class OnnxTailWalker {
 public:
  OnnxTailWalker(const onnx::Model& model, const onnx::Shapes& shapes, OnnxHead& head,
                 std::size_t classes)
      : model_(model),
        shapes_(shapes),
        head_(head),
        classes_(classes),
        readers_(onnx::readers_of(model.graph())),
        axes_(model, shapes, classes,
              [this](const onnx::Shapes::Entry& entry) { return axis_of(entry); }) {}
  OnnxTailWalker(const OnnxTailWalker&) = delete;  // axes_ refers to this object
  OnnxTailWalker& operator=(const OnnxTailWalker&) = delete;

  void walk();

 private:
  // What is known of a value behind the head.
  struct State {
    enum class Kind {
      classes,  // one number per class
      reduced,  // one number per answer: a maximum, a sum
      indices,  // numbers of classes: ArgMax, TopK
      labels,   // class labels looked up by number
      maps      // from labels to numbers: ZipMap
    };
    Kind kind = Kind::classes;
    LogitShift shift{};
    OnnxAxes axes;  // of values with classes; of others, as long as they are known
    std::shared_ptr<const OnnxLabels> labels;  // of labels, if they are known
    const onnx::Node* bent_by = nullptr;       // the first step that is not linear in the logits
    bool averaged = false;                     // over some positions or all
    bool resized = false;                      // its positions are mixtures of those of the layer
    bool repeated = false;     // one per answer, for every class along the last axis
    bool scaled = false;       // no longer the logits themselves
    bool rank_follows = true;  // from the rank of the logits, whatever that is
    [[nodiscard]] std::size_t rank() const { return axes.size(); }
    [[nodiscard]] std::size_t axis() const;                  // of the classes
    [[nodiscard]] bool spatial() const;                      // it has positions
    [[nodiscard]] State bent(const onnx::Node& node) const;  // by that step
    [[nodiscard]] bool has_classes() const { return kind == Kind::classes; }
  };
  using States = std::vector<const State*>;  // of a node's inputs; null: does not come from logits

  [[noreturn]] void refuse(const onnx::Node& node, std::string_view reason) const;
  static bool is(const onnx::Node& node, std::initializer_list<std::string_view> names);
  void set(const std::string& value, const State& state);
  void start();
  void start_classifier();
  // Where the rows of features and logits are.
  void note_rows(const OnnxLogitAxes& found);
  // What the file declares of the values behind the layer must be what the walk has made of them.
  void check_declared() const;
  void finish_output(const onnx::ValueInfo& output);
  void follow(const onnx::Node& node);
  // Numbers read from the shape of a value with classes. The number of samples is no concern of
  // ours; the number of classes may only reach a Reshape.
  void follow_extents(const onnx::Node& node);
  // The axis that a number read from a shape is the extent of.
  [[nodiscard]] std::optional<OnnxAxis> axis_of(const onnx::Shapes::Entry& entry) const;

  void classes_through(const onnx::Node& node, const State& state);
  // Values without a class axis: a maximum, an index, a label.
  void rest_through(const onnx::Node& node, const State& state);
  // `state` behind `node`, which does that to a common shift.
  void shifted(const onnx::Node& node, State state, const std::optional<LogitShift>& shift);
  // To whole numbers or truth values: logits that differ by a common shift are rounded differently.
  [[nodiscard]] bool rounds(const onnx::Node& node) const;
  void check_one_scale(const onnx::Node& node) const;
  // One number per answer lies along the classes of another value: where there are positions, each
  // has its own.
  [[nodiscard]] static bool goes_with(const State& reduced, const State& classes);

  void dropout(const onnx::Node& node, const State& state);
  void softmax(const onnx::Node& node, const State& state);
  void pool(const onnx::Node& node, State state);
  // What is not linear in the logits cannot be averaged or mixed any more.
  void require_straight(const State& state) const;
  void resize(const onnx::Node& node, State state);
  // The pooled logits are less to look at than the map, which is averaged where they do not do.
  void pooled(const onnx::Node& node, const State& before, const State& state);
  void reduce(const onnx::Node& node, State state);
  void choose(const onnx::Node& node, State state);
  void rearranged(const onnx::Node& node, State state, OnnxAxes axes);
  void flatten(const onnx::Node& node, State state);
  void reshape(const onnx::Node& node, State state);
  // Behind a Reshape that tells samples and positions apart, which the layer has in one axis.
  void rows_have_positions(const onnx::Node& node, const OnnxAxes& axes);
  void squeeze(const onnx::Node& node, State state);
  // A stored value of a single element.
  [[nodiscard]] std::optional<double> single_number(const std::string& value) const;
  void binary(const onnx::Node& node, const States& states);
  // With stored numbers, of which minus infinity changes nothing.
  void maximum(const onnx::Node& node, const States& states);
  // One number per sample, as often as there are classes.
  void expand(const onnx::Node& node, const State& state);
  // labels[index]: a constant with one label per class loses the forgotten ones.
  void look_up(const onnx::Node& node, const States& states);
  // scikit-learn's: a row divided by its norm, a map by label, one label for another.
  void normalize(const onnx::Node& node, const State& state);
  void zip_map(const onnx::Node& node, State state);
  void encode_labels(const onnx::Node& node, State state);

  const onnx::Model& model_;
  const onnx::Shapes& shapes_;
  OnnxHead& head_;
  std::size_t classes_;
  std::map<std::string, onnx::Readers, std::less<>> readers_;
  OnnxAxisWalker axes_;
  bool rank_assumed_ = false;  // of the logits, until something declared confirms it
  std::map<std::string, State, std::less<>> states_;
  std::set<std::string, std::less<>> extents_;  // numbers that may be the number of classes
};

}  // namespace oubli
