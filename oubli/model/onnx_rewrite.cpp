#include "oubli/model/onnx_rewrite.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "oubli/model/name_text.h"
#include "oubli/model/residue.h"
#include "oubli/onnx/builder.h"
#include "oubli/onnx/external.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Field;
using onnx::Message;
using onnx::Model;
using onnx::Node;
using onnx::WireType;

// dims of a TensorProto, in the encoding they had.
void set_dims(Message& tensor, std::span<const std::size_t> dims) {
  std::vector<Field*> fields;
  for (Field& field : tensor.fields) {
    if (field.number == schema::tensor::kDims && !field.removed) fields.push_back(&field);
  }
  const bool one_each =
      fields.size() == dims.size() && std::ranges::all_of(fields, [](const Field* field) {
        return field->type == WireType::varint;
      });
  if (one_each) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (fields[i]->value != dims[i]) onnx::set_varint(*fields[i], dims[i]);
    }
    return;
  }
  for (Field* field : fields) field->removed = true;
  const std::vector<std::int64_t> values(dims.begin(), dims.end());
  tensor.add(onnx::packed_field(schema::tensor::kDims, values));
}

void set_raw_data(Message& tensor, const std::vector<std::byte>& bytes) {
  bool done = false;
  for (Field& field : tensor.fields) {
    switch (field.number) {
      case schema::tensor::kRawData:
        onnx::set_bytes(field, bytes);
        done = true;
        break;
      case schema::tensor::kFloatData:
      case schema::tensor::kInt32Data:
      case schema::tensor::kInt64Data:
      case schema::tensor::kDoubleData:
      case schema::tensor::kUint64Data:
      case schema::tensor::kExternalData:
      case schema::tensor::kDataLocation:
        field.removed = true;
        break;
      default:
        break;
    }
  }
  if (!done) tensor.add(onnx::bytes_field(schema::tensor::kRawData, bytes));
}

class Rewriter {
 public:
  Rewriter(Model& model, const OnnxHead& head, const NewHead& new_head,
           std::span<const std::size_t> forget, const std::filesystem::path& output)
      : model_(model),
        graph_(model.graph_message()),
        head_(head),
        new_head_(new_head),
        forget_(forget.begin(), forget.end()),
        output_(output),
        classes_(head.classes()),
        kept_(classes_ - forget.size()),
        readers_(onnx::readers_of(model.graph())) {}

  OnnxRewrite run() {
    if (head_.tail.largest_k > kept_) {
      fail(ErrorCode::unfilterable,
           "{}: a TopK asks for the {} best classes, and only {} would be left", model_.what(),
           head_.tail.largest_k, kept_);
    }
    remove_dead_nodes();  // first: they are no readers of the weights that count
    replace_weights();
    replace_bias();
    remove_stale_copies();
    for (const OnnxTail::Value& value : head_.tail.values) fix_shape_info(value);
    for (const OnnxTail::ShapeConstant& shape : head_.tail.shapes) fix_reshape(shape);
    const std::set<std::string> labels(head_.tail.label_constants.begin(),
                                       head_.tail.label_constants.end());
    for (const std::string& value : labels) cut_labels(value);
    cut_metadata();
    place_side_files();
    insert_nodes();
    for (const std::string& output : head_.tail.other_outputs) {
      result_.findings.push_back(fmt::format(
          "output '{}' does not come from the logits and is unchanged: it may still tell the class",
          output));
    }
    return std::move(result_);
  }

 private:
  Message& node_message(const Node& node) {
    return onnx::open(graph_.fields[node.field], model_.what());
  }

  // ---- where a constant goes ----

  bool only_reader(const std::string& value, const Node& node) const {
    const auto found = readers_.find(value);
    if (found == readers_.end()) return true;
    const onnx::Readers& readers = found->second;
    return !readers.graph_output && !readers.subgraph && readers.nodes.size() == 1 &&
           &model_.graph().nodes[readers.nodes.front()] == &node;
  }

