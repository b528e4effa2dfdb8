#include "oubli/model/keras/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "oubli/base/error.h"

namespace oubli {
namespace {

// The parts of "m/dense/kernel:0" without TensorFlow's number, the backslashes of files from
// Windows taken for slashes.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts{""};
  for (const char c : path.substr(0, path.rfind(':'))) {
    if (c == '/' || c == '\\')
      parts.emplace_back();
    else
      parts.back().push_back(c);
  }
  std::erase(parts, "");
  return parts;
}

bool has_part(const std::vector<std::string>& parts, std::string_view name) {
  return std::ranges::find(parts, name) != parts.end();
}

// "dense" of "sequential_dense_kernel_momentum": the longest of `layers` that stands before the
// name of one of its weights.
std::string layer_in(const std::string& text, const std::set<std::string>& layers) {
  for (const char* const word : {"_kernel", "_bias", "_gamma", "_beta"}) {
    const std::size_t end = text.find(word);
    if (end == std::string::npos) continue;
    for (std::size_t at = 0; at != std::string::npos && at < end;) {
      std::string candidate = text.substr(at, end - at);
      if (layers.contains(candidate)) return candidate;
      at = text.find('_', at);
      if (at != std::string::npos) ++at;
    }
  }
  return {};
}

std::string describe(const Hdf5Object& object) {
  return fmt::format("{} ({} [{}])", object.path, object.dataset->type.name,
                     fmt::join(object.dataset->shape, ", "));
}

class Search {
 public:
  Search(const Hdf5File& file, const std::string& what, const std::optional<KerasHead>& head,
         const HeadChoice& choice)
      : file_(file), what_(what), head_(head), choice_(choice) {}

  KerasWeights run() {
    if (!head_ && !choice_.weights.empty())
      take_chosen();
    else if (root() != nullptr)
      take_from_layers();
    else
      take_from_vars();
    // Where there is a configuration, it says what the head is, and its number of units changes.
    if (head_ && !choice_.weights.empty() && &dataset(choice_.weights) != found_.kernel)
      fail(ErrorCode::usage, "{}: --weights {}: the configuration says that the last layer is {}",
           what_, choice_.weights, found_.kernel->path);
    if (choice_.bias) found_.bias = choice_.bias->empty() ? nullptr : &dataset(*choice_.bias);
    check();
    find_moments();
    return std::move(found_);
  }

 private:
  const Hdf5Object& dataset(const std::string& path) const {
    const Hdf5Object* const object = file_.find(path);
    if (object == nullptr || !object->dataset)
      fail(ErrorCode::bad_input, "{}: no dataset called {}", what_, path);
    return *object;
  }

  // The group whose attribute layer_names tells the layers in order; none in .keras files.
  const Hdf5Object* root() const {
    for (const char* const path : {"/model_weights", "/"})
      if (const Hdf5Object* const group = file_.find(path);
          group != nullptr && !names(*group, "layer_names").empty())
        return group;
    return nullptr;
  }

  // Lists of more than 64512 bytes are split into NAME0, NAME1, ...
  std::vector<std::string_view> names(const Hdf5Object& group, const std::string& list) const {
    if (const Hdf5Attribute* const whole = file_.attribute(group, list)) return file_.texts(*whole);
    std::vector<std::string_view> all;
    for (std::size_t i = 0;; ++i) {
      const auto* const part = file_.attribute(group, list + std::to_string(i));
      if (part == nullptr) return all;
      std::ranges::copy(file_.texts(*part), std::back_inserter(all));
    }
  }

  void take(const std::vector<const Hdf5Object*>& weights, const std::string& layer) {
    if (weights.empty() || weights.size() > 2)
      fail(ErrorCode::unfilterable,
           "{}: layer '{}' has {} arrays of weights, wanted a kernel and perhaps a bias; name them "
           "with --weights and --bias",
           what_, layer, weights.size());
    found_.kernel = weights[0];
    found_.bias = weights.size() == 2 ? weights[1] : nullptr;
  }

