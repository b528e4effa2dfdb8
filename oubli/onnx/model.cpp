#include "oubli/onnx/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "oubli/onnx/schema.h"

namespace oubli::onnx {

namespace {

// If in If in If ...: nobody nests deeper, and damaged files shall not exhaust the stack.
constexpr int kDeepestSubgraph = 32;

void collect_names(std::span<const std::byte> graph_bytes, const std::string& what, int depth,
                   std::vector<std::string>& names) {
  if (depth > kDeepestSubgraph) {
    fail(ErrorCode::bad_input, "{}: subgraphs nested more than {} deep", what, kDeepestSubgraph);
  }
  for (const Field& field : Message::parse(graph_bytes, what).fields) {
    if (field.number != schema::graph::kNode && field.number != schema::graph::kOutput) continue;
    if (field.type != WireType::bytes) continue;
    const Message inner = Message::parse(field.payload, what);
    if (field.number == schema::graph::kOutput) {
      names.emplace_back(inner.text_or(schema::value_info::kName, ""));
      continue;
    }
    for (const Field& part : inner.fields) {
      if (part.type != WireType::bytes) continue;
      if (part.number == schema::node::kInput) names.emplace_back(as_text(part.payload));
      if (part.number != schema::node::kAttribute) continue;
      for (const Field& value : Message::parse(part.payload, what).fields) {
        const bool is_graph =
            value.number == schema::attribute::kGraph || value.number == schema::attribute::kGraphs;
        if (is_graph && value.type == WireType::bytes) {
          collect_names(value.payload, what, depth + 1, names);
        }
      }
    }
  }
}

Attribute read_attribute(std::span<const std::byte> bytes, const std::string& what, Node& node) {
  using namespace schema::attribute;
  const Message message = Message::parse(bytes, what);
  Attribute result;
  result.name = message.text_or(kName, "");
  result.type = message.number_or(kType, 0);
  result.i = static_cast<std::int64_t>(message.number_or(kInt, 0));
  result.f = std::bit_cast<float>(static_cast<std::uint32_t>(message.number_or(kFloat, 0)));
  result.s = message.text_or(kString, "");
  result.ints = repeated_ints(message, kInts, what);
  result.floats = repeated_floats(message, kFloats, what);
  for (const Field& field : message.fields) {
    if (field.number == kStrings) result.strings.emplace_back(text_of(field, what));
    if (field.number == kTensor && field.type == WireType::bytes) result.tensor = field.payload;
    if ((field.number == kGraph || field.number == kGraphs) && field.type == WireType::bytes) {
      node.has_subgraph = true;
      collect_names(field.payload, what, 0, node.outer_names);
    }
  }
  return result;
}

Node read_node(std::span<const std::byte> bytes, const std::string& what) {
  using namespace schema::node;
  Node node;
  const Message message = Message::parse(bytes, what);
  node.op_type = message.text_or(kOpType, "");
  node.domain = message.text_or(kDomain, "");
  if (node.domain == "ai.onnx") node.domain.clear();
  node.name = message.text_or(kName, "");
  for (std::size_t i = 0; i < message.fields.size(); ++i) {
    const Field& field = message.fields[i];
    if (field.number == kInput) node.inputs.emplace_back(text_of(field, what));
    if (field.number == kOutput) node.outputs.emplace_back(text_of(field, what));
    if (field.number == kAttribute && field.type == WireType::bytes) {
      node.attributes.push_back(read_attribute(field.payload, what, node));
      node.attributes.back().field = i;
    }
  }
  return node;
}

ValueInfo read_value_info(std::span<const std::byte> bytes, const std::string& what) {
  ValueInfo info;
  const Message message = Message::parse(bytes, what);
  info.name = message.text_or(schema::value_info::kName, "");
  const Field* type = message.find(schema::value_info::kType);
  if (type == nullptr || type->type != WireType::bytes) return info;
  const Message types = Message::parse(type->payload, what);
  const Field* tensor = types.find(schema::type::kTensorType);
  if (tensor == nullptr || tensor->type != WireType::bytes) return info;
  const Message tensor_type = Message::parse(tensor->payload, what);
  info.element_type = tensor_type.number_or(schema::type::kElemType, 0);
  const Field* shape = tensor_type.find(schema::type::kShape);
  if (shape == nullptr || shape->type != WireType::bytes) return info;
  std::vector<Dimension> dimensions;
  for (const Field& field : Message::parse(shape->payload, what).fields) {
    if (field.number != schema::shape::kDim || field.type != WireType::bytes) continue;
    const Message dim = Message::parse(field.payload, what);
    Dimension dimension;
    if (const Field* value = dim.find(schema::shape::kDimValue); value != nullptr) {
      dimension.value = static_cast<std::int64_t>(value->value);
    }
    dimension.symbol = dim.text_or(schema::shape::kDimParam, "");
    dimensions.push_back(std::move(dimension));
  }
  info.shape = std::move(dimensions);
  return info;
}

std::uint64_t parse_number(std::string_view text, const std::string& what, std::string_view key) {
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || value > (UINT64_MAX - 9) / 10) {
      fail(ErrorCode::bad_input, "{}: external data has {} '{}', wanted a number", what, key, text);
    }
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

struct TypeRow {
  std::uint64_t data_type;
  DType dtype;
};
constexpr std::array<TypeRow, 13> kTypes{{{1, DType::f32},
                                          {2, DType::u8},
                                          {3, DType::i8},
                                          {4, DType::u16},
                                          {5, DType::i16},
                                          {6, DType::i32},
                                          {7, DType::i64},
                                          {9, DType::boolean},
                                          {10, DType::f16},
                                          {11, DType::f64},
                                          {12, DType::u32},
                                          {13, DType::u64},
                                          {16, DType::bf16}}};

// Which typed field holds a type's elements where raw_data does not [onnx.proto3, TensorProto].
std::uint32_t typed_field(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return schema::tensor::kFloatData;
    case DType::f64:
      return schema::tensor::kDoubleData;
    case DType::i64:
      return schema::tensor::kInt64Data;
    case DType::u32:
    case DType::u64:
      return schema::tensor::kUint64Data;
    default:
      return schema::tensor::kInt32Data;
  }
}

// float_data and double_data, whether packed or not.
std::vector<std::byte> typed_floats(const Message& message, std::uint32_t number) {
  std::vector<std::byte> bytes;
  for (const Field& field : message.fields) {
    if (field.number == number) {
      bytes.insert(bytes.end(), field.payload.begin(), field.payload.end());
    }
  }
  return bytes;
}

std::vector<std::byte> typed_integers(const Message& message, std::uint32_t number, DType dtype,
                                      const std::string& what) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes;
  for (const std::int64_t value : repeated_ints(message, number, what)) {
    for (std::size_t i = 0; i < size; ++i) {
      bytes.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  return bytes;
}

// Bytes that the model's file does not hold.
void load_external(const TensorInfo& tensor, std::shared_ptr<const MappedFile> file,
                   std::size_t wanted, SharedTensor& loaded) {
  const std::span<const std::byte> all = file->bytes();
  const std::uint64_t length = tensor.external_length.value_or(wanted);
  if (length != wanted) {
    fail(ErrorCode::bad_input, "{}: {} bytes of external data, wanted {}", loaded.what, length,
         wanted);
  }
  if (tensor.external_offset > all.size() || wanted > all.size() - tensor.external_offset) {
    fail(ErrorCode::bad_input, "{}: external data ends beyond '{}' ({} bytes)", loaded.what,
         file->path().string(), all.size());
  }
  loaded.bytes = all.subspan(static_cast<std::size_t>(tensor.external_offset), wanted);
  loaded.owner = file;
  loaded.file = std::move(file);
  loaded.mapped = true;
}

// Bytes of the model's `file` where they stand as they are, else a copy.
void load_stored(const TensorInfo& tensor, const std::shared_ptr<const MappedFile>& file,
                 SharedTensor& loaded) {
  const Message message = Message::parse(tensor.message, loaded.what);
  if (message.find(schema::tensor::kSegment) != nullptr) {
    fail(ErrorCode::bad_input, "{} is stored in segments, which nothing reads", loaded.what);
  }
  const std::uint32_t number = typed_field(loaded.dtype);
  const bool is_floats = loaded.dtype == DType::f32 || loaded.dtype == DType::f64;
  const Field* as_it_is = message.find(schema::tensor::kRawData);
  // Packed floats are the elements themselves.
  if (as_it_is == nullptr && is_floats &&
      std::ranges::count(message.fields, number, &Field::number) == 1)
    as_it_is = message.find(number);
  if (as_it_is != nullptr) {
    loaded.bytes = as_it_is->payload;
    loaded.owner = file;
    return;
  }
  auto owned = std::make_shared<const std::vector<std::byte>>(
      is_floats ? typed_floats(message, number)
                : typed_integers(message, number, loaded.dtype, loaded.what));
  loaded.bytes = *owned;
  loaded.owner = std::move(owned);
}

}  // namespace

std::optional<DType> dtype_of(std::uint64_t data_type) {
  for (const TypeRow& row : kTypes) {
    if (row.data_type == data_type) return row.dtype;
  }
  return std::nullopt;
}

std::uint64_t data_type_of(DType type) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == type) return row.data_type;
  }
  return 0;
}

