#include "oubli/model/array_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "oubli/model/residue.h"

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

std::string bias_name_for(const std::string& weights_name) {
  const SplitName parts = split(weights_name);
  return parts.stem + bias_word(parts.word) + parts.number;
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
  return fmt::format("{} ({} [{}])", info.name, info.dtype_name, fmt::join(info.shape, ", "));
}

}  // namespace

ArrayModel::ArrayModel(const std::filesystem::path& path, const HeadChoice& choice)
    : ModelFile(path), file_(ArrayFile::open(path)) {
  weights_name_ = find_weights(choice);
  weights_ = file_->read(weights_name_);
  head_.weights = weights_.view;
  if (weights_.view.rank() != 2)
    fail(ErrorCode::bad_input, "{}: {}, wanted a matrix (rank 2)", weights_.view.what,
         oubli::describe(weights_.view));
  bias_name_ = find_bias(choice);
  if (!bias_name_.empty()) {
    bias_ = file_->read(bias_name_);
    head_.bias = bias_.view;
    if (bias_.view.rank() == 0)
      fail(ErrorCode::bad_input, "{}: {}, wanted one number per class", bias_.view.what,
           oubli::describe(bias_.view));
  }
  orient(choice);
  validate(head_);
  if (!choice.bias && bias_name_.empty()) refuse_a_vector_that_may_be_the_bias();
  look_around();
}

std::string ArrayModel::head_name() const {
  return bias_name_.empty() ? weights_name_ : fmt::format("{}, {}", weights_name_, bias_name_);
}

std::string ArrayModel::find_weights(const HeadChoice& choice) const {
  if (!choice.weights.empty()) return file_->at(choice.weights).name;
  std::vector<const TensorInfo*> matrices;
  for (const TensorInfo& info : file_->tensors())
    if (is_float_of_rank(info, 2)) matrices.push_back(&info);
  if (matrices.empty())
    fail(ErrorCode::unfilterable, "{}: no float matrix that could be a head", path().string());
  const auto narrow = [&](auto keep) {
    std::vector<const TensorInfo*> kept;
    std::ranges::copy_if(matrices, std::back_inserter(kept), keep);
    if (!kept.empty()) matrices = std::move(kept);
  };
  const auto has_extent = [](std::optional<std::size_t> extent) {
    return [extent](const TensorInfo* info) {
      return std::ranges::find(info->shape, *extent) != info->shape.end();
    };
  };
  if (choice.classes) narrow(has_extent(choice.classes));
  if (choice.features) narrow(has_extent(choice.features));
  narrow([](const TensorInfo* info) { return is_usual_head_name(info->name); });
  if (matrices.size() != 1) {
    std::vector<std::string> names;
    names.reserve(12);
    for (const TensorInfo* info :
         std::span(matrices).first(std::min<std::size_t>(matrices.size(), 12)))
      names.push_back(describe(*info));
    fail(ErrorCode::usage, "{}: {} matrices could be the head; name one with --weights: {}{}",
         path().string(), matrices.size(), fmt::join(names, ", "),
         matrices.size() > names.size() ? ", ..." : "");
  }
  return matrices[0]->name;
}

std::string ArrayModel::find_bias(const HeadChoice& choice) const {
  if (choice.bias) return choice.bias->empty() ? std::string() : file_->at(*choice.bias).name;
  const auto fits = [&](const TensorInfo& info) {
    const auto length = float_vector_length(info);
    return length && std::ranges::find(weights_.view.shape, *length) != weights_.view.shape.end();
  };
  if (const TensorInfo* const matching = file_->find(bias_name_for(weights_name_))) {
    if (fits(*matching)) return matching->name;
    // Left as it is, it would be taken for the new head's bias by whoever loads the file.
    fail(ErrorCode::bad_input,
         "{}: {} is named like the bias of {}, but is not one floating-point number per class. "
         "Say --bias NAME if another one is, or --no-bias",
         path().string(), describe(*matching), describe(file_->at(weights_name_)));
  }
  // Nothing but a matrix and a vector: they belong together.
  const TensorInfo* only = nullptr;
  std::size_t floats = 0;
  for (const TensorInfo& info : file_->tensors()) {
    if (info.dtype && is_float(*info.dtype)) ++floats;
    if (fits(info) && info.name != weights_name_) only = &info;
  }
  return floats == 2 && only != nullptr ? only->name : std::string();
}

