#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace oubli {

// What a file is. The first row are formats that arrays or models are read from.
enum class FileKind {
  npy,
  npz,
  safetensors,
  onnx,
  torch,
  torch_old,
  torch_script,
  pickle,
  hdf5,
  keras,
  tflite,
  huggingface,  // a folder
  other_model,  // a classifier perhaps, in a format that has to be converted
  no_head,      // a model that has no last linear layer
  packed,       // compressed, or an archive: something else is inside
  no_model,     // a page, a picture, a document, ...
  damaged,      // cut short, or empty
  unknown,
};

struct FileIdentity {
  FileKind kind = FileKind::unknown;
  std::string what;    // "a Git LFS pointer to 102530333 bytes, not the file itself"
  std::string advice;  // what to do, with the exact command where there is one; may be empty
};

// By the first bytes, an archive's entries and, where these leave it open, the name's ending; of a
// folder, by the files in it. Nothing is trusted and nothing is run.
[[nodiscard]] FileIdentity identify(const std::filesystem::path& path);
// The same for bytes that stand, or would stand, in a file of that name.
[[nodiscard]] FileIdentity identify(std::span<const std::byte> bytes,
                                    const std::filesystem::path& path);

// Error{unfilterable} for a model without a last linear layer, else Error{bad_input}: what the file
// is, that it is not what was `wanted`, and what to do.
[[noreturn]] void refuse(const std::filesystem::path& path, const FileIdentity& identity,
                         const std::string& wanted);

}  // namespace oubli
