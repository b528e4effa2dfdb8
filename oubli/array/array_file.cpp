#include "oubli/array/array_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/array/file_kind.h"
#include "oubli/array/npy.h"
#include "oubli/array/npz.h"
#include "oubli/array/safetensors.h"
#include "oubli/base/file_windows.h"
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

void LoadedTensor::release() const {
  if (!storage.empty()) return;
  if (scratch)
    release_pages(scratch->bytes());
  else if (file)
    release_pages(file->bytes());
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

LoadedTensor load_array(const std::string& where) {
  if (const ArrayPlace place = split_place(where); place.file != where)
    return ArrayFile::open(place.file)->read(place.name);
  const auto file = ArrayFile::open(where);
  const auto tensors = file->tensors();
  if (tensors.size() != 1) {
    std::vector<std::string> names;
    for (const TensorInfo& info : tensors) names.push_back(info.name);
    fail(ErrorCode::bad_input, "{}: holds {} arrays ({}); name one as {}:NAME", where, names.size(),
         fmt::join(names, ", "), where);
  }
  return file->read(tensors[0].name);
}

}  // namespace oubli
