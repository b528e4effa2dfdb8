#include "oubli/model/onnx/rewrite.h"

#include <algorithm>
#include <set>
#include <utility>

#include "oubli/model/name_text.h"
#include "oubli/model/onnx/classifier.h"
#include "oubli/model/onnx/fold.h"
#include "oubli/model/onnx/integer_rewrite.h"
#include "oubli/model/onnx/labels.h"
#include "oubli/model/onnx/stale.h"
#include "oubli/onnx/builder.h"
#include "oubli/onnx/edit.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Field;
using onnx::Message;
using onnx::Model;
using onnx::Node;

class Rewriter {
 public:
  Rewriter(const Model& model, const OnnxHead& head, const NewHead& new_head,
           std::span<const std::size_t> forget, const std::filesystem::path& output)
      : model_(model),
        head_(head),
        new_head_(new_head),
        forget_(forget.begin(), forget.end()),
        output_(output),
        classes_(head.classes()),
        kept_(classes_ - forget.size()),
        edit_(model) {}

  OnnxRewrite run() {
    check_enough_left(model_, head_, kept_);
    OnnxStaleCopies stale(edit_, head_.view(), forget_);
    stale.remove_nodes();  // first: they are no readers of the weights that count
    replace_layer();
    for (const Node* node : head_.folded) {
      edit_.make_identity(*node, *folded_input(model_, *node));
      edit_.note(
          fmt::format("the {}, which scaled and shifted every class, is part of the new layer",
                      node->describe()));
    }
    stale.remove_nodes();
    stale.remove_tensors();
    for (const OnnxTail::Value& value : head_.tail.values) fix_shape_info(value);
    for (const OnnxTail::ShapeConstant& shape : head_.tail.shapes) fix_reshape(shape);
    const std::set<std::string> labels(head_.tail.label_constants.begin(),
                                       head_.tail.label_constants.end());
    for (const std::string& value : labels) cut_labels(edit_, value, classes_, forget_);
    for (const OnnxTail::LabelTable& table : head_.tail.label_tables)
      cut_label_table(edit_, table, forget_);
    cut_metadata();
    OnnxRewrite result;
    onnx::Patches patches = edit_.finish();
    result.side_files = place_side_files(model_, edit_.message(), std::move(patches), output_);
    for (const std::string& output : head_.tail.other_outputs) {
      edit_.note(fmt::format(
          "output '{}' does not come from the logits and is unchanged: it may still tell the class",
          output));
    }
    result.findings = std::move(edit_.findings());
    result.old_head_kept = edit_.kept_old();
    result.message = std::move(edit_.message());
    return result;
  }

 private:
  // ---- the layer ----

  void replace_layer() {
    if (head_.kind == OnnxHead::Kind::classifier)
      return replace_coefficients(edit_, *head_.node, new_head_.weights, *new_head_.bias);
    const bool products = head_.integers && multiplies_integers(*head_.node);
    if (head_.integers && !head_.as_floats)
      replace_integers(edit_, head_, new_head_, retained());
    else if (products)
      replace_products(edit_, head_, new_head_);
    else
      replace_weights();
    // A bias in whole numbers, or of a layer that is another now, is in its place.
    const bool bias_is_there =
        head_.integers &&
        (head_.integers->bias ? !head_.as_floats || products
                              : products && (head_.integers->scale_product == nullptr ||
                                             (head_.as_floats && new_head_.bias_added)));
    if (!bias_is_there) replace_bias();
    if (head_.as_floats) drop_rounding(edit_, head_);
  }

  std::vector<std::size_t> retained() const {
    std::vector<std::size_t> left;
    for (std::size_t j = 0; j < classes_; ++j)
      if (std::ranges::find(forget_, j) == forget_.end()) left.push_back(j);
    return left;
  }

  void replace_weights() {
    std::vector<std::size_t> used = new_head_.weights.shape;
    if (head_.kind == OnnxHead::Kind::conv) used.resize(head_.logits_rank, 1);
    edit_.replace_constant(*head_.node, head_.weights_input, head_.weights, new_head_.weights, used,
                           used);
  }

  void replace_bias() {
    if (!head_.bias) {
      if (new_head_.bias) add_bias(*new_head_.bias);
      return;
    }
    if (head_.bias_unused && !new_head_.bias) {
      // Not added to the logits, but it still tells of the class: zeros take its place.
      return put_bias({head_.bias->tensor.dtype,
                       {kept_},
                       std::vector<std::byte>(kept_ * size_of(head_.bias->tensor.dtype))});
    }
    if (head_.bias_unused) set_beta_to_one();
    put_bias(*new_head_.bias);
  }

  void set_beta_to_one() {
    const onnx::Attribute& beta = *head_.node->attribute("beta");
    Message& attribute =
        onnx::open(edit_.node_message(*head_.node).fields[beta.field], model_.what());
    if (Field* value = attribute.find(schema::attribute::kFloat)) {
      *value = onnx::float_field(schema::attribute::kFloat, 1);
    }
  }

