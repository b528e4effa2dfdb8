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

// Decides which files of external data a new model at `output` needs of its own, and names them in
// the wire tree of `model`. Every file that is written is named after the new model: another model
// in its folder may have data of the old name.
[[nodiscard]] std::vector<SideFile> place_side_files(Model& model, Patches patches,
                                                     const std::filesystem::path& output);

// Where they may be: what place_side_files() would name if all of the old ones were needed.
[[nodiscard]] std::vector<std::string> possible_side_files(const Model& model,
                                                           const std::filesystem::path& output);

// The old file with the patches applied, piece by piece.
void write_side_file(AtomicFile& out, std::span<const std::byte> old,
                     std::vector<SideFile::Patch> patches);

}  // namespace oubli::onnx
