#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/array/zip_writer.h"
#include "oubli/base/file.h"
#include "oubli/pickle/edits.h"
#include "oubli/pickle/pickle.h"

namespace oubli::torch {

// New content of storages, by key. Pieces of the old ones, or of buffers that outlive the writing.
using StorageEdits = std::map<std::string, std::vector<ZipPiece>, std::less<>>;

// What torch.save() writes: a pickle, and beside it storages (raw elements of tensors) that the
// pickle names by keys. In a zip archive, or, before PyTorch 1.6, one after another.
class Archive {
 public:
  // Error{unfilterable} for TorchScript, with what to do about it.
  [[nodiscard]] static std::unique_ptr<Archive> open(const std::filesystem::path& path);
  virtual ~Archive() = default;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  [[nodiscard]] const MappedFile& file() const { return *file_; }
  [[nodiscard]] const pickle::Pickle& pickle() const { return *pickle_; }
  // Where it stands, for messages: "model.pth:data.pkl"
  [[nodiscard]] const std::string& what() const { return pickle_->what(); }
  // Nothing if there is none of that key.
  [[nodiscard]] virtual std::optional<std::span<const std::byte>> storage(
      std::string_view key) const = 0;
  // Error{bad_input} if its check sum says that it is damaged.
  virtual void check_storage(std::string_view key) const = 0;
  // Text outside of the pickle's values and of storages: where, and what.
  virtual void for_each_other_text(
      const std::function<void(const std::string&, std::string_view)>& visit) const = 0;
  // The same file with those changes.
  virtual void write(AtomicFile& out, const pickle::Edits& edits,
                     const StorageEdits& storages) const = 0;

 protected:
  explicit Archive(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}
  std::unique_ptr<MappedFile> file_;
  std::unique_ptr<pickle::Pickle> pickle_;
};

// The 40 digits of a file's .data/serialization_id for entries of these check sums: the second half
// folds them. The first half, which folds names, is kept.
[[nodiscard]] std::string serialization_id(std::string_view old,
                                           std::span<const std::uint32_t> check_sums);

}  // namespace oubli::torch