  void put_bias(const Tensor& bias) {
    const Node& node = head_.bias_node != nullptr ? *head_.bias_node : *head_.node;
    std::vector<std::size_t> shape = head_.bias_shape;
    const auto axis = std::ranges::find(shape, classes_);
    if (axis != shape.end()) {
      *axis = kept_;
    } else {
      shape = bias_shape_for_new();
      // A single number of a higher rank than the product raised the rank of the sum.
      while (shape.size() < head_.bias_shape.size()) shape.insert(shape.begin(), 1);
    }
    edit_.replace_constant(node, head_.bias_input, *head_.bias, bias, shape, shape);
  }

  std::vector<std::size_t> bias_shape_for_new() const {
    if (head_.kind == OnnxHead::Kind::matmul && head_.columns) return {kept_, 1};
    return {kept_};
  }

  void add_bias(const Tensor& bias) {
    if (head_.bias_unused) set_beta_to_one();
    const std::string name = edit_.fresh_name(head_.node->inputs[head_.weights_input] + "_bias");
    edit_.add_initializer(name, bias, bias_shape_for_new());
    if (head_.kind != OnnxHead::Kind::matmul) return edit_.put_input(*head_.node, 2, name);
    // MatMul has no bias of its own: an Add after it takes over the name of its result.
    const Node& last = head_.between.empty() ? *head_.node : *head_.between.back();
    const std::string& logits = last.outputs[0];
    const std::string product = edit_.fresh_name(logits + "_product");
    onnx::set_text(*edit_.node_message(last).find(schema::node::kOutput), product);
    edit_.insert_after(last, onnx::node_message("Add", {product, name}, {logits}, {}, ""));
  }

  // ---- behind the layer ----

  void fix_shape_info(const OnnxTail::Value& value) {
    const auto fix = [&](const onnx::ValueInfo* info) {
      if (!info->shape || value.class_axis >= info->shape->size()) return;
      if ((*info->shape)[value.class_axis].value == static_cast<std::int64_t>(classes_))
        edit_.set_extent(info->field, value.class_axis, kept_);
    };
    std::ranges::for_each(model_.graph().output_infos(value.name), fix);
    std::ranges::for_each(model_.graph().infos(value.name), fix);
  }

  void fix_reshape(const OnnxTail::ShapeConstant& shape) {
    const Node& node = *shape.node;
    const onnx::Attribute* attribute = node.attribute("shape");
    if (attribute != nullptr && node.op_type == "Reshape") {
      std::vector<std::int64_t> values = attribute->ints;
      values[shape.position] = static_cast<std::int64_t>(kept_);
      edit_.set_list(node, *attribute, values);
      return;
    }
    const onnx::Constant constant = onnx::constant_value(model_, node.inputs[shape.input]).value();
    const TensorView& old = constant.tensor;
    Tensor tensor{old.dtype, old.shape, {old.bytes.begin(), old.bytes.end()}};
    const std::size_t size = size_of(old.dtype);
    for (std::size_t i = 0; i < size; ++i) {
      tensor.bytes[shape.position * size + i] = static_cast<std::byte>(kept_ >> (8 * i));
    }
    const std::string& value = node.inputs[shape.input];
    if (edit_.only_reader(value, node)) {
      edit_.replace_constant(node, shape.input, constant, tensor, tensor.shape, tensor.shape);
      return;
    }
    const std::string name = edit_.fresh_name(value);
    edit_.add_initializer(name, tensor, tensor.shape);
    edit_.set_input(node, shape.input, name);
  }

  void cut_metadata() {
    for (const onnx::MetadataEntry& entry : model_.metadata()) {
      std::vector<NameEntry> found = names_in_entry(entry.key, entry.value);
      std::string value = entry.value;
      bool changed = false;
      for (auto names = found.rbegin(); names != found.rend(); ++names) {
        if (names->names.names().size() != classes_) continue;
        value.replace(names->begin, names->names.size(), names->names.without(forget_));
        changed = true;
      }
      if (!changed) {
        if (is_class_name_key(entry.key) && !entry.value.empty()) {
          edit_.note(
              fmt::format("metadata '{}' does not hold {} class names in a spelling known here; it "
                          "is unchanged",
                          entry.key, classes_));
        }
        continue;
      }
      Message& message = onnx::open(edit_.message().fields[entry.field], model_.what());
      onnx::set_text(*message.find(schema::entry::kValue), value);
    }
  }

  const Model& model_;
  const OnnxHead& head_;
  const NewHead& new_head_;
  std::vector<std::size_t> forget_;
  std::filesystem::path output_;
  std::size_t classes_, kept_;
  onnx::Editor edit_;
};

}  // namespace

OnnxRewrite rewrite_onnx(const Model& model, const OnnxHead& head, const NewHead& new_head,
                         std::span<const std::size_t> forget, const std::filesystem::path& output) {
  return Rewriter(model, head, new_head, forget, output).run();
}

}  // namespace oubli
