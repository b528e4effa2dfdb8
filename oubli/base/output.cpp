#include "oubli/base/output.h"

#include <algorithm>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/into_place.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

// A path as it was given, and where that leads.
struct Place {
  explicit Place(const fs::path& path) : given(path) {
    if (given.empty()) return;
    std::error_code unknown;  // it is not there yet
    real = fs::weakly_canonical(given, unknown);
    // Of a link: where the link itself is.
    const fs::path folder = given.has_parent_path() ? given.parent_path() : ".";
    own = fs::weakly_canonical(folder, unknown) / given.filename();
    is_folder = fs::is_directory(given, unknown);
  }

  fs::path given, real, own;
  bool is_folder = false;
};

bool same_file(const Place& a, const Place& b) {
  if (a.given.empty() || b.given.empty()) return false;
  std::error_code unknown;
  return fs::equivalent(a.given, b.given, unknown) || a.real == b.real;
}

bool is_inside(const fs::path& file, const fs::path& folder) {
  return std::ranges::mismatch(folder, file).in1 == folder.end();
}

}  // namespace

ArrayPlace split_place(const std::string& where) {
  std::error_code unknown;
  const std::size_t colon = where.rfind(':');
  if (colon == std::string::npos || fs::exists(where, unknown)) return {where, {}};
  return {where.substr(0, colon), where.substr(colon + 1)};
}

void prepare_output(const fs::path& path, bool replace) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown))
    fail(ErrorCode::io, "{}: cannot create: there is no folder {}", path.string(), folder.string());
  (void)remove_stale_temporaries(folder);
  if (!fs::exists(fs::symlink_status(path, unknown))) return;
  // A device, or a link that leads nowhere, would be replaced, not written to.
  if (!fs::is_regular_file(path, unknown))
    fail(ErrorCode::usage, "{}: is there, and is no file", path.string());
  if (!replace)
    fail(ErrorCode::usage, "{}: exists already; use --force to replace it", path.string());
}

void require_apart(std::span<const fs::path> outputs, std::span<const fs::path> inputs) {
  const std::vector<Place> written(outputs.begin(), outputs.end());
  std::vector<Place> read;
  for (const fs::path& input : inputs) read.emplace_back(split_place(input.string()).file);
  for (std::size_t i = 0; i < written.size(); ++i) {
    const Place& output = written[i];
    if (output.given.empty()) continue;
    for (const Place& input : read) {
      if (same_file(output, input))
        fail(ErrorCode::usage, "{}: is the input {}; inputs are never overwritten, write elsewhere",
             output.given.string(), input.given.string());
      if (input.is_folder &&
          (is_inside(output.real, input.real) || is_inside(output.own, input.real)))
        fail(ErrorCode::usage, "{}: is in the folder {}, which is an input; write elsewhere",
             output.given.string(), input.given.string());
    }
    for (std::size_t j = 0; j < i; ++j)
      if (same_file(output, written[j]))
        fail(ErrorCode::usage, "{}: two outputs would be written there", output.given.string());
  }
}

}  // namespace oubli
