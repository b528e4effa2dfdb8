#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "oubli/base/file.h"
#include "oubli/onnx/model.h"

namespace oubli::onnx {

// A file of external data that goes with the new model. Offsets stay as they were: a new tensor is
// smaller than the one it replaces, and what it leaves free becomes zero.
struct SideFile {
  struct Patch {
    std::uint64_t offset;
    std::uint64_t old_size;
    std::vector<std::byte> bytes;
  };
  std::string old_location;  // beside the old model
  std::string new_location;  // beside the new one
  std::vector<Patch> patches;
};
using Patches = std::map<std::string, std::vector<SideFile::Patch>>;  // by old location

// Which bytes of the files of external data a model's tensors refer to. Several may refer to the
// same ones: these are never changed as long as one of them does.
class ExternalUse {
 public:
  explicit ExternalUse(const Model& model);

  // Whether another tensor, wherever in the model, refers to some of its bytes.
  [[nodiscard]] bool is_shared(const TensorInfo& tensor) const;
  // Its bytes, which are its own, become these and zeros.
  void replace(const TensorInfo& tensor, std::vector<std::byte> bytes);
  // It is gone, or has its numbers elsewhere now.
  void release(const TensorInfo& tensor);

  // What changes: tensors replaced, and zeros where those released leave bytes that nobody else
  // refers to. `kept` gets the names of those whose bytes somebody does.
  [[nodiscard]] Patches patches(std::vector<std::string>& kept) const;

 private:
  struct Use {
    std::size_t file = 0;  // the same for all names of a file
    std::uint64_t begin = 0, end = 0;
    const std::byte* id = nullptr;  // where the tensor's message begins
    std::string location, name;
    bool released = false;
  };
  [[nodiscard]] const Use* find(const TensorInfo& tensor) const;

  std::vector<Use> uses_;
  std::map<const std::byte*, std::size_t> by_id_;
  Patches replaced_;
};

// Decides which files of external data a new model at `output` needs of its own, and names them in
// its `message`. Every file that is written is named after the new model: another model in its
// folder may have data of the old name.
[[nodiscard]] std::vector<SideFile> place_side_files(const Model& model, Message& message,
                                                     Patches patches,
                                                     const std::filesystem::path& output);

// Where they may be: what place_side_files() would name if all of the old ones were needed.
[[nodiscard]] std::vector<std::string> possible_side_files(const Model& model,
                                                           const std::filesystem::path& output);

// The old file with the patches applied, piece by piece. No two of them overlap.
void write_side_file(AtomicFile& out, std::span<const std::byte> old,
                     std::vector<SideFile::Patch> patches);

}  // namespace oubli::onnx