  // Weights alone: the bias goes by the same name.
  void take_chosen() {
    found_.kernel = &dataset(choice_.weights);
    const std::string& path = found_.kernel->path;
    for (const auto& [word, other] :
         {std::pair("kernel", "bias"), std::pair("/vars/0", "/vars/1"), std::pair("_W", "_b")})
      if (const std::size_t at = path.rfind(word);
          at != std::string::npos && found_.bias == nullptr)
        found_.bias =
            file_.find(std::string(path).replace(at, std::string_view(word).size(), other));
    if (found_.bias != nullptr && !found_.bias->dataset) found_.bias = nullptr;
  }

  // Keras loads by the order of these lists, not by the names of groups.
  void take_from_layers() {
    const Hdf5Object& top = *root();
    const auto layers = names(top, "layer_names");
    std::string layer;
    if (head_) {
      layer = head_->names.front();
      if (std::ranges::find(layers, layer) == layers.end())
        fail(ErrorCode::bad_input, "{}: the configuration's layer '{}' has no weights in the file",
             what_, layer);
    } else {
      for (const std::string_view name : layers)
        if (const Hdf5Object* const group = file_.find(top, name);
            group != nullptr && !names(*group, "weight_names").empty())
          layer = name;
      found_.findings.push_back(
          {layer, "is taken for the last layer: weights alone do not say what follows it"});
    }
    const Hdf5Object* const group = file_.find(top, layer);
    if (group == nullptr) fail(ErrorCode::bad_input, "{}: no group '{}'", what_, layer);
    std::vector<const Hdf5Object*> weights;
    const bool nested = head_ && head_->names.size() > 1;
    for (const std::string_view name : names(*group, "weight_names")) {
      const Hdf5Object* const object = file_.find(*group, name);
      if (object == nullptr || !object->dataset)
        fail(ErrorCode::bad_input, "{}: layer '{}' has no weights '{}'", what_, layer, name);
      if (!nested || has_part(parts_of(name), head_->names.back())) weights.push_back(object);
    }
    take(weights, nested ? head_->names.back() : layer);
  }

  // .keras: "layers/dense_1/vars/0"; also "_layer_checkpoint_dependencies/...", and backslashes in
  // one name where it was written on Windows.
  void take_from_vars() {
    std::vector<const Hdf5Object*> kernels;
    for (const Hdf5Object& object : file_.objects()) {
      if (!object.dataset || object.dataset->shape.size() != 2) continue;
      std::vector<std::string> parts = parts_of(object.path);
      if (parts.size() < 3 || parts.back() != "0" || parts[parts.size() - 2] != "vars" ||
          parts[0] == "optimizer")
        continue;
      if (head_) {
        for (std::string& part : parts)
          if (part == "_layer_checkpoint_dependencies") part = "layers";
        const std::string folder = fmt::format("{}", fmt::join(parts, "/"));
        if (folder != head_->folder + "/vars/0") continue;
      }
      kernels.push_back(&object);
    }
    if (kernels.size() != 1) {
      std::vector<std::string> candidates;
      for (const Hdf5Object* kernel : kernels)
        if (candidates.size() < 12) candidates.push_back(describe(*kernel));
      if (kernels.empty())
        fail(ErrorCode::unfilterable,
             "{}: no weights of {} in it; if it has a head, name it with "
             "--weights",
             what_,
             head_ ? fmt::format("'{}' ({})", head_->names.back(), head_->folder)
                   : std::string("a Dense layer"));
      fail(ErrorCode::usage, "{}: {} matrices could be the head; name one with --weights: {}",
           what_, kernels.size(), fmt::join(candidates, ", "));
    }
    std::string bias = kernels[0]->path;
    bias.back() = '1';
    const Hdf5Object* const second = file_.find(bias);
    take(second == nullptr ? kernels : std::vector{kernels[0], second}, kernels[0]->path);
  }

