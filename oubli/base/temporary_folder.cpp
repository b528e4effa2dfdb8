#include "oubli/base/temporary_folder.h"

#include <stdlib.h>

#include <string>

#include "oubli/base/error.h"

namespace oubli {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  const fs::path where = fs::temp_directory_path(error);
  std::string name = (where / "oubli-XXXXXX").string();
  if (error || ::mkdtemp(name.data()) == nullptr)
    fail(ErrorCode::io, "{}: cannot make a folder for temporary files; set TMPDIR to one", name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace oubli
