#include "oubli/base/output.h"

#include "oubli/base/error.h"
#include "oubli/base/file.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

bool same_file(const fs::path& a, const fs::path& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code unknown;  // one of them is not there yet
  if (fs::equivalent(a, b, unknown)) return true;
  return fs::weakly_canonical(a, unknown) == fs::weakly_canonical(b, unknown);
}

}  // namespace

void prepare_output(const fs::path& path, bool replace) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown))
    fail(ErrorCode::io, "{}: cannot create: there is no folder {}", path.string(), folder.string());
  (void)remove_stale_temporaries(folder);
  if (!fs::exists(path, unknown)) return;
  // A device would be replaced, not written to.
  if (!fs::is_regular_file(path, unknown))
    fail(ErrorCode::usage, "{}: is there, and is no file", path.string());
  if (!replace)
    fail(ErrorCode::usage, "{}: exists already; use --force to replace it", path.string());
}

void require_apart(std::span<const fs::path> outputs, std::span<const fs::path> inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const fs::path& input : inputs)
      if (same_file(outputs[i], input))
        fail(ErrorCode::usage, "{}: is the input {}; inputs are never overwritten, write elsewhere",
             outputs[i].string(), input.string());
    for (std::size_t j = 0; j < i; ++j)
      if (same_file(outputs[i], outputs[j]))
        fail(ErrorCode::usage, "{}: two outputs would be written there", outputs[i].string());
  }
}

}  // namespace oubli