void ArrayModel::orient(const HeadChoice& choice) {
  const std::size_t rows = weights_.view.shape[0];
  const std::size_t cols = weights_.view.shape[1];
  if (choice.transposed) {
    head_.transposed = *choice.transposed;
    return;
  }
  if (rows == cols) {
    head_.transposed = lower(split(weights_name_).word) == "kernel";
    findings_.push_back(
        {weights_name_, fmt::format("is square; taken as {}. If it is not, say --{}",
                                    head_.transposed ? "features x classes" : "classes x features",
                                    head_.transposed ? "rows-are-classes" : "transposed")});
    return;
  }
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
  if (!transposed && head_.bias) transposed = says(head_.bias->count());
  if (!transposed) transposed = lower(split(weights_name_).word) == "kernel";
  head_.transposed = *transposed;
}

void ArrayModel::refuse_a_vector_that_may_be_the_bias() const {
  for (const TensorInfo& info : file_->tensors())
    if (info.name != weights_name_ && float_vector_length(info) == head_.classes())
      fail(ErrorCode::usage,
           "{}: is {} the bias of {}? It has one number per class. Say --bias {}, or --no-bias",
           path().string(), describe(info), weights_name_, info.name);
}

std::vector<std::string> ArrayModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places;
  for (const TensorInfo& info : file_->tensors())
    if (mentions_name(info.name, name)) places.push_back("tensor " + info.name);
  for (const auto& [where, text] : file_->words())
    if (mentions_name(text, name)) places.push_back(where);
  return places;
}

void ArrayModel::look_around() {
  const std::size_t classes = head_.classes();
  for (const TensorInfo& info : file_->tensors()) {
    if (info.name == weights_name_ || info.name == bias_name_) continue;
    if (std::ranges::find(info.shape, classes) != info.shape.end())
      findings_.push_back(
          {info.name,
           fmt::format("({} [{}]) also has {} entries along an axis, as many as there are "
                       "classes; it is left as it is. If it belongs to the classes (optimizer "
                       "state, class names, prototypes), it still holds the forgotten one's",
                       info.dtype_name, fmt::join(info.shape, ", "), classes)});
  }
}

std::string ArrayModel::name_for_new_bias() const {
  std::string candidate = bias_name_for(weights_name_);
  while (file_->find(candidate) != nullptr) candidate += "_";
  return candidate;
}

StagedModel ArrayModel::stage(const NewHead& head, std::span<const std::size_t> retained,
                              const std::filesystem::path& path, bool replace) const {
  StagedModel staged;
  std::vector<TensorEdit> edits{{weights_name_, head.weights.view(weights_name_)}};
  HeadChoice choice{.weights = weights_name_,
                    .bias = bias_name_,
                    .transposed = head_.transposed,
                    .classes = retained.size(),
                    .features = head_.features()};
  if (head.bias) {
    if (bias_name_.empty() && file_->format() == ".npy")
      fail(ErrorCode::unfilterable,
           "{}: the solver needs a bias, which an .npy file has no room for; use --solver paper, "
           "or save the head as .npz",
           this->path().string());
    if (bias_name_.empty()) choice.bias = name_for_new_bias();
    edits.push_back({*choice.bias, head.bias->view(*choice.bias)});
  }
  if (head.bias_added)
    staged.findings.push_back(
        {*choice.bias, "is new: the solver needs a bias, which the head lacked"});
  staged.files.push_back(std::make_unique<AtomicFile>(path, replace));
  file_->rewrite(*staged.files[0], edits);
  check_unchanged();
  staged.written = std::make_unique<ArrayModel>(staged.files[0]->temporary_path(), choice);
  return staged;
}

}  // namespace oubli