std::optional<std::uint64_t> TensorInfo::bytes() const {
  const std::optional<DType> dtype = dtype_of(data_type);
  if (!dtype) return std::nullopt;
  std::uint64_t total = size_of(*dtype);
  for (const std::int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(total, static_cast<std::uint64_t>(dim), &total))
      return std::nullopt;
  return total;
}

Model::Model(const std::filesystem::path& path,
             std::map<std::string, std::filesystem::path> side_files)
    : what_(path.string()),
      file_(std::make_shared<const MappedFile>(path)),
      bytes_(file_->bytes()),
      folder_(path.parent_path()),
      side_paths_(std::move(side_files)) {
  read();
}

Model::Model(std::span<const std::byte> bytes, std::string what, std::filesystem::path folder)
    : what_(std::move(what)), bytes_(bytes), folder_(std::move(folder)) {
  read();
}

void Model::read() {
  std::size_t graphs = 0;
  std::span<const std::byte> graph_bytes;
  Field field;
  FieldReader in_model(bytes_, what_);
  for (std::size_t i = 0; in_model.next(field); ++i) {
    if (field.type != WireType::bytes) {
      if (field.number == schema::model::kIrVersion)
        ir_version_ = static_cast<std::int64_t>(field.value);
      continue;
    }
    if (field.number == schema::model::kGraph) {
      graph_field_ = i;
      graph_bytes = field.payload;
      ++graphs;
    } else if (field.number == schema::model::kOpsetImport) {
      const Message entry = Message::parse(field.payload, what_);
      const std::string_view domain = entry.text_or(schema::opset::kDomain, "");
      if (domain.empty() || domain == "ai.onnx") {
        opset_ = static_cast<std::int64_t>(entry.number_or(schema::opset::kVersion, 0));
      }
    } else if (field.number == schema::model::kMetadata) {
      const Message entry = Message::parse(field.payload, what_);
      metadata_.push_back({std::string(entry.text_or(schema::entry::kKey, "")),
                           std::string(entry.text_or(schema::entry::kValue, "")), i});
    }
  }
  if (graphs != 1) {
    fail(ErrorCode::bad_input, "{}: holds {} graphs, wanted an ONNX model with one", what_, graphs);
  }
  read_graph(graph_bytes);
  graph_.index(what_);
}

