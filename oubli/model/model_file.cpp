#include "oubli/model/model_file.h"

#include "oubli/model/array_model.h"
#include "oubli/model/onnx_model.h"

namespace oubli {

void StagedModel::commit() {
  // The model last: once it is there, so is all that belongs to it.
  for (const auto& file : files) file->commit();
}

std::unique_ptr<ModelFile> ModelFile::open(const std::filesystem::path& path,
                                           const HeadChoice& choice) {
  if (looks_like_onnx(path)) return std::make_unique<OnnxModel>(path, false);
  return std::make_unique<ArrayModel>(path, choice);
}

}  // namespace oubli