  // Puts `tensor` in the place of the constant that `node` reads as its input number `input`.
  // `stored_shape`: its shape if it replaces a stored tensor in place; else `used_shape`.
  void replace_constant(const Node& node, std::size_t input, const onnx::Constant& constant,
                        const Tensor& tensor, const std::vector<std::size_t>& stored_shape,
                        const std::vector<std::size_t>& used_shape) {
    const std::string& value = node.inputs[input];
    if (!only_reader(value, node)) {
      std::string name = fresh_name(value);
      add_initializer(name, tensor, used_shape);
      set_input(node, input, name);
      keep_old(value);
      return;
    }
    if (constant.chain.empty() && constant.initializer != nullptr) {
      replace_initializer(*constant.initializer, tensor, stored_shape);
      return;
    }
    if (constant.chain.empty() && constant.constant_node->attribute("value") != nullptr) {
      const onnx::Attribute& attribute = *constant.constant_node->attribute("value");
      Message& message =
          onnx::open(node_message(*constant.constant_node).fields[attribute.field], model_.what());
      Message& stored = onnx::open(*message.find(schema::attribute::kTensor), model_.what());
      set_dims(stored, stored_shape);
      set_raw_data(stored, tensor.bytes);
      set_value_info(value, stored_shape);
      return;
    }
    // Behind other nodes: the new tensor takes the name of what the last of them made.
    drop_producer(value);
    add_initializer(value, tensor, used_shape);
    set_value_info(value, used_shape);
  }

  void replace_initializer(const onnx::TensorInfo& info, const Tensor& tensor,
                           const std::vector<std::size_t>& shape) {
    Message& stored = onnx::open(graph_.fields[info.field], model_.what());
    set_dims(stored, shape);
    set_value_info(info.name, shape);
    if (info.location.empty()) {
      set_raw_data(stored, tensor.bytes);
      return;
    }
    const std::uint64_t old_size = model_.load(info).view.bytes.size();
    for (const onnx::TensorInfo& other : model_.graph().initializers) {
      if (other.name == info.name || other.location != info.location) continue;
      const std::uint64_t size = model_.load(other).view.bytes.size();
      if (other.external_offset < info.external_offset + old_size &&
          info.external_offset < other.external_offset + size) {
        // Two tensors over the same bytes: the other one keeps them.
        set_raw_data(stored, tensor.bytes);
        keep_old(other.name);
        return;
      }
    }
    if (tensor.bytes.size() > old_size) {  // a single number spread over the classes
      set_raw_data(stored, tensor.bytes);
      patches_[info.location].push_back({info.external_offset, old_size, {}});
      return;
    }
    for (Field& field : stored.fields) {
      if (field.number != schema::tensor::kExternalData) continue;
      Message& entry = onnx::open(field, model_.what());
      const std::string_view key = entry.text_or(schema::entry::kKey, "");
      if (key == "length")
        onnx::set_text(*entry.find(schema::entry::kValue), std::to_string(tensor.bytes.size()));
      if (key == "checksum") field.removed = true;
    }
    patches_[info.location].push_back({info.external_offset, old_size, tensor.bytes});
  }

  void keep_old(const std::string& value) {
    result_.old_head_kept = true;
    result_.findings.push_back(
        fmt::format("'{}' is used elsewhere in the model too (tied weights): it is kept as it is, "
                    "the forgotten row with it",
                    value));
  }

  std::string fresh_name(const std::string& base) {
    std::string name = base + "_filtered";
    while (made_.contains(name) || readers_.contains(name) ||
           model_.graph().producer(name) != nullptr ||
           model_.graph().initializer(name) != nullptr) {
      name += "_";
    }
    made_.insert(name);
    return name;
  }

  void add_initializer(const std::string& name, const Tensor& tensor,
                       const std::vector<std::size_t>& shape) {
    const TensorView view{tensor.dtype, shape, tensor.bytes, name};
    graph_.add(onnx::message_field(schema::graph::kInitializer, onnx::tensor_message(name, view)));
    if (model_.ir_version() >= 4) return;
    std::vector<onnx::Dim> dims;
    dims.reserve(shape.size());
    for (const std::size_t extent : shape) dims.emplace_back(static_cast<std::int64_t>(extent));
    graph_.add(onnx::message_field(
        schema::graph::kInput,
        onnx::value_info_message(name, onnx::data_type_of(tensor.dtype), dims)));
  }

