#pragma once

#include <cstddef>
#include <string_view>

#include "oubli/array/file_kind.h"

namespace oubli::file_kinds {

using namespace std::string_view_literals;
using enum FileKind;

// The table. FILE in an advice stands for the file's name, FOLDER for the folder it is in.

constexpr auto kToOnnx =
    "convert the model that it was made from to ONNX (torch.onnx.export, tf2onnx)"sv;
constexpr auto kTrees = "trees have no last linear layer; nothing can be filtered"sv;
constexpr auto kDownload =
    "download it again; the address must lead to the file itself (on Hugging Face and GitHub "
    "/resolve/ or /raw/ instead of /blob/)"sv;
constexpr auto kSavedModel =
    "convert it: python3 -m tf2onnx.convert --saved-model FOLDER --output model.onnx"sv;
constexpr auto kPicture = "pictures are given in a folder, by --data FOLDER"sv;

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  FileKind kind;
  std::string_view what;
  std::string_view advice = {};
};

constexpr Magic kMagics[] = {
    {0, "\x93NUMPY"sv, npy, "an .npy array"},
    {4, "TFL3"sv, tflite, "TensorFlow Lite"},
    {4, "ORTM"sv, other_model, "ONNX Runtime's own format (.ort)",
     "give the .onnx file that it was made from"},
    {4, "ET12"sv, other_model, "ExecuTorch (.pte)", kToOnnx},
    {0, "GGUF"sv, no_head, "llama.cpp's GGUF, a language model", "it has no classes to forget"},
    {0, "tree\nversion="sv, no_head, "LightGBM", kTrees},
    {0, "CBM1"sv, no_head, "CatBoost", kTrees},
    {0, "binf"sv, no_head, "XGBoost", kTrees},
    {0, "{L\0\0\0\0\0\0\0\x07learner"sv, no_head, "XGBoost", kTrees},
    {0, "7767517\n"sv, other_model, "ncnn", kToOnnx},
    {0, "PYTORCH1"sv, other_model, "PyTorch of 2018 (Caffe2)", kToOnnx},
    {0, "MATLAB 7.3 MAT-file"sv, no_model, "a MATLAB 7.3 file",
     "save the head's matrices in an .npz file (scipy.io, numpy.savez)"},
    {0, "MATLAB 5.0 MAT-file"sv, no_model, "a MATLAB file",
     "save the head's matrices in an .npz file (scipy.io.loadmat, numpy.savez)"},
    {0, "\x1f\x8b"sv, packed, "compressed by gzip", "unpack it first: gunzip -k FILE"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     packed, "compressed by xz", "unpack it first: unxz -k FILE"},
    {0, "BZh"sv, packed, "compressed by bzip2", "unpack it first: bunzip2 -k FILE"},
    {0, "\x04\x22\x4d\x18"sv, packed, "compressed by lz4", "unpack it first: unlz4 -k FILE"},
    {0, "\x28\xb5\x2f\xfd"sv, packed, "compressed by Zstandard", "unpack it first: unzstd -k FILE"},
    {0, "7z\xbc\xaf\x27\x1c"sv, packed, "a 7-Zip archive", "unpack it first: 7z x FILE"},
    {0, "Rar!"sv, packed, "a RAR archive", "unpack it first: unrar x FILE"},
    {257, "ustar"sv, packed, "a tar archive", "unpack it first: tar xf FILE"},
    {0, "\x89PNG\r\n\x1a\n"sv, no_model, "a PNG picture", kPicture},
    {0, "\xff\xd8\xff"sv, no_model, "a JPEG picture", kPicture},
    {0, "GIF8"sv, no_model, "a GIF picture", kPicture},
    {0, "II*\0"sv, no_model, "a TIFF picture", kPicture},
    {0, "MM\0*"sv, no_model, "a TIFF picture", kPicture},
    {8, "WEBPVP8"sv, no_model, "a WebP picture", kPicture},
    {0, "%PDF-"sv, no_model, "a PDF document"},
    {0, "PAR1"sv, no_model, "a Parquet table", "save its numbers as .npy or .npz"},
    {0, "ARROW1"sv, no_model, "an Arrow table", "save its numbers as .npy or .npz"},
    {0, "SQLite format 3\0"sv, no_model, "an SQLite database"},
    {0,
     "\x7f"
     "ELF"sv,
     no_model, "a program for Linux"},
    {0, "\xd0\xcf\x11\xe0"sv, no_model, "an old Office document"},
};

// What servers answer in place of a file, at its beginning.
constexpr std::string_view kServerErrors[] = {"Entry not found",
                                              "Repository not found",
                                              "Not Found",
                                              "404: Not Found",
                                              "Invalid username or password",
                                              "Access denied",
                                              "Access to model",
                                              "<Error>",
                                              "Unauthorized",
                                              "Forbidden"};

// Libraries whose pickled objects have no last linear layer, by the beginning of their module.
struct Library {
  std::string_view module;
  std::string_view why;
};
constexpr Library kNoLinearLayer[] = {
    {"sklearn.ensemble", kTrees},
    {"sklearn.tree", kTrees},
    {"xgboost", kTrees},
    {"lightgbm", kTrees},
    {"catboost", kTrees},
    {"sklearn.neighbors",
     "nearest neighbours are the training data themselves; nothing can be "
     "filtered"},
    {"sklearn.cluster", "clusters have no last linear layer; nothing can be filtered"},
    {"sklearn.gaussian_process", "it has no last linear layer; nothing can be filtered"},
};

}  // namespace oubli::file_kinds
