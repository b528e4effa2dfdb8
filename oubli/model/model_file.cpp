#include "oubli/model/model_file.h"

#include "oubli/array/file_kind.h"
#include "oubli/base/error.h"
#include "oubli/model/array_model.h"
#include "oubli/model/onnx_model.h"

namespace oubli {

void StagedModel::commit() {
  // The model last: once it is there, so is all that belongs to it.
  for (const auto& file : files) file->commit();
}

void require_no_choice(const std::filesystem::path& onnx_file, const HeadChoice& choice) {
  if (choice.weights.empty() && !choice.bias && !choice.transposed) return;
  fail(ErrorCode::usage,
       "{}: --weights, --bias, --no-bias, --transposed and --rows-are-classes are for files of "
       "arrays; the head of an .onnx file is found by its graph",
       onnx_file.string());
}

std::unique_ptr<ModelFile> ModelFile::open(const std::filesystem::path& path,
                                           const HeadChoice& choice) {
  switch (const FileIdentity identity = identify(path); identity.kind) {
    case FileKind::onnx:
      require_no_choice(path, choice);
      return std::make_unique<OnnxModel>(path, false);
    case FileKind::npy:
    case FileKind::npz:
    case FileKind::safetensors:
      return std::make_unique<ArrayModel>(path, choice);
    default:
      refuse(path, identity, "a model: .onnx, .npz, .npy or .safetensors");
  }
}

}  // namespace oubli