  void set_input(const Node& node, std::size_t input, const std::string& name) {
    std::size_t seen = 0;
    for (Field& field : node_message(node).fields) {
      if (field.number != schema::node::kInput) continue;
      if (seen++ == input) return onnx::set_text(field, name);
    }
  }

  // Removes the node that makes `value`, then everything constant that nothing reads any more.
  void drop_producer(const std::string& value) {
    const Node* node = model_.graph().producer(value);
    if (node == nullptr) return;
    graph_.fields[node->field].removed = true;
    for (const std::string& input : node->inputs) {
      const auto found = readers_.find(input);
      if (found == readers_.end()) continue;
      onnx::Readers& readers = found->second;
      const auto index = static_cast<std::size_t>(node - model_.graph().nodes.data());
      std::erase(readers.nodes, index);
      if (readers.count() != 0) {
        if (&input == &node->inputs.front()) keep_old(input);
        continue;
      }
      drop_initializer(input);
      drop_producer(input);
    }
  }

  void drop_initializer(const std::string& name) {
    const onnx::TensorInfo* info = model_.graph().initializer(name);
    if (info == nullptr) return;
    graph_.fields[info->field].removed = true;
    if (!info->location.empty()) {
      patches_[info->location].push_back(
          {info->external_offset, model_.load(*info).view.bytes.size(), {}});
    }
    for (const auto* infos : {&model_.graph().inputs, &model_.graph().value_infos}) {
      for (const onnx::ValueInfo& value : *infos) {
        if (value.name == name) graph_.fields[value.field].removed = true;
      }
    }
  }

  // ---- the layer ----

  static std::vector<std::size_t> with_extent(std::vector<std::size_t> shape, std::size_t axis,
                                              std::size_t extent) {
    shape.at(axis) = extent;
    return shape;
  }

  void replace_weights() {
    std::vector<std::size_t> used = new_head_.weights.shape;
    if (head_.kind == OnnxHead::Kind::conv) used.resize(head_.logits_rank, 1);
    replace_constant(*head_.node, head_.weights_input, head_.weights, new_head_.weights, used,
                     used);
  }

  void replace_bias() {
    if (!head_.bias) {
      if (new_head_.bias) add_bias(*new_head_.bias);
      return;
    }
    if (head_.bias_unused && !new_head_.bias) {
      // Not added to the logits, but it still tells of the class: zeros take its place.
      return put_bias({head_.bias->tensor.view.dtype,
                       {kept_},
                       std::vector<std::byte>(kept_ * size_of(head_.bias->tensor.view.dtype))});
    }
    if (head_.bias_unused) set_beta_to_one();
    put_bias(*new_head_.bias);
  }

  void set_beta_to_one() {
    const onnx::Attribute& beta = *head_.node->attribute("beta");
    Message& attribute = onnx::open(node_message(*head_.node).fields[beta.field], model_.what());
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
    replace_constant(node, head_.bias_input, *head_.bias, bias, shape, shape);
  }

  std::vector<std::size_t> bias_shape_for_new() const {
    if (head_.kind == OnnxHead::Kind::matmul && head_.columns) return {kept_, 1};
    return {kept_};
  }

  void add_bias(const Tensor& bias) {
    if (head_.bias_unused) set_beta_to_one();
    const std::string name = fresh_name(head_.node->inputs[head_.weights_input] + "_bias");
    add_initializer(name, bias, bias_shape_for_new());
    Message& node = node_message(*head_.node);
    if (head_.kind != OnnxHead::Kind::matmul) {
      if (head_.node->inputs.size() > 2) return set_input(*head_.node, 2, name);
      const auto last =
          std::find_if(node.fields.rbegin(), node.fields.rend(),
                       [](const Field& field) { return field.number == schema::node::kInput; });
      node.fields.insert(last.base(), onnx::bytes_field(schema::node::kInput, name));
      return;
    }
    // MatMul has no bias of its own: an Add after it takes over the name of its result.
    const std::string& logits = head_.node->outputs[0];
    const std::string product = fresh_name(logits + "_product");
    onnx::set_text(*node.find(schema::node::kOutput), product);
    pending_ = {head_.node->field, onnx::node_message("Add", {product, name}, {logits}, {}, "")};
  }

