#include "oubli/model/keras/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "oubli/base/error.h"
#include "oubli/base/json.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// "BatchNormalization" -> "batch_normalization", by the rules of Keras' own naming.to_snake_case.
std::string snake_case(const std::string& name) {
  const auto is_upper = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; };
  const auto is_lower = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool word = i > 0 && is_upper(name[i]) && i + 1 < name.size() && is_lower(name[i + 1]);
    const bool step = i > 0 && is_upper(name[i]) && is_lower(name[i - 1]);
    if (word || step) result.push_back('_');
    result.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(name[i]))));
  }
  return result;
}

bool is_model(const std::string& class_name) {
  return class_name == "Sequential" || class_name == "Functional" || class_name == "Model";
}

// Names of layers in a part of "inbound_nodes" or "output_layers": Keras 1 and 2 write
// ["name", 0, 0], Keras 3 writes that under "keras_history". Error{unfilterable} by `most`: nobody
// has more.
void collect_history(const Json& value, std::vector<std::string>& names) {
  if (value.is_array() && value.size() >= 3 && value[0].is_string() &&
      value[1].is_number_integer() && value[2].is_number_integer()) {
    names.push_back(value[0].get<std::string>());
    if (value.size() > 3) collect_history(value[3], names);  // keyword arguments may be tensors
    return;
  }
  if (value.is_structured())
    for (const Json& part : value) collect_history(part, names);
}

class Walk {
 public:
  Walk(const std::string& text, const std::string& what) : text_(text), what_(what) {}

