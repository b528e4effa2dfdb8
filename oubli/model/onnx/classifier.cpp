#include "oubli/model/onnx/classifier.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "oubli/onnx/builder.h"
#include "oubli/onnx/edit.h"
#include "oubli/onnx/schema.h"

namespace oubli {

namespace {

namespace schema = onnx::schema;
using onnx::Attribute;
using onnx::Message;
using onnx::Model;
using onnx::Node;

std::size_t size_of_list(const Attribute& attribute) {
  return std::max({attribute.ints.size(), attribute.floats.size(), attribute.strings.size()});
}

// The one of `names` that the node has; null if it has none. Error{unfilterable} if two.
const Attribute* only_one(const Model& model, const Node& node,
                          std::initializer_list<std::string_view> names) {
  const Attribute* found = nullptr;
  for (const std::string_view name : names) {
    const Attribute* const attribute = node.attribute(name);
    if (attribute == nullptr || size_of_list(*attribute) == 0) continue;
    if (found != nullptr)
      refuse_node(model, node,
                  fmt::format("has both {} and {}, wanted one", found->name, attribute->name));
    found = attribute;
  }
  return found;
}

std::vector<std::vector<std::size_t>> one_each(std::size_t classes) {
  std::vector<std::vector<std::size_t>> result(classes);
  for (std::size_t i = 0; i < classes; ++i) result[i] = {i};
  return result;
}

// The classes by what is looked up for them.
template <typename Key>
std::map<Key, std::vector<std::size_t>> classes_of(const std::vector<Key>& keys) {
  std::map<Key, std::vector<std::size_t>> result;
  for (std::size_t i = 0; i < keys.size(); ++i) result[keys[i]].push_back(i);
  return result;
}

// For every key of a LabelEncoder the classes that look it up.
template <typename Key>
std::vector<std::vector<std::size_t>> users_of(const Model& model, const Node& node,
                                               const std::vector<Key>& keys,
                                               const std::vector<Key>& wanted) {
  if (classes_of(keys).size() != keys.size())
    refuse_node(model, node, "the same key stands in it twice");
  std::map<Key, std::vector<std::size_t>> users = classes_of(wanted);
  std::vector<std::vector<std::size_t>> result;
  for (const Key& key : keys) result.push_back(users[key]);
  return result;
}

std::vector<std::int64_t> numbers_to(std::size_t classes) {
  std::vector<std::int64_t> numbers(classes);
  for (std::size_t i = 0; i < classes; ++i) numbers[i] = static_cast<std::int64_t>(i);
  return numbers;
}

// What every class gets: the value of its entry, or the default.
OnnxLabels values_for(const Node& node, const Attribute& values,
                      const std::vector<std::vector<std::size_t>>& users, std::size_t classes) {
  OnnxLabels labels;
  if (!values.strings.empty()) {
    const Attribute* const otherwise = node.attribute("default_string");
    labels.texts.assign(classes, otherwise != nullptr ? otherwise->s : "_Unused");
  } else if (!values.ints.empty()) {
    labels.numbers.assign(classes, node.int_or("default_int64", -1));
  }
  for (std::size_t entry = 0; entry < users.size(); ++entry) {
    for (const std::size_t j : users[entry]) {
      if (!labels.texts.empty()) labels.texts[j] = values.strings[entry];
      if (!labels.numbers.empty()) labels.numbers[j] = values.ints[entry];
    }
  }
  return labels;
}

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / size_of(tensor.dtype));
  decode(tensor.dtype, tensor.bytes, std::span<float>(values));
  return values;
}

template <typename T>
std::vector<T> kept_of(const std::vector<T>& all, const std::vector<bool>& gone) {
  std::vector<T> kept;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!gone[i]) kept.push_back(all[i]);
  return kept;
}

}  // namespace

bool is_scikit_learn(const Node& node, std::string_view op_type) {
  return node.domain == "ai.onnx.ml" && node.op_type == op_type;
}

bool is_label_operation(const Node& node) {
  constexpr std::array kNames{"ArrayFeatureExtractor", "Normalizer", "ZipMap", "LabelEncoder"};
  return std::ranges::any_of(kNames,
                             [&](std::string_view name) { return is_scikit_learn(node, name); });
}

std::string post_transform(const Node& node) {
  const Attribute* const attribute = node.attribute("post_transform");
  return attribute == nullptr || attribute->s.empty() ? "NONE" : attribute->s;
}

std::optional<OnnxHead> linear_classifier_at(const Model& model, const Node& node) {
  if (!is_scikit_learn(node, "LinearClassifier")) return std::nullopt;
  const Attribute* const coefficients = node.attribute("coefficients");
  const Attribute* const intercepts = node.attribute("intercepts");
  if (node.inputs.size() != 1 || node.outputs.empty() || node.outputs.size() > 2)
    refuse_node(model, node, "wanted one input and two outputs");
  if (coefficients == nullptr || coefficients->floats.empty())
    refuse_node(model, node, "it has no coefficients");
  const std::size_t classes = intercepts == nullptr ? 0 : intercepts->floats.size();
  if (classes < 2)
    refuse_node(model, node,
                fmt::format("{} intercepts, wanted one for each of at least three classes: two "
                            "classes are kept as one row",
                            classes));
  const std::size_t count = coefficients->floats.size();
  if (count % classes != 0)
    refuse_node(model, node,
                fmt::format("{} coefficients are not equally many for {} classes", count, classes));
  OnnxHead head;
  head.kind = OnnxHead::Kind::classifier;
  head.node = &node;
  head.features = node.inputs[0];
  if (post_transform(node) == "NONE" && node.outputs.size() == 2) head.logits = node.outputs[1];
  const auto stored = [&](const Attribute& attribute, std::vector<std::size_t> shape) {
    const auto bytes = std::as_bytes(std::span(attribute.floats));
    onnx::Constant constant;
    constant.tensor = share(Tensor{DType::f32, std::move(shape), {bytes.begin(), bytes.end()}},
                            fmt::format("{} '{}'", node.describe(), attribute.name));
    return constant;
  };
  head.weights = stored(*coefficients, {classes, count / classes});
  head.bias = stored(*intercepts, {classes});
  return head;
}