  // Insertions move the positions of later fields, so they come last.
  void insert_nodes() {
    if (!pending_) return;
    graph_.fields.insert(graph_.fields.begin() + static_cast<std::ptrdiff_t>(pending_->first) + 1,
                         onnx::message_field(schema::graph::kNode, std::move(pending_->second)));
  }

  // Whether these numbers, a part of the old model, hold a forgotten row.
  bool holds_forgotten_row(std::span<const std::byte> bytes) {
    if (!scan_) scan_.emplace(head_.view(), forget_);
    return !scan_->scan(bytes, 1).empty();
  }

  bool is_read(const std::string& value) const {
    const auto readers = readers_.find(value);
    return readers != readers_.end() && readers->second.count() != 0;
  }

  // Nodes that nothing reads but that hold or pass on the forgotten row: constants, and what only
  // rearranges or converts them. From the last to the first, since one may be read by the next.
  void remove_dead_nodes() {
    const std::vector<Node>& nodes = model_.graph().nodes;
    for (std::size_t index = nodes.size(); index-- > 0;) {
      const Node& node = nodes[index];
      if (graph_.fields[node.field].removed || node.outputs.size() != 1 || is_read(node.outputs[0]))
        continue;
      const std::optional<onnx::Constant> constant = onnx::constant_value(model_, node.outputs[0]);
      if (!constant || !is_float(constant->tensor.view.dtype) ||
          !holds_forgotten_row(constant->tensor.view.bytes))
        continue;
      graph_.fields[node.field].removed = true;
      for (const std::string& input : node.inputs)
        if (const auto readers = readers_.find(input); readers != readers_.end())
          std::erase(readers->second.nodes, index);
      for (const onnx::ValueInfo& value : model_.graph().value_infos)
        if (value.name == node.outputs[0]) graph_.fields[value.field].removed = true;
      result_.findings.push_back(fmt::format(
          "the {}, which nothing read, held the forgotten row and was removed", node.describe()));
    }
  }

  // Initializers and constants that nothing reads but that hold the forgotten row.
  void remove_stale_copies() {
    remove_dead_nodes();
    for (const onnx::TensorInfo& info : model_.graph().initializers) {
      if (graph_.fields[info.field].removed || is_read(info.name)) continue;
      const auto dtype = onnx::dtype_of(info.data_type);
      if (!dtype || !is_float(*dtype) || !holds_forgotten_row(model_.load(info).view.bytes))
        continue;
      drop_initializer(info.name);
      result_.findings.push_back(
          fmt::format("the unused tensor '{}' held the forgotten row and was removed", info.name));
    }
  }

  // ---- behind the layer ----

  // Gives the shape in a value's type one new extent, if it stated the old one.
  void set_extent(Field& value_info, std::size_t axis, std::size_t extent) {
    Message& info = onnx::open(value_info, model_.what());
    Field* type = info.find(schema::value_info::kType);
    if (type == nullptr) return;
    Field* tensor = onnx::open(*type, model_.what()).find(schema::type::kTensorType);
    if (tensor == nullptr) return;
    Field* shape = onnx::open(*tensor, model_.what()).find(schema::type::kShape);
    if (shape == nullptr) return;
    std::size_t seen = 0;
    for (Field& field : onnx::open(*shape, model_.what()).fields) {
      if (field.number != schema::shape::kDim || seen++ != axis) continue;
      Field* number = onnx::open(field, model_.what()).find(schema::shape::kDimValue);
      if (number != nullptr && number->value != extent) onnx::set_varint(*number, extent);
    }
  }