  KerasHead run() {
    const Json document = parse_json(text_, what_);
    into_model(document);
    return head_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorCode::unfilterable, "{}: {}", what_, why);
  }

  const Json& layers_of(const Json& model) {
    const std::string class_name = text_of(model, "class_name");
    if (!is_model(class_name))
      refuse(
          fmt::format("a model of the class '{}', wanted Sequential or Functional: what its "
                      "layers do is in code that is not in the file",
                      class_name));
    path_.emplace_back("config");
    const auto config = model.find("config");
    if (config == model.end()) refuse("its configuration has no layers");
    if (config->is_array()) return *config;  // Keras 1
    path_.emplace_back("layers");
    const auto layers = config->find("layers");
    if (!config->is_object() || layers == config->end() || !layers->is_array())
      refuse("its configuration has no layers");
    return *layers;
  }

  static std::string name_of(const Json& layer) {
    const auto config = layer.find("config");
    const bool has = config != layer.end() && config->is_object();
    const std::string inner = has ? text_of(*config, "name") : std::string();
    return inner.empty() ? text_of(layer, "name") : inner;
  }

  // The layer that the model's output comes from.
  std::size_t output_of(const Json& model, const Json& layers) const {
    if (layers.empty()) refuse("a model without layers");
    const Json& config = model.at("config");
    if (text_of(model, "class_name") == "Sequential") return layers.size() - 1;
    std::vector<std::string> outputs;
    if (config.contains("output_layers")) collect_history(config["output_layers"], outputs);
    if (outputs.size() != 1)
      refuse(fmt::format("the model has {} outputs; one head can be filtered", outputs.size()));
    return index_of(layers, outputs[0]);
  }

  std::size_t index_of(const Json& layers, const std::string& name) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (name_of(layers[i]) != name && text_of(layers[i], "name") != name) continue;
      if (found) refuse(fmt::format("two layers are called '{}'", name));
      found = i;
    }
    if (!found) refuse(fmt::format("its configuration has no layer '{}'", name));
    return *found;
  }

  // The layer before, and that nothing else reads what layer `index` makes; `reader` may.
  std::size_t layer_before(const Json& model, const Json& layers, std::size_t index) const {
    if (text_of(model, "class_name") == "Sequential") {
      if (index == 0) refuse("no Dense layer at its end");
      return index - 1;
    }
    std::vector<std::string> inputs;
    if (layers[index].contains("inbound_nodes"))
      collect_history(layers[index]["inbound_nodes"], inputs);
    if (inputs.size() != 1)
      refuse(fmt::format("layer '{}' at its end reads {} others, wanted one",
                         name_of(layers[index]), inputs.size()));
    return index_of(layers, inputs[0]);
  }

  void require_one_reader(const Json& model, const Json& layers, std::size_t index,
                          std::optional<std::size_t> reader) const {
    if (text_of(model, "class_name") == "Sequential") return;
    const std::string name = name_of(layers[index]);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::vector<std::string> inputs;
      if (!layers[i].contains("inbound_nodes")) continue;
      collect_history(layers[i]["inbound_nodes"], inputs);
      const auto readings = std::ranges::count(inputs, name);
      if (readings > (i == reader ? 1 : 0))
        refuse(
            fmt::format("layer '{}' is read by '{}', too: taking a class out of it would break "
                        "that",
                        name, name_of(layers[i])));
      if (i == index && inputs.size() > 1)
        refuse(fmt::format("layer '{}' is used {} times", name, inputs.size()));
    }
  }

  void note_activation(const std::string& name) {
    if (!head_.activation.empty() && name == "linear") return;
    if (name != "softmax" && name != "linear" && name != "log_softmax") head_.shift_shows = true;
    head_.activation = head_.activation.empty() || head_.activation == "linear"
                           ? name
                           : fmt::format("{}, {}", name, head_.activation);
  }

  // A layer that comes behind the head, if it is one that does nothing else to the classes.
  bool pass_tail(const Json& layer) {
    const std::string class_name = text_of(layer, "class_name");
    const Json config = layer.value("config", Json::object());
    if (class_name == "Activation") {
      const std::string activation = text_of(config, "activation");
      note_activation(activation.empty() ? "an activation of its own" : activation);
    } else if (class_name == "Softmax") {
      const Json axis = config.value("axis", Json(-1));
      if (axis != -1 && axis != Json::array({-1}) && axis != 1)
        refuse(fmt::format("layer '{}' is a softmax along axis {}", name_of(layer), axis.dump()));
      note_activation("softmax");
    } else if (class_name != "Dropout" && class_name != "GaussianNoise" &&
               class_name != "ActivityRegularization") {
      return false;
    }
    tails_.push_back({path_, layer});
    return true;
  }

  // Shapes of what comes behind the head end in the number of classes.
  void note_shapes(std::vector<std::string> path, const Json& value, bool shape) {
    if (shape && value.is_array() && !value.empty() && value.back().is_number_integer() &&
        value.back() == head_.units) {
      path.push_back(std::to_string(value.size() - 1));
      if (const auto place = place_in_json(text_, path)) head_.counts.push_back(*place);
      return;
    }
    if (!value.is_structured()) return;
    for (const auto& [key, part] : value.items()) {
      std::vector<std::string> inner = path;
      inner.push_back(key);
      note_shapes(inner, part, shape || (value.is_object() && key.ends_with("shape")));
    }
  }

  void take_head(const Json& layer) {
    const Json& config = layer.at("config");
    const char* const units = config.contains("units") ? "units" : "output_dim";
    if (!config.contains(units) || !config[units].is_number_unsigned())
      refuse(fmt::format("layer '{}' does not say how many classes it has", name_of(layer)));
    if (const auto lora = config.find("lora_rank"); lora != config.end() && !lora->is_null())
      refuse(fmt::format("layer '{}' has its weights in two parts (LoRA); merge them first",
                         name_of(layer)));
    head_.units = config[units].get<std::size_t>();
    head_.names.push_back(name_of(layer));
    const char* const bias = config.contains("use_bias") ? "use_bias" : "bias";
    head_.bias = !config.contains(bias) || config[bias] != false;
    const auto activation = config.find("activation");
    if (activation != config.end() && activation->is_string())
      note_activation(activation->get<std::string>());
    else if (activation != config.end() && !activation->is_null())
      note_activation("an activation of its own");
    if (head_.activation.empty()) head_.activation = "linear";
    std::vector<std::string> path = path_;
    path.insert(path.end(), {"config", units});
    const auto place = place_in_json(text_, path);
    if (!place || place->in(text_) != std::to_string(head_.units))
      refuse(fmt::format("the number of classes of layer '{}' is spelled in a way not known here",
                         name_of(layer)));
    head_.counts.push_back(*place);
    for (const auto& [where, tail] : tails_) note_shapes(where, tail, false);
  }

  void into_model(const Json& model) {
    const Json& layers = layers_of(model);
    const std::vector<std::string> base = path_;
    std::optional<std::size_t> reader;
    std::size_t at = output_of(model, layers);
    while (true) {
      const Json& layer = layers[at];
      if (!layer.is_object()) refuse("a layer that is none");
      path_ = base;
      path_.push_back(std::to_string(at));
      require_one_reader(model, layers, at, reader);
      const std::string class_name = text_of(layer, "class_name");
      if (class_name == "Dense" || is_model(class_name)) {
        std::size_t before = 0;
        for (std::size_t i = 0; i < at; ++i)
          if (snake_case(text_of(layers[i], "class_name")) == snake_case(class_name)) ++before;
        head_.folder +=
            fmt::format("{}layers/{}{}", head_.folder.empty() ? "" : "/", snake_case(class_name),
                        before == 0 ? "" : fmt::format("_{}", before));
        if (class_name == "Dense") return take_head(layer);
        head_.names.push_back(name_of(layer));
        return into_model(layer);
      }
      if (!pass_tail(layer))
        refuse(
            fmt::format("it ends in layer '{}' ({}), wanted Dense, with an Activation or "
                        "Softmax behind it at most",
                        name_of(layer), class_name));
      reader = at;
      at = layer_before(model, layers, at);
    }
  }

  const std::string& text_;
  const std::string& what_;
  std::vector<std::string> path_;
  std::vector<std::pair<std::vector<std::string>, Json>> tails_;
  KerasHead head_;
};

}  // namespace

KerasHead find_keras_head(const std::string& text, const std::string& what) {
  try {
    return Walk(text, what).run();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::bad_input, "{}: a configuration of another kind: {}", what, error.what());
  }
}

std::string padded_number(std::size_t number, std::size_t width) {
  return fmt::format("{:>{}}", number, width);
}

}  // namespace oubli
