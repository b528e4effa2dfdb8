#include "oubli/model/tflite/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "oubli/array/zip_writer.h"
#include "oubli/base/byte_reader.h"
#include "oubli/base/error.h"
#include "oubli/model/mentions.h"
#include "oubli/model/name_agreement.h"

namespace oubli {

namespace fs = std::filesystem;

namespace {

using namespace tflite_type;

constexpr std::uint64_t kAnyExtent = 0xFFFFFFFF;  // -1 in a shape's signature

unsigned element_size(unsigned type) {
  switch (type) {
    case kFloat32:
    case kInt32:
      return 4;
    case kFloat16:
      return 2;
    case kUint8:
    case kInt8:
      return 1;
    default:
      return 0;
  }
}

std::int64_t integer_at(std::span<const std::byte> bytes, unsigned type, std::size_t i) {
  if (type == kInt32) return static_cast<std::int32_t>(load_le<std::uint32_t>(bytes, 4 * i));
  const auto byte = load_le<std::uint8_t>(bytes, i);
  return type == kInt8 ? static_cast<std::int8_t>(byte) : byte;
}

// What lies behind the model, if it is an archive that ends where the file does.
std::optional<ZipArchive> archive_in(std::span<const std::byte> bytes, const std::string& what) {
  // The end record has 22 bytes and, from Python, no comment.
  if (bytes.size() < 22 || !as_text(bytes.last(22)).starts_with("PK\5\6")) return std::nullopt;
  ZipArchive archive(bytes, what);
  if (archive.entries().empty()) return std::nullopt;
  return archive;
}

}  // namespace

TfliteModel::TfliteModel(const fs::path& path, const HeadChoice& choice)
    : ModelFile(path),
      file_(path),
      zip_(archive_in(file_.bytes(), path.string())),
      model_end_([&] {
        const std::byte* end = file_.bytes().data() + file_.bytes().size();
        if (zip_)
          for (const ZipEntry& entry : zip_->entries())
            end = std::min(end, entry.local_header.data());
        return static_cast<std::uint64_t>(end - file_.bytes().data());
      }()),
      buffer_(file_.bytes().first(static_cast<std::size_t>(model_end_)), path.string()),
      graph_(buffer_, path.string()),
      place_(find_tflite_head(buffer_, graph_, path.string())) {
  if (!choice.weights.empty() || choice.bias || choice.transposed.value_or(false))
    fail(ErrorCode::usage,
         "{}: --weights, --bias, --no-bias and --transposed are for files of arrays; the head of a "
         ".tflite file is found by its graph",
         path.string());
  read_head();
  read_labels();
}

TensorView TfliteModel::values_of(std::size_t index, Tensor& storage) const {
  const TfliteTensor& tensor = graph_.tensors[index];
  const std::string what = fmt::format("{}:{}", path().string(), tensor.name);
  const unsigned size = element_size(tensor.type);
  std::vector<std::size_t> shape;
  for (const std::int32_t extent : tensor.shape) {
    if (extent < 0) fail(ErrorCode::bad_input, "{}: a shape below zero", what);
    shape.push_back(static_cast<std::size_t>(extent));
  }
  const std::size_t count = element_count(shape, what);
  const auto& data = graph_.buffers[tensor.buffer];
  if (size == 0)
    fail(ErrorCode::unfilterable, "{}: elements of type {}, wanted floats or 8-bit integers", what,
         tensor.type);
  if (!data || count > data->count || count * size != data->count)
    fail(ErrorCode::bad_input, "{}: {} bytes for {} elements", what, data ? data->count : 0, count);
  const auto bytes = buffer_.span(data->elements(), data->count);
  if (tensor.type == kFloat32 || tensor.type == kFloat16)
    return {tensor.type == kFloat32 ? DType::f32 : DType::f16, shape, bytes, what};
  if (shape.empty()) fail(ErrorCode::unfilterable, "{}: a single number", what);
  const std::size_t rows = shape[0];
  const auto fits = [&](std::size_t n, std::size_t least) {
    return n >= least && (n <= 1 || n == rows);
  };
  if (!fits(tensor.scales.size(), 1) || !fits(tensor.zeros.size(), 0))
    fail(ErrorCode::unfilterable, "{}: {} scales and {} zero points, wanted one or one per class",
         what, tensor.scales.size(), tensor.zeros.size());
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = i / (count / rows);
    const float scale = tensor.scales[tensor.scales.size() > 1 ? row : 0];
    const std::int64_t zero =
        tensor.zeros.empty() ? 0 : tensor.zeros[tensor.zeros.size() > 1 ? row : 0];
    // In double, because a file may have any zero point.
    values[i] =
        static_cast<double>(scale) *
        (static_cast<double>(integer_at(bytes, tensor.type, i)) - static_cast<double>(zero));
  }
  storage = to_tensor(values, DType::f32);
  storage.shape = shape;
  return storage.view(what);
}

