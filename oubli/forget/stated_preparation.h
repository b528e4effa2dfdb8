#pragma once

#include <optional>
#include <string>

#include "oubli/data/preparation_config.h"
#include "oubli/model/onnx/model.h"

namespace oubli {

// What somebody said about the inputs of a model, and where.
struct PublishedPreparation {
  StatedPreparation stated;
  std::string place;  // "preprocessor_config.json", "the model's metadata"
};

// From the metadata of the file that is run (Image.NominalPixelRange and so on, of the ONNX
// standard), else from preprocessor_config.json, processor_config.json or config.json beside the
// model or beside what is run in its place; also from above a folder called onnx, as exporters lay
// files out. A file that is no JSON says nothing.
[[nodiscard]] std::optional<PublishedPreparation> find_published_preparation(const ModelFile& model,
                                                                             const OnnxModel& run);

// `given` and, as far as a person left it open, what was published: scale, mean and standard
// deviation together, for a model that takes fractions (one that takes bytes scales them itself);
// the size if the model takes any. `said` becomes the sentence about it, empty if nothing was
// taken.
[[nodiscard]] PreparationOptions with_published(const PreparationOptions& given,
                                                const ModelFile& model, const OnnxModel& run,
                                                std::string& said);

}  // namespace oubli
