#include "oubli/model/named_head.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "oubli/base/error.h"

namespace oubli {
namespace {

bool is_float_of_rank(const TensorInfo& info, std::size_t rank) {
  return info.dtype && is_float(*info.dtype) && info.shape.size() == rank;
}

// [n], [1, n], [n, 1] and the like: n; none for what is no vector of floats.
std::optional<std::size_t> float_vector_length(const TensorInfo& info) {
  if (!info.dtype || !is_float(*info.dtype) || info.shape.empty()) return std::nullopt;
  std::size_t length = 1;
  for (const std::size_t extent : info.shape) {
    if (extent == 1) continue;
    if (length != 1) return std::nullopt;
    length = extent;
  }
  return length;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// "model.fc." and "weight" of "model.fc.weight", "dense_1/", "kernel" and ":0" of
// "dense_1/kernel:0", "W" and "2" of "W2": the word stands for the matrix.
struct SplitName {
  std::string stem;  // with its separator
  std::string word;
  std::string number;  // what follows the word, in the bias's name as well
};

SplitName split(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  SplitName parts{"", name, ""};
  const auto cut_number = [&](std::size_t from) {
    parts.number = parts.word.substr(from) + parts.number;
    parts.word.resize(from);
  };
  // TensorFlow's number of an operation's output
  if (const std::size_t colon = name.rfind(':');
      colon != std::string::npos && colon + 1 < name.size() &&
      name.find_first_not_of(kDigits, colon + 1) == std::string::npos)
    cut_number(colon);
  if (const std::size_t separator = parts.word.find_last_of("./_:");
      separator != std::string::npos) {
    parts.stem = parts.word.substr(0, separator + 1);
    parts.word.erase(0, separator + 1);
  }
  const std::size_t letters = parts.word.find_last_not_of(kDigits);
  if (letters != std::string::npos && letters + 1 < parts.word.size()) cut_number(letters + 1);
  return parts;
}

// What people call the vector that goes with a matrix of this name.
std::string bias_word(const std::string& matrix_word) {
  if (matrix_word == "W" || matrix_word == "w") return "b";
  if (lower(matrix_word) == "coef") return "intercept";
  return matrix_word == "WEIGHT" ? "BIAS" : "bias";
}

bool is_usual_head_name(const std::string& name) {
  static constexpr std::array<std::string_view, 10> kLayers{
      "fc",          "classifier", "head",  "output", "logits",
      "predictions", "linear",     "dense", "out",    "lin"};
  const SplitName last = split(name);
  static constexpr std::array<std::string_view, 5> kAlone{"w", "weight", "weights", "kernel",
                                                          "coef"};
  if (std::ranges::find(kAlone, lower(last.word)) == kAlone.end()) return false;
  if (last.stem.empty()) return true;
  const std::string layer = lower(split(last.stem.substr(0, last.stem.size() - 1)).word);
  return std::ranges::find(kLayers, layer) != kLayers.end();
}

std::string describe(const TensorInfo& info) {
  return fmt::format("{} ({} [{}])", info.name.empty() ? "the array" : info.name, info.dtype_name,
                     fmt::join(info.shape, ", "));
}

std::string bias_name_for(const std::string& weights_name) {
  const SplitName parts = split(weights_name);
  return parts.stem + bias_word(parts.word) + parts.number;
}

// What the name of a matrix says about it: PyTorch and scikit-learn have classes in rows, Keras in
// columns.
std::optional<bool> transposed_by_name(const std::string& name) {
  const std::string word =
      lower(split(name.ends_with('_') ? name.substr(0, name.size() - 1) : name).word);
  if (word == "kernel") return true;
  if (word == "weight" || word == "coef") return false;
  return std::nullopt;
}

// Usual names first; of too many others the last, where files in the order of layers have the head.
std::string list_of(std::vector<const TensorInfo*> matrices) {
  constexpr std::ptrdiff_t kMost = 12;
  const auto others =
      std::stable_partition(matrices.begin(), matrices.end(),
                            [](const TensorInfo* info) { return is_usual_head_name(info->name); });
  const std::ptrdiff_t surplus = std::ssize(matrices) - kMost;
  if (surplus > 0) matrices.erase(others, others + std::min(surplus, matrices.end() - others));
  if (std::ssize(matrices) > kMost) matrices.resize(kMost);
  std::vector<std::string> names;
  for (const TensorInfo* info : matrices) names.push_back(describe(*info));
  return fmt::format("{}{}", fmt::join(names, ", "), surplus > 0 ? ", ..." : "");
}

const TensorInfo& find_weights(std::span<const TensorInfo> tensors, const HeadChoice& choice,
                               const std::string& path) {
  if (!choice.weights.empty()) return tensor_at(tensors, choice.weights, path);
  std::vector<const TensorInfo*> matrices;
  for (const TensorInfo& info : tensors)
    if (is_float_of_rank(info, 2)) matrices.push_back(&info);
  if (matrices.empty())
    fail(ErrorCode::unfilterable, "{}: no float matrix that could be a head", path);
  const auto those = [&](auto keep) {
    std::vector<const TensorInfo*> kept;
    std::ranges::copy_if(matrices, std::back_inserter(kept), keep);
    return kept;
  };
  const auto narrow = [&](auto keep) {
    if (auto kept = those(keep); !kept.empty()) matrices = std::move(kept);
  };
  const auto has_extent = [](std::optional<std::size_t> extent) {
    return [extent](const TensorInfo* info) {
      return std::ranges::find(info->shape, *extent) != info->shape.end();
    };
  };
  if (choice.classes) narrow(has_extent(choice.classes));
  if (choice.features) narrow(has_extent(choice.features));
  auto usual = those([](const TensorInfo* info) { return is_usual_head_name(info->name); });
  if (matrices.size() > 1 && usual.size() == 1) {
    const TensorInfo* const reader = choice.classes ? nullptr : reader_of(*usual[0], tensors);
    if (reader != nullptr)
      fail(ErrorCode::usage,
           "{}: {} may be an inner layer, whose outputs {} reads: name the head with --weights",
           path, describe(*usual[0]), describe(*reader));
    matrices = std::move(usual);
  }
  if (matrices.size() != 1)
    fail(ErrorCode::usage, "{}: {} matrices could be the head; name one with --weights: {}", path,
         matrices.size(), list_of(matrices));
  return *matrices[0];
}

// nullptr: none
const TensorInfo* find_bias(std::span<const TensorInfo> tensors, const TensorInfo& weights,
                            const HeadChoice& choice, const std::string& path) {
  if (choice.bias) return choice.bias->empty() ? nullptr : &tensor_at(tensors, *choice.bias, path);
  const auto fits = [&](const TensorInfo& info) {
    const auto length = float_vector_length(info);
    return length && std::ranges::find(weights.shape, *length) != weights.shape.end();
  };
  if (const TensorInfo* const matching = find_tensor(tensors, bias_name_for(weights.name))) {
    if (fits(*matching)) return matching;
    // Left as it is, it would be taken for the new head's bias by whoever loads the file.
    fail(ErrorCode::bad_input,
         "{}: {} is named like the bias of {}, but is not one floating-point number per class. "
         "Say --bias NAME if another one is, or --no-bias",
         path, describe(*matching), describe(weights));
  }
  // Nothing but a matrix and a vector: they belong together.
  const TensorInfo* only = nullptr;
  std::size_t floats = 0;
  for (const TensorInfo& info : tensors) {
    if (info.dtype && is_float(*info.dtype)) ++floats;
    if (fits(info) && info.name != weights.name) only = &info;
  }
  return floats == 2 ? only : nullptr;
}

// Whether W is features x classes.
bool is_transposed(const TensorInfo& weights, const TensorInfo* bias, const HeadChoice& choice,
                   const std::string& path) {
  const std::size_t rows = weights.shape[0];
  const std::size_t cols = weights.shape[1];
  if (choice.transposed) return *choice.transposed;
  const std::optional<bool> by_name = transposed_by_name(weights.name);
  const bool known = choice.classes || choice.features;
  // Where data is given, it tells whether the sides of a square were mistaken for each other.
  if (rows == cols && (by_name || known)) return by_name.value_or(false);
  // Each thing known says which side counts classes; the first that speaks decides, and validate()
  // refuses a bias of the wrong length.
  const auto says = [&](std::optional<std::size_t> classes) -> std::optional<bool> {
    if (classes == rows) return false;
    if (classes == cols) return true;
    return std::nullopt;
  };
  std::optional<bool> transposed = says(choice.classes);
  if (!transposed && choice.features) {
    if (choice.features == cols) transposed = false;
    if (choice.features == rows) transposed = true;
  }
  if (!transposed && bias != nullptr && rows != cols)
    transposed = says(element_count(bias->shape, path));
  if (!transposed) transposed = by_name;
  if (!transposed)
    fail(ErrorCode::usage,
         "{}: {}: nothing says whether its rows or its columns are the classes ({} classes of {} "
         "features, or {} of {}): say --rows-are-classes or --transposed, or give data, means or "
         "--class-names, which tell",
         path, describe(weights), rows, cols, cols, rows);
  return *transposed;
}

// Other tensors that may belong to the classes.
void look_around(std::span<const TensorInfo> tensors, std::size_t classes, NamedHead& found) {
  for (const TensorInfo& info : tensors) {
    if (info.name == found.weights || info.name == found.bias) continue;
    if (std::ranges::find(info.shape, classes) != info.shape.end())
      found.findings.push_back(
          {info.name,
           fmt::format("({} [{}]) also has {} entries along an axis, as many as there are "
                       "classes; it is left as it is. If it belongs to the classes (optimizer "
                       "state, class names, prototypes), it still holds the forgotten one's",
                       info.dtype_name, fmt::join(info.shape, ", "), classes)});
  }
}

}  // namespace

NamedHead find_named_head(std::span<const TensorInfo> tensors, const HeadChoice& choice,
                          const std::string& path) {
  const TensorInfo& weights = find_weights(tensors, choice, path);
  if (weights.shape.size() != 2)
    fail(ErrorCode::bad_input, "{}: {}, wanted a matrix (rank 2)", path, describe(weights));
  const TensorInfo* const bias = find_bias(tensors, weights, choice, path);
  if (bias != nullptr && bias->shape.empty())
    fail(ErrorCode::bad_input, "{}: {}, wanted one number per class", path, describe(*bias));
  NamedHead found{.weights = weights.name,
                  .bias = bias == nullptr ? "" : bias->name,
                  .transposed = is_transposed(weights, bias, choice, path)};
  if (!choice.transposed && weights.shape[0] == weights.shape[1])
    found.findings.push_back(
        {found.weights, fmt::format("is square; taken as {}. If it is not, say --{}",
                                    found.transposed ? "features x classes" : "classes x features",
                                    found.transposed ? "rows-are-classes" : "transposed")});
  const std::size_t classes = weights.shape[found.transposed ? 1 : 0];
  // A bias that is not noticed would stay in the file as it is, and the filter would be wrong.
  if (!choice.bias && bias == nullptr)
    for (const TensorInfo& info : tensors)
      if (&info != &weights && float_vector_length(info) == classes)
        fail(ErrorCode::usage,
             "{}: is {} the bias of {}? It has one number per class. Say --bias {}, or --no-bias",
             path, describe(info), weights.name, info.name);
  look_around(tensors, classes, found);
  return found;
}

const TensorInfo* reader_of(const TensorInfo& weights, std::span<const TensorInfo> tensors) {
  for (const TensorInfo& other : tensors) {
    if (!is_float_of_rank(other, 2) || other.name == weights.name) continue;
    for (const bool transposed : {false, true}) {
      if (transposed_by_name(weights.name).value_or(transposed) != transposed ||
          transposed_by_name(other.name).value_or(transposed) != transposed)
        continue;
      if (weights.shape[transposed ? 1 : 0] == other.shape[transposed ? 0 : 1]) return &other;
    }
  }
  return nullptr;
}

std::string name_for_new_bias(std::span<const TensorInfo> tensors, const std::string& weights) {
  std::string candidate = bias_name_for(weights);
  while (find_tensor(tensors, candidate) != nullptr) candidate += "_";
  return candidate;
}

}  // namespace oubli
