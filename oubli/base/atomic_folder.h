#pragma once

#include <filesystem>

namespace oubli {

// A folder that appears whole or not at all: files are written into a temporary folder beside
// `path`, and commit() renames that into place. Destroyed without commit(), nothing remains.
class AtomicFolder {
 public:
  // Error{usage} now, or at commit(), if `path` exists: a folder is never replaced.
  explicit AtomicFolder(std::filesystem::path path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Where it is now.
  [[nodiscard]] const std::filesystem::path& temporary_path() const { return temporary_; }
  // The files in it must be on disk (AtomicFile::commit() sees to that).
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

}  // namespace oubli