void Model::read_graph(std::span<const std::byte> bytes) {
  Field field;
  FieldReader reader(bytes, what_);
  for (std::size_t i = 0; reader.next(field); ++i) {
    if (field.type != WireType::bytes) continue;
    const auto add_value = [&](std::vector<ValueInfo>& values) {
      values.push_back(read_value_info(field.payload, what_));
      values.back().field = i;
    };
    switch (field.number) {
      case schema::graph::kName:
        graph_.name = as_text(field.payload);
        break;
      case schema::graph::kNode:
        graph_.nodes.push_back(read_node(field.payload, what_));
        graph_.nodes.back().field = i;
        break;
      case schema::graph::kInitializer:
        graph_.initializers.push_back(tensor_info(field.payload, ""));
        graph_.initializers.back().field = i;
        break;
      case schema::graph::kInput:
        add_value(graph_.inputs);
        break;
      case schema::graph::kOutput:
        add_value(graph_.outputs);
        break;
      case schema::graph::kValueInfo:
        add_value(graph_.value_infos);
        break;
      default:
        break;
    }
  }
}

const MetadataEntry* Model::metadata(std::string_view key) const {
  const auto found = std::ranges::find(metadata_, key, &MetadataEntry::key);
  return found == metadata_.end() ? nullptr : &*found;
}