  void check() {
    const TensorView kernel = file_.tensor(*found_.kernel);
    if (kernel.rank() != 2)
      fail(ErrorCode::unfilterable, "{}: {}, wanted a matrix of a Dense layer", kernel.what,
           oubli::describe(kernel));
    const std::size_t classes = kernel.shape[1];
    if (head_ && head_->units != classes)
      fail(ErrorCode::bad_input, "{}: {}, the configuration says that there are {} classes",
           kernel.what, oubli::describe(kernel), head_->units);
    if (head_ && head_->bias != (found_.bias != nullptr))
      fail(ErrorCode::bad_input, "{}: the configuration says that it has {} bias, the file has {}",
           kernel.what, head_->bias ? "a" : "no", found_.bias != nullptr ? "one" : "none");
    if (found_.bias == nullptr) return;
    const TensorView bias = file_.tensor(*found_.bias);
    if (bias.rank() != 1 || bias.shape[0] != classes)
      fail(ErrorCode::bad_input, "{}: {}, wanted {} numbers", bias.what, oubli::describe(bias),
           classes);
  }

  [[nodiscard]] bool is_of_the_optimizer(const std::vector<std::string>& parts) const {
    return !parts.empty() && (parts[0] == "optimizer_weights" || parts[0] == "optimizer");
  }

  [[nodiscard]] bool fits(const Hdf5Object& object) const {
    const auto& shape = object.dataset->shape;
    return shape == found_.kernel->dataset->shape ||
           (found_.bias != nullptr && shape == found_.bias->dataset->shape);
  }

  // Whether a dataset of the optimizer belongs to the head; none if it cannot be told.
  [[nodiscard]] std::optional<bool> belongs(const Hdf5Object& object) const {
    const std::vector<std::string> parts = parts_of(object.path);
    const std::string own = head_ ? head_->names.back() : std::string();
    // By a part of its path that is a layer's name.
    if (!own.empty() && has_part(parts, own)) return true;
    const bool another = std::ranges::any_of(
        parts, [&](const std::string& part) { return part != own && layers_.contains(part); });
    if (another) return false;
    // By its shape, if only the head has it.
    if (others_.find(object.dataset->shape) == others_.end()) return true;
    // "adam/sequential_dense_kernel_momentum"
    const std::string layer = parts.empty() ? std::string() : layer_in(parts.back(), layers_);
    if (layer.empty() || own.empty()) return std::nullopt;
    return layer == own;
  }

  void find_moments() {
    for (const Hdf5Object& object : file_.objects()) {
      const std::vector<std::string> parts = parts_of(object.path);
      if (!object.dataset || is_of_the_optimizer(parts)) continue;
      if (&object != found_.kernel && &object != found_.bias) others_.insert(object.dataset->shape);
      for (const std::string& part : parts)
        if (part.find_first_not_of("0123456789") != std::string::npos) layers_.insert(part);
    }
    for (const char* const word : {"model_weights", "layers", "vars", "kernel", "bias"})
      layers_.erase(word);
    for (const Hdf5Object& object : file_.objects()) {
      if (!object.dataset || &object == found_.kernel || &object == found_.bias) continue;
      const bool has_axis =
          std::ranges::find(object.dataset->shape, found_.kernel->dataset->shape[1]) !=
          object.dataset->shape.end();
      if (!is_of_the_optimizer(parts_of(object.path))) {
        if (has_axis)
          found_.findings.push_back(
              {object.path,
               fmt::format("({} [{}]) also has an axis as long as there are classes; "
                           "it is left as it is",
                           object.dataset->type.name, fmt::join(object.dataset->shape, ", "))});
        continue;
      }
      if (!fits(object)) continue;
      const auto its = belongs(object);
      if (!its)
        fail(ErrorCode::unfilterable,
             "{}: whether {} is about the head or another layer of the same shape cannot be told; "
             "save the model without its optimizer: model.save(NAME, include_optimizer=False)",
             what_, describe(object));
      if (*its) found_.moments.push_back(&object);
    }
  }

  const Hdf5File& file_;
  const std::string& what_;
  const std::optional<KerasHead>& head_;
  const HeadChoice& choice_;
  std::set<std::string> layers_;               // their names, and those of models
  std::set<std::vector<std::size_t>> others_;  // shapes of weights that are not the head's
  KerasWeights found_;
};

}  // namespace

KerasWeights find_keras_weights(const Hdf5File& file, const std::string& what,
                                const std::optional<KerasHead>& head, const HeadChoice& choice) {
  return Search(file, what, head, choice).run();
}

}  // namespace oubli
