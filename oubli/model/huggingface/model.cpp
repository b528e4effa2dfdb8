#include "oubli/model/huggingface/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "oubli/array/array_file.h"
#include "oubli/base/atomic_folder.h"
#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/data/preparation_config.h"
#include "oubli/model/huggingface/two_heads.h"
#include "oubli/model/mentions.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

constexpr char kConfig[] = "config.json";
constexpr std::size_t kTextLimit = std::size_t{64} << 20;
// Texts larger than this are no documents about a model.
constexpr std::uintmax_t kSearchedText = std::uintmax_t{16} << 20;

// What a last layer is called in transformers and timm, without ".weight". Endings come last.
constexpr std::array kHeads{"classifier",
                            "cls_classifier",
                            "score",
                            "head",
                            "fc",
                            "head.fc",
                            "logits_proj",
                            "classifier.out_proj",
                            "classifier.1",
                            "classifier.dense",
                            "classifier.linear",
                            "last_linear",
                            "output"};
// Heads that are averaged with another one: DeiT, LeViT, timm.
constexpr std::array kSecondHeads{"distillation_classifier", "classifier_distill",
                                  "classifier_distill.linear", "dist_head", "head_dist"};

bool is_weights(const fs::path& file) {
  static constexpr std::array kEndings{".safetensors", ".bin",  ".pt",   ".pth",    ".h5",
                                       ".msgpack",     ".onnx", ".ckpt", ".tflite", ".ot",
                                       ".npz",         ".gguf", ".pkl",  ".joblib"};
  const std::string ending = file.extension().string();
  return std::ranges::find(kEndings, ending) != kEndings.end() ||
         file.filename().string().ends_with(".onnx_data");
}

// "vit.head.weight" is "head"'s, also below another module.
bool is_called(std::string_view tensor, std::string_view layer) {
  const std::string whole = fmt::format("{}.weight", layer);
  return tensor == whole || tensor.ends_with("." + whole);
}

bool is_one_of(std::string_view tensor, std::span<const char* const> layers) {
  return std::ranges::any_of(layers, [&](const char* layer) { return is_called(tensor, layer); });
}

fs::path first_there(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (fs::is_regular_file(folder / name)) return name;
  return {};
}

std::size_t bytes_of(const HeadView& head) {
  return head.weights.bytes.size() + (head.bias ? head.bias->bytes.size() : 0);
}
std::size_t numbers_of(const HeadView& head) {
  return head.weights.count() + (head.bias ? head.bias->count() : 0);
}

}  // namespace

HuggingFaceModel::HuggingFaceModel(const fs::path& folder, const HeadChoice& choice)
    : ModelFile(folder.has_filename() ? folder : folder.parent_path()),
      config_(read_text_file(folder / kConfig, kTextLimit), (folder / kConfig).string()),
      config_written_(fs::last_write_time(folder / kConfig)) {
  open_weights(choice);
  list_files();
  for (const char* const name : {"preprocessor_config.json", "processor_config.json"}) {
    if (!fs::is_regular_file(path() / name)) continue;
    const auto stated = parse_preparation_config(read_text_file(path() / name, kTextLimit),
                                                 (path() / name).string());
    if (!stated) continue;
    findings_.push_back(
        {name, stated->cannot.empty()
                   ? fmt::format("prepares inputs as {} does", option_words(stated->options))
                   : fmt::format("prepares inputs in a way that --scale, --mean, --std and --size "
                                 "cannot say ({}): give prepared arrays",
                                 stated->cannot)});
    break;
  }
}

std::map<std::string, std::string> HuggingFaceModel::tensor_files(const std::string& file) const {
  std::map<std::string, std::string> where;
  if (index_.empty()) {
    const std::unique_ptr<ArrayFile> only = ArrayFile::open(path() / file);
    for (const TensorInfo& info : only->tensors()) where.emplace(info.name, file);
    return where;
  }
  const auto document = parse_json(index_text_, (path() / index_).string());
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object())
    fail(ErrorCode::bad_input, "{}: no weight_map", (path() / index_).string());
  for (const auto& [tensor, in] : map->items()) {
    if (!in.is_string() || fs::path(in.get<std::string>()).has_parent_path())
      fail(ErrorCode::bad_input, "{}: '{}' is in no file of this folder",
           (path() / index_).string(), tensor);
    where.emplace(tensor, in.get<std::string>());
  }
  return where;
}

