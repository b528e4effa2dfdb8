#include "oubli/model/torch/parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <tuple>

#include "oubli/base/error.h"
#include "oubli/model/named_head.h"
#include "oubli/model/torch/optimizer.h"

namespace oubli::torch {
namespace {

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    words.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return words;
}

// A running average: "ema", "model_ema", "shadow", "swa_state_dict".
bool is_average(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view sign : {"ema", "swa", "shadow", "averaged"}) {
    const std::size_t at = lower.find(sign);
    if (at == std::string::npos) continue;
    const auto letter = [&](std::size_t i) {
      return i < lower.size() && std::isalpha(static_cast<unsigned char>(lower[i])) != 0;
    };
    if ((at == 0 || !letter(at - 1)) && !letter(at + sign.size())) return true;
    if (sign == "shadow" || sign == "averaged") return true;
  }
  return false;
}

bool is_wrapper(std::string_view word) {
  static constexpr std::array<std::string_view, 20> kWrappers{
      "state_dict",      "model",           "module",           "net",
      "network",         "_orig_mod",       "model_state_dict", "model_state",
      "params",          "weights_dict",    "online",           "student",
      "base_model",      "original_module", "modules_to_save",  "default",
      "best_state_dict", "best_model",      "best_state",       "n_averaged"};
  return std::ranges::find(kWrappers, word) != kWrappers.end() || is_average(word);
}

bool averaged(const Tensor& tensor) {
  const auto words = words_of(tensor.name);
  return std::ranges::any_of(words, is_average);
}

// Layers that are the last one wherever they are called so, by what is left of their names.
bool is_sure_head(std::string_view bare) {
  static constexpr std::array<std::string_view, 12> kHeads{"fc.weight",
                                                           "classifier.weight",
                                                           "head.weight",
                                                           "head.fc.weight",
                                                           "heads.head.weight",
                                                           "score.weight",
                                                           "last_linear.weight",
                                                           "logits.weight",
                                                           "classifier.out_proj.weight",
                                                           "classifier.fc.weight",
                                                           "logits_proj.weight",
                                                           "output_layer.weight"};
  return std::ranges::find(kHeads, bare) != kHeads.end();
}

// Heads beside the head, which learn from the same labels.
bool is_auxiliary(std::string_view bare) {
  static constexpr std::array<std::string_view, 8> kStarts{
      "AuxLogits.",      "aux1.",      "aux2.",      "aux_classifier.",
      "auxiliary_head.", "head_dist.", "dist_head.", "distillation_classifier."};
  return std::ranges::any_of(kStarts, [&](std::string_view s) { return bare.starts_with(s); });
}

