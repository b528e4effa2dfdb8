#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "oubli/array/array_file.h"
#include "oubli/array/zip.h"
#include "oubli/array/zip_writer.h"

namespace oubli {

// NumPy's .npz: a zip archive of .npy entries, "W.npy" being the tensor called "W". Entries that
// are not .npy are kept and may be read as text.
class NpzFile final : public ArrayFile {
 public:
  explicit NpzFile(std::shared_ptr<const MappedFile> file);
  explicit NpzFile(const std::filesystem::path& path)
      : NpzFile(std::make_shared<const MappedFile>(path)) {}
  [[nodiscard]] std::string_view format() const override { return ".npz"; }
  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
  [[nodiscard]] SharedTensor read(std::string_view name) const override;
  void rewrite(AtomicFile& out, std::span<const TensorEdit> edits) const override;

  [[nodiscard]] std::vector<Words> words() const override;
  void for_each_packed(const std::function<bool(const std::string& where,
                                                std::span<const std::byte>)>& visit) const override;

  // The content of the entry `name` (given in full) that is not a tensor, if there is one.
  [[nodiscard]] std::optional<std::string> read_text(std::string_view name) const;

 private:
  void check_total_size() const;

  ZipArchive archive_;
  std::vector<TensorInfo> tensors_;
};

// A new .npz file, entries stored. The same content gives the same bytes.
class NpzWriter {
 public:
  explicit NpzWriter(AtomicFile& out) : zip_(out) {}
  void add(const std::string& name, const TensorView& tensor);
  // `name` in full, e.g. "about.json".
  void add_text(const std::string& name, std::string_view text);
  void finish() { zip_.finish(); }

 private:
  ZipWriter zip_;
};

}  // namespace oubli