std::string HuggingFaceModel::find_head(const HeadChoice& choice,
                                        const std::map<std::string, std::string>& where) const {
  const auto may_be = [&](const std::string& tensor) {
    if (!choice.weights.empty()) return tensor == choice.weights;
    return config_.classifier().empty() ? is_one_of(tensor, kHeads)
                                        : is_called(tensor, config_.classifier());
  };
  std::map<std::string, std::unique_ptr<ArrayFile>> open;
  std::vector<std::string> candidates;
  for (const auto& [tensor, in] : where) {
    if (!may_be(tensor)) continue;
    if (!open.contains(in)) open.emplace(in, ArrayFile::open(path() / in));
    const TensorInfo& info = open[in]->at(tensor);
    if (!config_.classes() || (info.shape.size() == 2 && info.shape[0] == *config_.classes()))
      candidates.push_back(tensor);
  }
  if (candidates.empty())
    fail(
        ErrorCode::unfilterable,
        "{}: no tensor that is called and shaped like a last layer of {} classes ({}); if there is "
        "one, name it with --weights",
        path().string(), config_.classes() ? std::to_string(*config_.classes()) : "unknown many",
        config_.architecture());
  if (candidates.size() > 1)
    fail(ErrorCode::usage, "{}: several tensors could be the head; name one with --weights: {}",
         path().string(), fmt::join(candidates, ", "));
  return candidates[0];
}

HuggingFaceModel::Heads HuggingFaceModel::find_heads(const HeadChoice& choice,
                                                     std::string& file) const {
  const std::map<std::string, std::string> where = tensor_files(file);
  const std::string head = find_head(choice, where);
  file = where.at(head);
  const auto bias = where.find(fmt::format("{}bias", head.substr(0, head.size() - 6)));
  if (bias != where.end() && bias->second != file)
    fail(ErrorCode::unfilterable, "{}: {} and its bias are in different files", path().string(),
         head);
  std::vector<std::string> seconds;
  for (const auto& [tensor, in] : where)
    if (is_one_of(tensor, kSecondHeads)) seconds.push_back(tensor);
  if (seconds.empty()) return {head, ""};
  if (seconds.size() > 1 || !index_.empty())
    fail(ErrorCode::unfilterable,
         "{}: heads that are averaged, {} and {}, in several files or more "
         "than two; save them in one file",
         path().string(), head, fmt::join(seconds, ", "));
  return {head, seconds[0]};
}

void HuggingFaceModel::open_weights(const HeadChoice& choice) {
  HeadChoice inner = choice;
  if (config_.classes()) {
    if (choice.classes && *choice.classes != *config_.classes())
      fail(ErrorCode::bad_input, "{}: {} classes, but {} were expected", path().string(),
           *config_.classes(), *choice.classes);
    inner.classes = config_.classes();
  }
  Heads heads;
  std::string file = first_there(path(), {"model.safetensors", "pytorch_model.bin"}).string();
  if (file.empty()) {
    index_ = first_there(path(), {"model.safetensors.index.json", "pytorch_model.bin.index.json"});
    if (index_.empty())
      fail(ErrorCode::bad_input,
           "{}: no model.safetensors and no pytorch_model.bin in it, nor an index of such",
           path().string());
    index_text_ = read_text_file(path() / index_, kTextLimit);
  }
  if (file.ends_with(".bin") || index_.string().starts_with("pytorch")) {
    if (!index_.empty())
      fail(ErrorCode::unfilterable,
           "{}: weights in several pickles; save it as safetensors: model.save_pretrained(NEW, "
           "safe_serialization=True)",
           path().string());
  } else {
    heads = find_heads(choice, file);
    inner.weights = heads.first;
    inner.transposed = choice.transposed.value_or(false);
  }
  weight_files_.emplace_back(file);
  if (!index_.empty()) {
    std::set<std::string> shards;
    const auto document = parse_json(index_text_, (path() / index_).string());
    for (const auto& [tensor, in] : document.at("weight_map").items())
      shards.insert(in.get<std::string>());
    shards.erase(file);
    weight_files_.insert(weight_files_.end(), shards.begin(), shards.end());
  }
  if (heads.second.empty())
    weights_ = ModelFile::open(path() / file, inner);
  else
    weights_ = std::make_unique<TwoHeads>(path() / file, heads.first, heads.second);
  if (config_.classes() && weights_->head().classes() != *config_.classes())
    fail(ErrorCode::bad_input, "{}: the weights have {} classes, the configuration says {}",
         path().string(), weights_->head().classes(), *config_.classes());
}