// Matrices that are never a head.
bool is_other_matrix(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kWords{
      "emb",       "weight_ih_l",       "weight_hh_l", "in_proj_weight",
      "pos_embed", "relative_position", "running_",    "token"};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

// The same with sides of 1 behind the first two left out: a 1 x 1 convolution is a matrix.
TensorInfo as_matrix(const Tensor& tensor) {
  TensorInfo info = tensor.info();
  while (info.shape.size() > 2 && info.shape.back() == 1) info.shape.pop_back();
  return info;
}

class Finder {
 public:
  Finder(const Archive& archive, std::span<const Tensor> tensors, const HeadChoice& choice)
      : path_(archive.file().path().string()),
        tensors_(tensors),
        choice_(choice),
        optimizers_(archive.pickle(), tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (!averaged(tensors[i]) && !optimizers_.holds(i))
        originals_.insert(bare_name(tensors[i].name));
  }

  Parts run(const Archive& archive) {
    choose();
    refuse_what_is_computed();
    find_copies();
    for (const std::size_t head : heads()) {
      std::vector<std::size_t> model = model_of(tensors_[head]);
      for (const std::size_t moment : optimizers_.moments_of(head, model, archive.what()))
        add(moment, "the optimizer's state of " + tensors_[head].name);
    }
    look_around();
    return std::move(parts_);
  }

 private:
  [[nodiscard]] std::vector<std::size_t> heads() const {
    std::vector<std::size_t> heads{parts_.weights};
    if (parts_.bias) heads.push_back(*parts_.bias);
    return heads;
  }

  [[nodiscard]] bool is_head(std::size_t tensor) const {
    return tensor == parts_.weights || tensor == parts_.bias;
  }

  // --weights may leave out what the checkpoint puts around the model.
  [[nodiscard]] std::string resolve(const std::string& given) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].name == given) return given;
      const bool ends =
          tensors_[i].name.ends_with("." + given) || bare_name(tensors_[i].name) == given;
      if (ends && !optimizers_.holds(i)) names.push_back(tensors_[i].name);
    }
    const auto without_averages = [&] {
      std::vector<std::string> kept;
      for (const std::string& name : names)
        if (!std::ranges::any_of(words_of(name), is_average)) kept.push_back(name);
      return kept;
    };
    if (names.size() > 1)
      if (const auto kept = without_averages(); kept.size() == 1) return kept[0];
    if (names.size() > 1)
      fail(ErrorCode::usage, "{}: {} tensors are called {}: {}", path_, names.size(), given,
           fmt::join(names, ", "));
    return names.empty() ? given : names[0];
  }

  // What is a running average of something else is not looked at.
  [[nodiscard]] bool has_original(std::size_t i) const {
    return averaged(tensors_[i]) && originals_.contains(bare_name(tensors_[i].name));
  }

  void choose() {
    HeadChoice choice = choice_;
    if (!choice.weights.empty()) choice.weights = resolve(choice.weights);
    if (choice.bias && !choice.bias->empty()) choice.bias = resolve(*choice.bias);
    std::vector<TensorInfo> candidates, small_convolutions;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      const bool named = tensor.name == choice.weights || tensor.name == choice.bias;
      if (!named &&
          (optimizers_.holds(i) || is_other_matrix(tensor.name) ||
           is_auxiliary(bare_name(tensor.name)) || (choice.weights.empty() && has_original(i))))
        continue;
      if (tensor.shape.size() > 2 && !named)
        small_convolutions.push_back(as_matrix(tensor));
      else
        candidates.push_back(as_matrix(tensor));
    }
    const auto matrix = [](const TensorInfo& info) {
      return info.shape.size() == 2 && info.dtype && is_float(*info.dtype);
    };
    if (std::ranges::none_of(candidates, matrix))
      candidates.insert(candidates.end(), small_convolutions.begin(), small_convolutions.end());
    if (choice.weights.empty()) choice.weights = only_head(candidates, true);
    if (choice.weights.empty() && (choice.classes || choice.features))
      choice.weights = only_head(candidates, false);
    const NamedHead found = find_named_head(candidates, choice, path_);
    if (found.transposed)
      fail(ErrorCode::unfilterable,
           "{}: the columns of {} would be the classes; in a PyTorch file the rows are. If they "
           "are here, say --rows-are-classes",
           path_, found.weights);
    parts_.weights = only_one(found.weights);
    if (!found.bias.empty()) parts_.bias = only_one(found.bias);
    for (const std::size_t head : heads())
      for (const std::string& alias : tensors_[head].aliases)
        parts_.findings.push_back({alias, fmt::format("is {} by another name, and changes with it",
                                                      tensors_[head].name)});
    for (const Finding& finding : found.findings)
      if (finding.where == found.weights) parts_.findings.push_back(finding);  // of being square
  }

  // The one matrix, if there is one, that has as many classes (rows, in PyTorch) and features as
  // the data; `by_name`: of those whose name leaves no doubt, unless another layer may read it.
  [[nodiscard]] std::string only_head(std::span<const TensorInfo> candidates, bool by_name) const {
    std::vector<std::string> found;
    for (const TensorInfo& info : candidates)
      if (info.shape.size() == 2 && info.dtype && is_float(*info.dtype) &&
          (!by_name || is_sure_head(bare_name(info.name))) &&
          (!by_name || choice_.classes || reader_of(info, candidates) == nullptr) &&
          (!choice_.classes || info.shape[0] == *choice_.classes) &&
          (!choice_.features || info.shape[1] == *choice_.features))
        found.push_back(info.name);
    return found.size() == 1 ? found[0] : std::string();
  }

  [[nodiscard]] std::size_t index_of(std::string_view name) const {
    return static_cast<std::size_t>(std::ranges::find(tensors_, name, &Tensor::name) -
                                    tensors_.begin());
  }

  // A name may lead to two tensors: {'a.b': x, 'a': {'b': y}}, or a key that is given twice.
  [[nodiscard]] std::size_t only_one(const std::string& name) const {
    if (std::ranges::count(tensors_, name, &Tensor::name) != 1)
      fail(ErrorCode::unfilterable, "{}: two tensors are called {}", path_, name);
    return index_of(name);
  }

  void refuse_what_is_computed() const {
    const std::string& name = tensors_[parts_.weights].name;
    const std::size_t dot = name.rfind('.');
    const std::string stem = dot == std::string::npos ? "" : name.substr(0, dot + 1);
    const bool computed = name.find("parametrizations.") != std::string::npos ||
                          name.ends_with("weight_v") || name.ends_with("weight_orig") ||
                          index_of(stem + "weight_g") < tensors_.size() ||
                          index_of(stem + "weight_orig") < tensors_.size() ||
                          index_of(stem + "parametrizations.weight.original0") < tensors_.size();
    if (computed)
      fail(ErrorCode::unfilterable,
           "{}: the weights of the last layer are computed from {} when the model runs (weight "
           "normalization, pruning); undo that first (torch.nn.utils.remove_weight_norm, "
           "prune.remove) and save again",
           path_, name);
  }

  void add(std::size_t tensor, std::string why) {
    constexpr std::size_t kMostFollowers = 1024;
    if (is_head(tensor) || !followers_.insert(tensor).second) return;
    if (followers_.size() > kMostFollowers)
      fail(ErrorCode::bad_input, "{}: more than {} copies of the head", path_, kMostFollowers);
    parts_.companions.push_back({tensor, std::move(why)});
  }

  void find_copies() {
    const std::size_t classes = tensors_[parts_.weights].shape[0];
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      if (optimizers_.holds(i) || tensor.shape.empty() || tensor.shape[0] != classes) continue;
      const std::string bare = bare_name(tensor.name);
      for (const std::size_t head : heads()) {
        if (tensor.same_view(tensors_[head]))
          add(i, "the same numbers as " + tensors_[head].name);
        else if (tensor.shape == tensors_[head].shape && bare == bare_name(tensors_[head].name))
          add(i, "a copy of " + tensors_[head].name);
      }
      if (is_auxiliary(bare) && (bare.ends_with("weight") || bare.ends_with("bias")))
        add(i, "an auxiliary head");
    }
  }

  // The tensors of the model that `tensor` belongs to, in the file's order, each once.
  [[nodiscard]] std::vector<std::size_t> model_of(const Tensor& tensor) const {
    const std::string prefix =
        tensor.name.substr(0, tensor.name.size() - bare_name(tensor.name).size());
    std::vector<std::size_t> model;
    std::set<std::tuple<std::string, std::size_t, std::vector<std::size_t>>> seen;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::string& name = tensors_[i].name;
      if (!name.starts_with(prefix) || optimizers_.holds(i) ||
          averaged(tensors_[i]) != averaged(tensor))
        continue;
      const bool buffer = name.ends_with("running_mean") || name.ends_with("running_var") ||
                          !tensors_[i].dtype || !is_float(*tensors_[i].dtype);
      if (!buffer && seen.emplace(tensors_[i].key, tensors_[i].offset, tensors_[i].shape).second)
        model.push_back(i);
    }
    return model;
  }

  void look_around() {
    constexpr std::size_t kMostFindings = 64;
    const std::size_t classes = tensors_[parts_.weights].shape[0];
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Tensor& tensor = tensors_[i];
      if (std::ranges::find(tensor.shape, classes) == tensor.shape.end() ||
          followers_.contains(i) || is_head(i))
        continue;
      // Not so where the head was named: the file may list its layers in another order.
      if (choice_.weights.empty() && i > parts_.weights && tensor.shape.size() == 1 &&
          tensor.name.ends_with("running_mean"))
        fail(ErrorCode::unfilterable,
             "{}: {} ({} numbers, as many as classes) is of a batch normalisation behind the last "
             "layer {}, which must lose the class, too; export the model to ONNX, where it becomes "
             "part of the layer. If it stands elsewhere, say --weights {}",
             path_, tensor.name, classes, tensors_[parts_.weights].name,
             tensors_[parts_.weights].name);
      if (parts_.findings.size() == kMostFindings) {
        parts_.findings.push_back({"", "more tensors of such a size are left as they are"});
        break;
      }
      parts_.findings.push_back(
          {tensor.name, fmt::format("({} [{}]) also has {} entries along an axis, as many as there "
                                    "are classes; it is left as it is",
                                    tensor.dtype_name, fmt::join(tensor.shape, ", "), classes)});
    }
  }

  std::string path_;
  std::span<const Tensor> tensors_;
  const HeadChoice& choice_;
  Optimizers optimizers_;
  std::set<std::string> originals_;  // bare names of what is no running average
  std::set<std::size_t> followers_;  // tensors of parts_.companions
  Parts parts_;
};

}  // namespace

std::string bare_name(std::string_view name) {
  std::vector<std::string_view> words = words_of(name);
  // Around the model, and what PEFT puts between a layer and its tensors.
  auto first = words.begin();
  while (first + 1 < words.end() && is_wrapper(*first)) ++first;
  words.erase(words.begin(), first);
  std::erase_if(words, [](std::string_view word) {
    return word == "original_module" || word == "modules_to_save" || word == "_orig_mod";
  });
  return fmt::format("{}", fmt::join(words, "."));
}

Parts find_parts(const Archive& archive, std::span<const Tensor> tensors,
                 const HeadChoice& choice) {
  return Finder(archive, tensors, choice).run(archive);
}

}  // namespace oubli::torch