  void fix_shape_info(const OnnxTail::Value& value) {
    for (const auto* infos : {&model_.graph().outputs, &model_.graph().value_infos}) {
      for (const onnx::ValueInfo& info : *infos) {
        if (info.name != value.name || !info.shape || value.class_axis >= info.shape->size())
          continue;
        if ((*info.shape)[value.class_axis].value == static_cast<std::int64_t>(classes_)) {
          set_extent(graph_.fields[info.field], value.class_axis, kept_);
        }
      }
    }
  }

  // A stored tensor's own entry among inputs and value_info.
  void set_value_info(const std::string& name, const std::vector<std::size_t>& shape) {
    for (const auto* infos : {&model_.graph().inputs, &model_.graph().value_infos}) {
      for (const onnx::ValueInfo& info : *infos) {
        if (info.name != name || !info.shape || info.shape->size() != shape.size()) continue;
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
          set_extent(graph_.fields[info.field], axis, shape[axis]);
        }
      }
    }
  }

  void fix_reshape(const OnnxTail::ShapeConstant& shape) {
    const Node& node = *shape.node;
    const onnx::Attribute* attribute = node.attribute("shape");
    if (attribute != nullptr && node.op_type == "Reshape") {
      std::vector<std::int64_t> values = attribute->ints;
      values[shape.position] = static_cast<std::int64_t>(kept_);
      Message& message = onnx::open(node_message(node).fields[attribute->field], model_.what());
      for (Field& field : message.fields) {
        if (field.number == schema::attribute::kInts) field.removed = true;
      }
      message.add(onnx::packed_field(schema::attribute::kInts, values));
      return;
    }
    const onnx::Constant constant = onnx::constant_value(model_, node.inputs[shape.input]).value();
    const TensorView& old = constant.tensor.view;
    Tensor tensor{old.dtype, old.shape, {old.bytes.begin(), old.bytes.end()}};
    const std::size_t size = size_of(old.dtype);
    for (std::size_t i = 0; i < size; ++i) {
      tensor.bytes[shape.position * size + i] = static_cast<std::byte>(kept_ >> (8 * i));
    }
    const std::string& value = node.inputs[shape.input];
    if (only_reader(value, node)) {
      replace_constant(node, shape.input, constant, tensor, tensor.shape, tensor.shape);
      return;
    }
    const std::string name = fresh_name(value);
    add_initializer(name, tensor, tensor.shape);
    set_input(node, shape.input, name);
  }

  void cut_labels(const std::string& value) {
    const onnx::TensorInfo* initializer = model_.graph().initializer(value);
    const Node* maker = model_.graph().producer(value);
    const onnx::Attribute* attribute = maker == nullptr ? nullptr : maker->attribute("value");
    if (initializer == nullptr && (attribute == nullptr || maker->op_type != "Constant")) {
      fail(ErrorCode::unfilterable, "{}: the labels '{}' are computed, wanted stored ones",
           model_.what(), value);
    }
    Message* stored = nullptr;
    onnx::TensorInfo info;
    if (initializer != nullptr) {
      stored = &onnx::open(graph_.fields[initializer->field], model_.what());
      info = *initializer;
    } else {
      Message& message = onnx::open(node_message(*maker).fields[attribute->field], model_.what());
      stored = &onnx::open(*message.find(schema::attribute::kTensor), model_.what());
      info = model_.tensor_info(attribute->tensor, value);
    }
    std::vector<std::size_t> shape(info.dims.begin(), info.dims.end());
    const auto axis = std::ranges::find(shape, classes_);
    const bool vector = std::ranges::count_if(shape, [](std::size_t n) { return n != 1; }) == 1;
    if (axis == shape.end() || !vector) {
      fail(ErrorCode::unfilterable, "{}: the labels '{}' are not one per class", model_.what(),
           value);
    }
    *axis = kept_;
    set_dims(*stored, shape);
    set_value_info(value, shape);
    if (!onnx::dtype_of(info.data_type)) {  // strings
      std::size_t index = 0;
      for (Field& field : stored->fields) {
        if (field.number != schema::tensor::kStringData) continue;
        if (is_forgotten(index++)) field.removed = true;
      }
      return;
    }
    const onnx::LoadedTensor loaded = model_.load(info);
    const std::size_t size = size_of(loaded.view.dtype);
    std::vector<std::byte> kept;
    for (std::size_t i = 0; i < classes_; ++i) {
      if (is_forgotten(i)) continue;
      const auto element = loaded.view.bytes.subspan(i * size, size);
      kept.insert(kept.end(), element.begin(), element.end());
    }
    set_raw_data(*stored, kept);
    // 0, 1, 2, ...: these are no names but the old numbers, which stay what callers know.
    result_.findings.push_back(
        fmt::format("labels '{}' keep their numbers, without the forgotten ones", value));
  }

  bool is_forgotten(std::size_t index) const {
    return std::ranges::find(forget_, index) != forget_.end();
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
          result_.findings.push_back(
              fmt::format("metadata '{}' does not hold {} class names in a spelling known here; it "
                          "is unchanged",
                          entry.key, classes_));
        }
        continue;
      }
      Message& message = onnx::open(model_.message().fields[entry.field], model_.what());
      onnx::set_text(*message.find(schema::entry::kValue), value);
    }
  }

  // ---- external data ----

  void place_side_files() {
    const std::vector<std::string> named = onnx::external_locations(model_.bytes(), model_.what());
    const std::set<std::string> locations(named.begin(), named.end());
    std::error_code ignored;
    const auto folder_of = [](const std::filesystem::path& folder) {
      return folder.empty() ? std::filesystem::path(".") : folder;
    };
    const bool same_folder = std::filesystem::equivalent(folder_of(model_.folder()),
                                                         folder_of(output_.parent_path()), ignored);
    // Every file that is written is named after the new model: another model in its folder may have
    // data of the old name. It takes neither a name that this model has for other data nor that of
    // what else appears beside a new model.
    const std::string name = output_.filename().string();
    std::set<std::string> taken(locations);
    taken.insert({name + ".receipt.json", name + ".means.npz", name + ".class-names.txt"});
    for (const std::string& location : locations) {
      OnnxSideFile side{location, location, std::move(patches_[location])};
      if (same_folder && side.patches.empty()) continue;  // shared with the old model, unchanged
      const std::string tail =
          locations.size() == 1 ? "data" : std::filesystem::path(location).filename().string();
      if (!same_folder) taken.erase(location);
      side.new_location = fmt::format("{}.{}", name, tail);
      for (int i = 2; !taken.insert(side.new_location).second; ++i)
        side.new_location = fmt::format("{}.{}.{}", name, i, tail);
      onnx::rename_location(model_.message(), location, side.new_location, model_.what());
      result_.side_files.push_back(std::move(side));
    }
  }

  Model& model_;
  Message& graph_;
  const OnnxHead& head_;
  const NewHead& new_head_;
  std::vector<std::size_t> forget_;
  std::filesystem::path output_;
  std::size_t classes_, kept_;
  std::map<std::string, onnx::Readers, std::less<>> readers_;
  std::map<std::string, std::vector<OnnxSideFile::Patch>> patches_;
  std::optional<std::pair<std::size_t, Message>> pending_;
  std::optional<RowScan> scan_;  // made when there is something to look through
  std::set<std::string> made_;   // names given to new tensors
  OnnxRewrite result_;
};

}  // namespace

OnnxRewrite rewrite_onnx(Model& model, const OnnxHead& head, const NewHead& new_head,
                         std::span<const std::size_t> forget, const std::filesystem::path& output) {
  return Rewriter(model, head, new_head, forget, output).run();
}

std::vector<std::string> onnx_class_names(const Model& model, std::size_t classes) {
  for (const onnx::MetadataEntry& entry : model.metadata()) {
    for (const NameEntry& found : names_in_entry(entry.key, entry.value)) {
      if (found.names.names().size() == classes) return found.names.names();
    }
  }
  return {};
}

}  // namespace oubli
