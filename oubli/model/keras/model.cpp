#include "oubli/model/keras/model.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "oubli/array/zip_writer.h"
#include "oubli/base/byte_reader.h"
#include "oubli/base/error.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/model/mentions.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

constexpr char kWeightsEntry[] = "model.weights.h5";
constexpr char kConfigEntry[] = "config.json";

fs::path labels_path(fs::path model) { return model += ".labels.txt"; }

// The columns `retained` of a matrix, or elements of a vector.
Tensor without_columns(const TensorView& tensor, std::span<const std::size_t> retained) {
  const std::size_t columns = tensor.shape.back();
  const std::size_t size = size_of(tensor.dtype);
  Tensor result{tensor.dtype, tensor.shape, {}};
  result.shape.back() = retained.size();
  const std::size_t rows = tensor.bytes.size() / (columns * size);
  result.bytes.reserve(rows * retained.size() * size);
  for (std::size_t row = 0; row < rows; ++row)
    for (const std::size_t column : retained) {
      const auto element = tensor.bytes.subspan((row * columns + column) * size, size);
      result.bytes.insert(result.bytes.end(), element.begin(), element.end());
    }
  return result;
}

void put_u32(Patches& patches, std::uint64_t at, std::uint32_t value) {
  patches.put(at, std::as_bytes(std::span(&value, 1)));
}

// The content of a stored entry with changes, as one buffer.
std::vector<std::byte> patched(std::span<const std::byte> content, const Patches& patches) {
  return patches.read(content, 0, content.size());
}

}  // namespace

KerasModel::KerasModel(const fs::path& path, const HeadChoice& choice)
    : ModelFile(path), file_(path), choice_(choice) {
  if (as_text(file_.bytes()).starts_with("PK")) {
    zip_.emplace(file_.bytes(), path.string());
    const ZipEntry* const weights = zip_->find(kWeightsEntry);
    if (weights == nullptr || zip_->find(kConfigEntry) == nullptr)
      fail(ErrorCode::bad_input, "{}: holds no {} and {}, as a .keras file does", path.string(),
           kWeightsEntry, kConfigEntry);
    unpacked_ = unpack(*weights, path.string(), true);
    hdf5_.emplace(unpacked_.bytes, fmt::format("{}:{}", path.string(), kWeightsEntry));
  } else {
    hdf5_.emplace(file_.bytes(), path.string());
  }
  read_config();
  weights_ = find_keras_weights(*hdf5_, path.string(), config_, choice);
  head_.weights = hdf5_->tensor(*weights_.kernel);
  head_.transposed = choice.transposed.value_or(true);
  if (!head_.transposed)
    fail(ErrorCode::usage, "{}: --rows-are-classes: kernels of Keras are features x classes",
         path.string());
  if (weights_.bias != nullptr) head_.bias = hdf5_->tensor(*weights_.bias);
  validate(head_);
  read_labels();
  look_around();
}

void KerasModel::read_config() {
  if (zip_) {
    config_text_ = as_text(unpack(*zip_->find(kConfigEntry), path().string()).bytes);
  } else {
    const Hdf5Attribute* const text = hdf5_->attribute(hdf5_->objects()[0], "model_config");
    if (text == nullptr) return;  // weights alone
    const auto texts = hdf5_->texts(*text);
    if (texts.size() != 1)
      fail(ErrorCode::bad_input, "{}: model_config is no text", path().string());
    config_text_ = texts[0];
    config_at_ = hdf5_->offset_of(texts[0]);
  }
  config_ = find_keras_head(config_text_, path().string());
}

