#include <algorithm>
#include <array>

#include "oubli/array/file_kind.h"
#include "oubli/base/error.h"
#include "oubli/model/arrays/model.h"
#include "oubli/model/huggingface/model.h"
#include "oubli/model/keras/model.h"
#include "oubli/model/model_file.h"
#include "oubli/model/onnx/model.h"
#include "oubli/model/sklearn/model.h"
#include "oubli/model/tflite/model.h"
#include "oubli/model/torch/model.h"

namespace oubli {
namespace {

template <typename Model>
std::unique_ptr<ModelFile> open_as(const std::filesystem::path& path, const HeadChoice& choice) {
  return std::make_unique<Model>(path, choice);
}

// Which kinds of files are models, and how each is opened. A new format is a kind
// (oubli/array/file_kind.h), a folder here and a line.
struct Format {
  FileKind kind;
  std::unique_ptr<ModelFile> (*open)(const std::filesystem::path& path, const HeadChoice& choice);
};
constexpr std::array kFormats{
    Format{FileKind::onnx, open_as<OnnxModel>},
    Format{FileKind::npy, open_as<ArrayModel>},
    Format{FileKind::npz, open_as<ArrayModel>},
    Format{FileKind::safetensors, open_as<ArrayModel>},
    Format{FileKind::torch, open_as<TorchModel>},
    Format{FileKind::torch_old, open_as<TorchModel>},
    Format{FileKind::torch_script, open_as<TorchModel>},  // refused there
    Format{FileKind::pickle, open_as<SklearnModel>},
    Format{FileKind::hdf5, open_as<KerasModel>},
    Format{FileKind::keras, open_as<KerasModel>},
    Format{FileKind::tflite, open_as<TfliteModel>},
    Format{FileKind::huggingface, open_as<HuggingFaceModel>},
};

}  // namespace

std::unique_ptr<ModelFile> ModelFile::open(const std::filesystem::path& path,
                                           const HeadChoice& choice) {
  const FileIdentity identity = identify(path);
  const auto format = std::ranges::find(kFormats, identity.kind, &Format::kind);
  if (format == kFormats.end())
    refuse(
        path, identity,
        "a model: .onnx, .pth, .h5, .keras, .tflite, .pkl, .joblib, .safetensors, .npz, .npy or a "
        "Hugging Face folder");
  if (!choice.head.empty() && format->kind != FileKind::onnx)
    fail(ErrorCode::usage, "{}: --head names a node or an output of an .onnx file; say --weights",
         path.string());
  auto model = format->open(path, choice);
  if (choice.float_head && (!model->quantised() || format->kind != FileKind::onnx))
    fail(ErrorCode::usage,
         "{}: --float-head is for .onnx files whose last layer is quantised; this is {}",
         path.string(),
         model->quantised()
             ? fmt::format("a {} file, whose layer has no room for floats", model->format())
             : "one of floats already");
  return model;
}

}  // namespace oubli