TensorInfo Model::tensor_info(std::span<const std::byte> tensor_message,
                              const std::string& name) const {
  using namespace schema::tensor;
  TensorInfo info;
  const Message message = Message::parse(tensor_message, what_);
  info.name = name.empty() ? std::string(message.text_or(kName, "")) : name;
  info.data_type = message.number_or(kDataType, 0);
  info.dims = repeated_ints(message, kDims, what_);
  info.message = tensor_message;
  if (message.number_or(kDataLocation, 0) != 1) return info;
  for (const Field& field : message.fields) {
    if (field.number != kExternalData || field.type != WireType::bytes) continue;
    const Message entry = Message::parse(field.payload, what_);
    const std::string_view key = entry.text_or(schema::entry::kKey, "");
    const std::string_view value = entry.text_or(schema::entry::kValue, "");
    if (key == "location") info.location = value;
    if (key == "offset") info.external_offset = parse_number(value, what_, key);
    if (key == "length") info.external_length = parse_number(value, what_, key);
  }
  if (info.location.empty()) {
    fail(ErrorCode::bad_input, "{}: tensor '{}' has external data at no location", what_,
         info.name);
  }
  return info;
}

std::filesystem::path Model::side_path(const std::string& location) const {
  if (const auto moved = side_paths_.find(location); moved != side_paths_.end()) {
    return moved->second;
  }
  const std::filesystem::path relative(location);
  const bool leaves = relative.empty() || relative.is_absolute() ||
                      std::ranges::any_of(relative, [](const auto& part) { return part == ".."; });
  if (leaves) {
    fail(ErrorCode::bad_input, "{}: external data at '{}', wanted a path inside the model's folder",
         what_, location);
  }
  std::filesystem::path path = folder_;
  for (const auto& part : relative) {
    path /= part;
    std::error_code unknown;  // e.g. not there, which is said when it is opened
    if (std::filesystem::is_symlink(path, unknown)) {
      fail(ErrorCode::bad_input,
           "{}: external data at '{}', which is a symbolic link and may lead anywhere; put the "
           "file itself beside the model",
           what_, path.string());
    }
  }
  return path;
}

std::shared_ptr<const MappedFile> Model::side_file(const std::string& location) const {
  auto& slot = side_files_[location];
  if (slot) return slot;
  const std::filesystem::path path = side_path(location);
  if (!std::filesystem::exists(path)) {
    fail(ErrorCode::missing, "{}: its external data file '{}' is not there", what_, path.string());
  }
  slot = std::make_shared<const MappedFile>(path);
  return slot;
}

SharedTensor Model::load(const TensorInfo& tensor) const {
  const std::string what = fmt::format("{}: tensor '{}'", what_, tensor.name);
  const std::optional<DType> dtype = dtype_of(tensor.data_type);
  if (!dtype) {
    fail(ErrorCode::bad_input, "{} has element type {}, wanted a number type", what,
         tensor.data_type);
  }
  SharedTensor loaded;
  loaded.dtype = *dtype;
  loaded.what = what;
  for (const std::int64_t dim : tensor.dims) {
    if (dim < 0) fail(ErrorCode::bad_input, "{} has a negative dimension {}", what, dim);
    loaded.shape.push_back(static_cast<std::size_t>(dim));
  }
  const std::size_t count = element_count(loaded.shape, what);
  if (count > SIZE_MAX / size_of(*dtype)) fail(ErrorCode::bad_input, "{} is too large", what);
  const std::size_t wanted = count * size_of(*dtype);
  if (tensor.location.empty())
    load_stored(tensor, file_, loaded);
  else
    load_external(tensor, side_file(tensor.location), wanted, loaded);
  if (loaded.bytes.size() != wanted) {
    fail(ErrorCode::bad_input, "{}: {} bytes, wanted {}", what, loaded.bytes.size(), wanted);
  }
  return loaded;
}

void Model::check_unchanged() const {
  if (file_) file_->check_unchanged();
  for (const auto& [location, file] : side_files_) {
    if (file) file->check_unchanged();
  }
}

}  // namespace oubli::onnx