void KerasModel::read_labels() {
  const std::size_t classes = head_.classes();
  const auto take = [&](const fs::path& file, std::vector<std::string> names) {
    if (names.size() != classes) {
      findings_.push_back({file.filename().string(),
                           fmt::format("beside the model has {} names, the model has {} classes; "
                                       "not used",
                                       names.size(), classes)});
      return;
    }
    labels_file_ = file;
    class_names_ = std::move(names);
    findings_.push_back({file.filename().string(), "beside the model: the class names are its"});
  };
  const fs::path folder = path().parent_path();
  for (const fs::path& file : {labels_path(path()), folder / "labels.txt"}) {
    if (!fs::is_regular_file(file)) continue;
    std::string text = read_text_file(file, std::size_t{1} << 24);
    std::erase(text, '\r');
    while (text.ends_with("\n\n")) text.pop_back();
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) +
                       (text.empty() || text.ends_with('\n') ? 0 : 1);
    std::vector<std::string> names = parse_class_names(text, lines, file.string());
    numbered_labels_ = !names.empty();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!names[i].starts_with(fmt::format("{} ", i))) numbered_labels_ = false;
    if (numbered_labels_)
      for (std::string& name : names) name.erase(0, name.find(' ') + 1);
    return take(file, std::move(names));
  }
  const fs::path file = folder / "metadata.json";
  if (!fs::is_regular_file(file)) return;
  const auto document = parse_json(read_text_file(file, std::size_t{1} << 24), file.string());
  const auto labels = document.is_object() ? document.find("labels") : document.end();
  if (!document.is_object() || labels == document.end() || !labels->is_array()) return;
  std::vector<std::string> names;
  for (const auto& label : *labels)
    if (label.is_string()) names.push_back(label.get<std::string>());
  take(file, std::move(names));
}

void KerasModel::look_around() {
  std::ranges::copy(weights_.findings, std::back_inserter(findings_));
  for (const Hdf5Object* const moment : weights_.moments)
    findings_.push_back({moment->path, "belongs to the head (optimizer); it is cut as well"});
  const Hdf5Attribute* const training = hdf5_->attribute(hdf5_->objects()[0], "training_config");
  if (training != nullptr && !hdf5_->texts(*training).empty() &&
      hdf5_->texts(*training)[0].find("num_classes") != std::string_view::npos)
    findings_.push_back({"training_config",
                         "counts classes (num_classes of a metric); it is left as it is, and "
                         "training goes on only with other metrics"});
  if (config_ && config_->shift_shows)
    findings_.push_back(
        {config_->names.back(),
         fmt::format("is followed by {}, which shows a shift of all logits", config_->activation)});
}

std::string KerasModel::head_name() const {
  const std::string kernel = weights_.kernel->path;
  return weights_.bias == nullptr ? kernel : fmt::format("{}, {}", kernel, weights_.bias->path);
}

std::vector<std::string> KerasModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places;
  if (mentions_name(config_text_, name))
    places.push_back(zip_ ? std::string(kConfigEntry) : "attribute model_config");
  for (const Hdf5Object& object : hdf5_->objects()) {
    if (mentions_name(object.path, name)) places.push_back(object.path);
    for (const Hdf5Attribute& attribute : object.attributes) {
      if (attribute.name == "model_config" || attribute.type.name != "text") continue;
      const auto texts = hdf5_->texts(attribute);
      if (std::ranges::any_of(texts, [&](auto text) { return mentions_name(text, name); }))
        places.push_back(fmt::format("attribute {} of {}", attribute.name, object.path));
    }
  }
  if (!zip_) return places;
  for (const ZipEntry& entry : zip_->entries()) {
    if (entry.name == kWeightsEntry || entry.name == kConfigEntry || entry.size > kUnpackInMemory)
      continue;
    const SharedTensor content = unpack(entry, path().string());
    if (mentions_name(as_text(content.bytes), name)) places.push_back(entry.name);
  }
  return places;
}

void KerasModel::for_each_packed(
    const std::function<bool(const std::string&, std::span<const std::byte>)>& visit) const {
  if (!zip_) return;
  for (const ZipEntry& entry : zip_->entries()) {
    if (entry.method == 0) continue;
    const SharedTensor content = unpack(entry, path().string(), true);
    if (!visit(entry.name, content.bytes)) return;
  }
}

std::vector<fs::path> KerasModel::files() const {
  if (!class_names_) return {path()};
  return {path(), labels_file_};
}

std::vector<fs::path> KerasModel::files_beside(const fs::path& output) const {
  if (!class_names_) return {};
  return {labels_path(output)};
}

Patches KerasModel::weight_patches(const NewHead& head, std::span<const std::size_t> retained,
                                   std::vector<Tensor>& moments) const {
  Patches patches;
  hdf5_->shrink(patches, *weights_.kernel, head.weights.view("the new weights"));
  if (head.bias) hdf5_->shrink(patches, *weights_.bias, head.bias->view("the new bias"));
  moments.reserve(weights_.moments.size());  // views of them are kept
  for (const Hdf5Object* const moment : weights_.moments) {
    moments.push_back(without_columns(hdf5_->tensor(*moment), retained));
    hdf5_->shrink(patches, *moment, moments.back().view(moment->path));
  }
  return patches;
}

