#include "oubli/base/atomic_folder.h"

#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/into_place.h"

namespace oubli {

namespace fs = std::filesystem;

AtomicFolder::AtomicFolder(fs::path path)
    : path_(std::move(path)), temporary_(temporary_beside(path_)) {
  if (fs::exists(fs::symlink_status(path_)))
    fail(ErrorCode::usage, "{}: exists already; folders are not replaced, write elsewhere",
         path_.string());
  std::error_code error;
  if (!fs::create_directory(temporary_, error))
    fail(ErrorCode::io, "{}: cannot create: {}", path_.string(), error.message());
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  sync_folder(temporary_);
  rename_into_place(temporary_, path_);
  committed_ = true;
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

}  // namespace oubli