OnnxLabels listed_labels(const Model& model, const Node& node, std::size_t classes,
                         std::vector<OnnxTail::LabelTable>& tables) {
  const Attribute* const list =
      only_one(model, node, {"classlabels_ints", "classlabels_int64s", "classlabels_strings"});
  if (list == nullptr || size_of_list(*list) != classes)
    refuse_node(model, node,
                fmt::format("{} labels, wanted one for each of {} classes",
                            list == nullptr ? 0 : size_of_list(*list), classes));
  OnnxLabels labels{list->ints, list->strings};
  tables.push_back({&node, {list->name}, one_each(classes), false, labels});
  return labels;
}

OnnxLabels encoded_labels(const Model& model, const Node& node, const OnnxLabels* from,
                          std::size_t classes, std::vector<OnnxTail::LabelTable>& tables) {
  OnnxTail::LabelTable table{&node, {}, {}, from == nullptr, {}};
  if (const Attribute* const old = node.attribute("classes_strings")) {  // version 1: by number
    if (from != nullptr || old->strings.size() != classes)
      refuse_node(model, node, "the labels are not one per class, by its number");
    table = {&node, {old->name}, one_each(classes), false, {{}, old->strings}};
    tables.push_back(table);
    return table.labels;
  }
  const Attribute* const keys = only_one(model, node, {"keys_int64s", "keys_strings"});
  const Attribute* const values =
      only_one(model, node, {"values_int64s", "values_strings", "values_floats"});
  if (keys == nullptr || values == nullptr || size_of_list(*keys) != size_of_list(*values))
    refuse_node(model, node,
                "wanted as many keys, whole numbers or texts, as values, in lists of the node");
  const OnnxLabels wanted = from != nullptr ? *from : OnnxLabels{numbers_to(classes), {}};
  if (wanted.texts.empty() != keys->strings.empty())
    refuse_node(model, node, "its keys are not of the type of the labels that it reads");
  table.classes = keys->strings.empty() ? users_of(model, node, keys->ints, wanted.numbers)
                                        : users_of(model, node, keys->strings, wanted.texts);
  const bool strangers =
      std::ranges::any_of(table.classes, [](const auto& c) { return c.empty(); });
  if (table.counts_classes && strangers)
    refuse_node(model, node, "some of its keys are numbers of no class");
  table.lists = {keys->name, values->name};
  table.labels = values_for(node, *values, table.classes, classes);
  tables.push_back(table);
  return table.labels;
}

void replace_coefficients(onnx::Editor& editor, const Node& node, const Tensor& weights,
                          const Tensor& bias) {
  editor.set_list(node, *node.attribute("coefficients"), floats_of(weights));
  editor.set_list(node, *node.attribute("intercepts"), floats_of(bias));
}

void cut_label_table(onnx::Editor& editor, const OnnxTail::LabelTable& table,
                     std::span<const std::size_t> forget) {
  const auto forgotten = [&](std::size_t j) {
    return std::ranges::find(forget, j) != forget.end();
  };
  std::vector<bool> gone;
  for (const std::vector<std::size_t>& users : table.classes)
    gone.push_back(!users.empty() && std::ranges::all_of(users, forgotten));
  for (const std::string& name : table.lists) {
    const Attribute& list = *table.node->attribute(name);
    if (!list.strings.empty()) {
      editor.set_list(*table.node, list, kept_of(list.strings, gone));
    } else if (!list.floats.empty()) {
      editor.set_list(*table.node, list, kept_of(list.floats, gone));
    } else {
      std::vector<std::int64_t> kept = kept_of(list.ints, gone);
      if (table.counts_classes && name == table.lists.front())
        for (std::int64_t& number : kept)
          number -= std::ranges::count_if(
              forget, [&](std::size_t j) { return static_cast<std::int64_t>(j) < number; });
      editor.set_list(*table.node, list, kept);
    }
  }
}

std::string add_raw_scores(onnx::Editor& editor, const Node& node) {
  const std::string scores = editor.fresh_name(node.outputs[0] + "_raw");
  Message copy;
  copy.add(onnx::bytes_field(schema::node::kInput, node.inputs[0]));
  copy.add(onnx::bytes_field(schema::node::kOutput, editor.fresh_name(node.outputs[0])));
  copy.add(onnx::bytes_field(schema::node::kOutput, scores));
  copy.add(onnx::bytes_field(schema::node::kOpType, node.op_type));
  copy.add(onnx::bytes_field(schema::node::kDomain, node.domain));
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name == "post_transform") continue;
    const Message& original = editor.node_message(node);
    copy.add(onnx::bytes_field(schema::node::kAttribute, original.fields[attribute.field].payload));
  }
  editor.graph().add(onnx::message_field(schema::graph::kNode, std::move(copy)));
  return scores;
}

std::vector<std::string> names_in(const OnnxLabels& labels) {
  if (!labels.texts.empty()) return labels.texts;
  std::vector<std::string> names;
  if (labels.numbers != numbers_to(labels.numbers.size()))
    for (const std::int64_t number : labels.numbers) names.push_back(std::to_string(number));
  return names;
}

}  // namespace oubli