Patches KerasModel::config_patches(std::size_t classes) const {
  Patches patches;
  if (!config_) return patches;
  for (const JsonPlace& place : config_->counts)
    patches.put(place.begin, as_bytes(padded_number(classes, place.end - place.begin)));
  return patches;
}

void KerasModel::write_keras(AtomicFile& out, const Patches& weights, const Patches& config) const {
  struct Edit {
    const ZipEntry* entry;
    const Patches* patches;
    std::span<const std::byte> content;
  };
  const Edit edits[] = {{zip_->find(kWeightsEntry), &weights, unpacked_.bytes},
                        {zip_->find(kConfigEntry), &config, as_bytes(config_text_)}};
  // Stored, with the check sum in front: only the check sums change besides.
  const auto in_place = [](const Edit& edit) {
    return edit.entry->method == 0 &&
           (load_le<std::uint16_t>(edit.entry->local_header, 6) & 8) == 0;
  };
  if (std::ranges::all_of(edits, in_place)) {
    const auto offset = [&](std::span<const std::byte> part) {
      return static_cast<std::uint64_t>(part.data() - file_.bytes().data());
    };
    Patches all;
    for (const Edit& edit : edits) {
      uLong crc = ::crc32(0, nullptr, 0);
      edit.patches->for_each_piece(edit.content, [&](std::span<const std::byte> piece) {
        crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
      });
      all.put_shifted(*edit.patches, offset(edit.entry->packed));
      put_u32(all, offset(edit.entry->local_header) + 14, static_cast<std::uint32_t>(crc));
      put_u32(all, offset(edit.entry->directory_record) + 16, static_cast<std::uint32_t>(crc));
    }
    return all.write_copy(file_, out);
  }
  ZipWriter writer(out);
  for (const ZipEntry& entry : zip_->entries()) {
    const auto edit = std::ranges::find(edits, &entry, &Edit::entry);
    if (edit == std::end(edits)) {
      writer.copy(entry);
      continue;
    }
    const std::vector<std::byte> content = patched(edit->content, *edit->patches);
    const std::array pieces{std::span<const std::byte>(content)};
    writer.add(entry.name, pieces, entry.method != 0,
               load_le<std::uint32_t>(entry.directory_record, 12));
  }
  writer.finish(zip_->comment());
}

void KerasModel::refuse_to_stage(const NewHead& head) const {
  if (head.bias_added)
    fail(ErrorCode::unfilterable,
         "{}: the solver needs a bias, which layer '{}' has no room for; use --solver paper, or "
         "save the model with a bias (Dense(..., use_bias=True))",
         path().string(), weights_.kernel->path);
  std::vector<const Hdf5Object*> changed = weights_.moments;
  changed.push_back(weights_.kernel);
  if (weights_.bias != nullptr) changed.push_back(weights_.bias);
  for (const Hdf5Object* const object : changed)
    if (object->links != 1)
      fail(ErrorCode::unfilterable,
           "{}: {} has {} names in the file: another layer uses it, too, and would lose the class",
           path().string(), object->path, object->links);
}

StagedModel KerasModel::stage(const NewHead& head, std::span<const std::size_t> retained,
                              const fs::path& path, bool replace) const {
  refuse_to_stage(head);
  StagedModel staged;
  if (class_names_) {
    staged.files.push_back(std::make_unique<AtomicFile>(labels_path(path), replace));
    for (std::size_t i = 0; i < retained.size(); ++i) {
      if (numbered_labels_) staged.files[0]->write(fmt::format("{} ", i));
      staged.files[0]->write((*class_names_)[retained[i]] + "\n");
    }
    staged.findings.push_back({labels_path(path).filename().string(),
                               fmt::format("has the names that are left; {} is as it was",
                                           labels_file_.filename().string())});
  }
  std::vector<Tensor> moments;
  Patches weights = weight_patches(head, retained, moments);
  const Patches config = config_patches(retained.size());
  staged.files.push_back(std::make_unique<AtomicFile>(path, replace));
  AtomicFile& out = *staged.files.back();
  if (zip_) {
    hdf5_->finish(weights);
    write_keras(out, weights, config);
  } else {
    weights.put_shifted(config, config_at_);
    hdf5_->finish(weights);
    weights.write_copy(file_, out);
  }
  check_unchanged();
  HeadChoice same = choice_;
  same.classes = retained.size();
  staged.written = std::make_unique<KerasModel>(out.temporary_path(), same);
  return staged;
}

}  // namespace oubli
