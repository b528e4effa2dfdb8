#include "oubli/array/array_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/array/file_kind.h"
#include "oubli/array/npy.h"
#include "oubli/array/npz.h"
#include "oubli/array/safetensors.h"
#include "oubli/base/file_chunks.h"
#include "oubli/base/names.h"
#include "oubli/base/output.h"

namespace oubli {

std::unique_ptr<ArrayFile> ArrayFile::open(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  const FileIdentity identity = identify(file->bytes(), path);
  if (identity.kind == FileKind::npy) return std::make_unique<NpyFile>(std::move(file));
  if (identity.kind == FileKind::npz) return std::make_unique<NpzFile>(std::move(file));
  if (identity.kind == FileKind::safetensors)
    return std::make_unique<SafetensorsFile>(std::move(file));
  refuse(path, identity, "arrays: .npy, .npz or .safetensors");
}

const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string ArrayFile::what(std::string_view name) const {
  return name.empty() ? file_->path().string() : fmt::format("{}:{}", file_->path().string(), name);
}

const TensorInfo& tensor_at(std::span<const TensorInfo> tensors, std::string_view name,
                            const std::string& path) {
  if (const TensorInfo* const found = find_tensor(tensors, name)) return *found;
  std::vector<std::string> names;
  for (const TensorInfo& info : tensors) names.push_back(info.name);
  if (names.empty()) fail(ErrorCode::bad_input, "{}: holds no arrays", path);
  fail(ErrorCode::bad_input, "{}: no array named '{}'; the nearest of its {}: {}", path, name,
       names.size(), fmt::join(nearest_names(name, names), ", "));
}

namespace {

// The file and the name that `where` means.
std::pair<std::unique_ptr<ArrayFile>, std::string> find_array(const std::string& where) {
  if (const ArrayPlace place = split_place(where); place.file != where)
    return {ArrayFile::open(place.file), place.name};
  auto file = ArrayFile::open(where);
  const auto tensors = file->tensors();
  if (tensors.size() != 1) {
    std::vector<std::string> names;
    for (const TensorInfo& info : tensors) names.push_back(info.name);
    fail(ErrorCode::bad_input, "{}: holds {} arrays ({}); name one as {}:NAME", where, names.size(),
         fmt::join(names, ", "), where);
  }
  std::string name = tensors[0].name;
  return {std::move(file), std::move(name)};
}

}  // namespace

SharedTensor load_array(const std::string& where) {
  const auto [file, name] = find_array(where);
  return file->read(name);
}

TensorInfo array_info(const std::string& where) {
  const auto [file, name] = find_array(where);
  return file->at(name);
}

}  // namespace oubli