void TfliteModel::read_head() {
  head_.weights = values_of(place_.weights, weights_);
  if (head_.weights.rank() != 2)
    fail(ErrorCode::unfilterable, "{}: {}, wanted a matrix", head_.weights.what,
         describe(head_.weights));
  if (place_.bias) {
    head_.bias = values_of(*place_.bias, bias_);
    if (quantised() != !bias_.bytes.empty() && head_.bias->dtype != DType::f32)
      fail(ErrorCode::unfilterable, "{}: weights and bias of different kinds", path().string());
  }
  validate(head_);
  for (const std::size_t result : place_.results) {
    const auto& shape = graph_.tensors[result].shape;
    if (shape.empty() || shape.back() != static_cast<std::int32_t>(head_.classes()))
      fail(ErrorCode::unfilterable, "{}: {} has the shape [{}], wanted {} classes at its end",
           path().string(), graph_.tensors[result].name, fmt::join(shape, ", "), head_.classes());
  }
  if (quantised())
    findings_.push_back({std::string(graph_.tensors[place_.weights].name),
                         "is quantised: classes can be left out of it exactly (--method naive), "
                         "other methods need numbers that it cannot hold"});
  if (place_.rounds_logits)
    findings_.push_back({"", "the logits are rounded to 8 bits: a shift of them shows"});
}

void TfliteModel::read_labels() {
  if (!zip_) return;
  for (const ZipEntry& entry : zip_->entries()) {
    if (!entry.name.ends_with(".txt") || entry.size > kUnpackInMemory) continue;
    std::string text(as_text(unpack(entry, path().string()).bytes));
    auto names = NameText::parse_plain(text, '\n');
    if (!names || names->names().size() != head_.classes()) {
      findings_.push_back({entry.name,
                           "in the archive behind the model is no list of its classes; "
                           "it is left as it is"});
      continue;
    }
    labels_.push_back({entry.name, std::move(text), std::move(*names)});
  }
}

std::string TfliteModel::head_name() const {
  const std::string weights(graph_.tensors[place_.weights].name);
  return place_.bias ? fmt::format("{}, {}", weights, graph_.tensors[*place_.bias].name) : weights;
}

std::optional<std::vector<std::string>> TfliteModel::class_names() const {
  if (labels_.empty()) return std::nullopt;
  for (const Labels& other : labels_)
    if (in_another_order(labels_[0].names.names(), other.names.names())) return std::nullopt;
  return labels_[0].names.names();
}

std::vector<std::string> TfliteModel::places_with_name(std::string_view name) const {
  std::vector<std::string> places;
  for (const auto& [where, text] : graph_.words)
    if (mentions_name(text, name)) places.push_back(where);
  for (const TfliteTensor& tensor : graph_.tensors)
    if (mentions_name(tensor.name, name)) places.push_back(fmt::format("tensor {}", tensor.name));
  if (zip_)
    for (const ZipEntry& entry : zip_->entries())
      if (entry.size <= kUnpackInMemory &&
          mentions_name(as_text(unpack(entry, path().string()).bytes), name))
        places.push_back(entry.name);
  return places;
}

void TfliteModel::require_own(const FlatVector& vector, unsigned element) const {
  const std::uint64_t end = vector.elements() + vector.count * element;
  const bool shared = graph_.references.at(vector.at) != 1;
  const bool overlapped = std::ranges::any_of(graph_.extents, [&](const auto& extent) {
    return extent.first != vector.at && extent.first < end && vector.at < extent.second;
  });
  if (shared || overlapped)
    fail(ErrorCode::unfilterable,
         "{}: something else in the file uses what has to be changed (byte {}); convert the model "
         "anew, or filter the model that it was made from",
         path().string(), vector.at);
}

void TfliteModel::shrink(Patches& patches, const FlatVector& vector, unsigned element,
                         std::span<const std::byte> values) const {
  require_own(vector, element);
  const auto count = static_cast<std::uint32_t>(values.size() / element);
  patches.put(vector.at, std::as_bytes(std::span(&count, 1)));
  patches.put_view(vector.elements(), values);
  patches.zero(vector.elements() + values.size(), vector.count * element - values.size());
}

void TfliteModel::shrink_shape(Patches& patches, const TfliteTensor& tensor, std::size_t axis,
                               std::size_t classes) const {
  const auto number = static_cast<std::uint32_t>(classes);
  for (const auto& vector : {tensor.shape_at, tensor.signature_at}) {
    if (!vector || vector->count <= axis) continue;
    if (buffer_.load(vector->elements() + 4 * axis, 4) == kAnyExtent) continue;
    require_own(*vector, 4);
    patches.put(vector->elements() + 4 * axis, std::as_bytes(std::span(&number, 1)));
  }
}