void HuggingFaceModel::list_files() {
  std::error_code error;
  auto each = fs::recursive_directory_iterator(path(), error);
  if (error) fail(ErrorCode::io, "{}: cannot list: {}", path().string(), error.message());
  for (const auto& entry : each) {
    const fs::path name = entry.path().lexically_relative(path());
    if (entry.is_directory() && name.filename().string().starts_with(".")) {
      each.disable_recursion_pending();
      findings_.push_back({name.string(),
                           "is not copied; if it is a history, it keeps the old "
                           "weights"});
      continue;
    }
    if (entry.is_directory()) {
      if (entry.is_symlink()) findings_.push_back({name.string(), "is a link and not followed"});
      continue;
    }
    if (!entry.is_regular_file()) continue;
    Fate fate = is_weights(name) ? Fate::left_out : Fate::copied;
    if (std::ranges::find(weight_files_, name) != weight_files_.end()) fate = Fate::copied;
    if (name == weight_files_[0] || name == kConfig || name == index_) fate = Fate::rewritten;
    fates_.emplace(name, fate);
    if (fate == Fate::left_out)
      findings_.push_back({name.string(),
                           "may be another copy of the weights, or of numbers made "
                           "from them; it is left out of the new folder"});
  }
}

std::optional<std::vector<std::string>> HuggingFaceModel::class_names() const {
  if (config_.names().empty()) return std::nullopt;
  return config_.names();
}

std::vector<Finding> HuggingFaceModel::findings() const {
  std::vector<Finding> all = weights_->findings();
  all.insert(all.end(), findings_.begin(), findings_.end());
  return all;
}

std::vector<std::string> HuggingFaceModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places = weights_->places_with_name(name);
  for (const auto& [file, fate] : fates_) {
    const std::string ending = file.extension().string();
    const bool text = ending == ".json" || ending == ".md" || ending == ".txt" ||
                      ending == ".yaml" || ending == ".yml" || ending == ".py";
    const std::string stem = file.filename().string();
    // Every word of a language is in a tokenizer.
    const bool words = stem.starts_with("tokenizer") || stem.starts_with("vocab") ||
                       stem.starts_with("merges") || stem.starts_with("added_tokens");
    if (!text || words || fate == Fate::left_out) continue;
    if (fs::file_size(path() / file) > kSearchedText) continue;
    if (mentions_name(read_text_file(path() / file, kTextLimit), name))
      places.push_back(file.string());
  }
  return places;
}

std::vector<fs::path> HuggingFaceModel::files() const {
  std::vector<fs::path> all;
  for (const fs::path& file : weight_files_) all.push_back(path() / file);
  all.push_back(path() / kConfig);
  if (!index_.empty()) all.push_back(path() / index_);
  return all;
}

void HuggingFaceModel::check_unchanged() const {
  weights_->check_unchanged();
  if (fs::last_write_time(path() / kConfig) != config_written_)
    fail(ErrorCode::bad_input, "{}: changed while it was being read; try again",
         (path() / kConfig).string());
}

StagedModel HuggingFaceModel::stage(const NewHead& head, std::span<const std::size_t> retained,
                                    const fs::path& output, bool /*replace*/) const {
  StagedModel staged;
  staged.folder = std::make_unique<AtomicFolder>(output);
  const fs::path& made = staged.folder->temporary_path();
  for (const auto& [file, fate] : fates_) {
    if (fate == Fate::left_out) continue;
    fs::create_directories((made / file).parent_path());
    if (fate != Fate::copied) continue;
    const MappedFile old(path() / file);
    write_file(made / file, old.bytes(), false);
  }
  StagedModel weights = weights_->stage(head, retained, made / weight_files_[0], false);
  staged.findings = std::move(weights.findings);
  staged.old_rows_may_remain = weights.old_rows_may_remain;
  weights.written.reset();
  weights.commit();
  write_file(made / kConfig, config_.without(retained), false);
  if (!index_.empty()) {
    std::size_t bytes = head.weights.bytes.size() + (head.bias ? head.bias->bytes.size() : 0);
    std::size_t count = bytes / size_of(head.weights.dtype);
    if (head.bias_added)
      fail(ErrorCode::unfilterable,
           "{}: the solver needs a bias, which the index of the shards does not list; use --solver "
           "paper",
           path().string());
    bytes = bytes_of(this->head()) - bytes;
    count = numbers_of(this->head()) - count;
    write_file(made / index_, shrunk_index(index_text_, bytes, count, (path() / index_).string()),
               false);
  }
  check_unchanged();
  HeadChoice same;
  same.weights = weights_->head_name().substr(0, weights_->head_name().find(", "));
  staged.written = std::make_unique<HuggingFaceModel>(made, same);
  return staged;
}

}  // namespace oubli