std::vector<std::byte> TfliteModel::rows_of(std::size_t index,
                                            std::span<const std::size_t> retained) const {
  const FlatVector& data = *graph_.buffers[graph_.tensors[index].buffer];
  const auto bytes = buffer_.span(data.elements(), data.count);
  const std::size_t row = bytes.size() / head_.classes();
  std::vector<std::byte> rows;
  rows.reserve(row * retained.size());
  for (const std::size_t j : retained) {
    const auto old = bytes.subspan(j * row, row);
    rows.insert(rows.end(), old.begin(), old.end());
  }
  return rows;
}

void TfliteModel::shrink_tensor(Patches& patches, std::size_t index,
                                std::span<const std::byte> values,
                                std::span<const std::size_t> retained,
                                std::vector<std::vector<std::byte>>& storage) const {
  const TfliteTensor& tensor = graph_.tensors[index];
  if (graph_.buffer_readers[tensor.buffer] != 1)
    fail(ErrorCode::unfilterable, "{}: the numbers of {} are used by another tensor, too",
         path().string(), tensor.name);
  shrink(patches, *graph_.buffers[tensor.buffer], 1, values);
  shrink_shape(patches, tensor, 0, retained.size());
  const auto cut = [&](const std::optional<FlatVector>& vector, unsigned element) {
    if (!vector || vector->count != head_.classes()) return;
    std::vector<std::byte>& left = storage.emplace_back();
    for (const std::size_t j : retained) {
      const auto old = buffer_.span(vector->elements() + j * element, element);
      left.insert(left.end(), old.begin(), old.end());
    }
    shrink(patches, *vector, element, left);
  };
  for (const auto& vector : {tensor.min_at, tensor.max_at, tensor.scales_at}) cut(vector, 4);
  cut(tensor.zeros_at, 8);
}

void TfliteModel::require_rows_kept(const NewHead& head,
                                    std::span<const std::size_t> retained) const {
  const auto same = [&](const TensorView& old, const Tensor& made) {
    const std::size_t row = old.bytes.size() / head_.classes();
    for (std::size_t i = 0; i < retained.size(); ++i)
      if (!std::ranges::equal(old.bytes.subspan(retained[i] * row, row),
                              std::span(made.bytes).subspan(i * row, row)))
        return false;
    return true;
  };
  if (!same(head_.weights, head.weights) || (head_.bias && !same(*head_.bias, *head.bias)))
    fail(ErrorCode::unfilterable,
         "{}: its head is quantised, and the method needs numbers that its grid does not have; use "
         "--method naive, or filter the float model and convert that",
         path().string());
}

StagedModel TfliteModel::stage(const NewHead& head, std::span<const std::size_t> retained,
                               const fs::path& path, bool replace) const {
  if (head.bias_added)
    fail(ErrorCode::unfilterable,
         "{}: the solver needs a bias, which the layer has no room for; use --solver paper",
         this->path().string());
  Patches patches;
  std::vector<std::vector<std::byte>> storage;
  storage.reserve(16);
  if (quantised()) require_rows_kept(head, retained);
  const auto values = [&](std::size_t tensor, bool integers,
                          const Tensor& made) -> std::span<const std::byte> {
    if (!integers) return made.bytes;
    return storage.emplace_back(rows_of(tensor, retained));
  };
  shrink_tensor(patches, place_.weights, values(place_.weights, quantised(), head.weights),
                retained, storage);
  if (place_.bias)
    shrink_tensor(patches, *place_.bias, values(*place_.bias, !bias_.bytes.empty(), *head.bias),
                  retained, storage);
  for (const std::size_t wide : place_.widened)
    shrink_shape(patches, graph_.tensors[wide], 0, retained.size());
  for (const std::size_t result : place_.results) {
    const TfliteTensor& tensor = graph_.tensors[result];
    shrink_shape(patches, tensor, tensor.shape.size() - 1, retained.size());
  }
  StagedModel staged;
  staged.files.push_back(std::make_unique<AtomicFile>(path, replace));
  AtomicFile& out = *staged.files[0];
  patches.write_copy(buffer_.bytes(), out);
  if (zip_) {
    std::vector<std::size_t> forget;
    for (std::size_t j = 0; j < head_.classes(); ++j)
      if (!std::ranges::binary_search(retained, j)) forget.push_back(j);
    ZipWriter writer(out);
    for (const ZipEntry& entry : zip_->entries()) {
      const auto labels = std::ranges::find(labels_, entry.name, &Labels::entry);
      if (labels == labels_.end()) {
        writer.copy(entry);
        continue;
      }
      const std::string text = labels->names.without(forget);
      const std::array pieces{as_bytes(text)};
      writer.add(entry.name, pieces, entry.method != 0,
                 load_le<std::uint32_t>(entry.directory_record, 12));
    }
    writer.finish(zip_->comment());
  }
  check_unchanged();
  staged.written = std::make_unique<TfliteModel>(out.temporary_path(), HeadChoice{});
  return staged;
}

}  // namespace oubli
