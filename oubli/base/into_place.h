#pragma once

#include <cstddef>
#include <filesystem>

namespace oubli {

// The steps by which files and folders appear whole or not at all: see AtomicFile, AtomicFolder.

// A name for a temporary beside `path`: hidden, on the same file system, never given twice, and its
// owner can be told from it.
[[nodiscard]] std::filesystem::path temporary_beside(const std::filesystem::path& path);
// Renames where rename() would silently replace: Error{usage} if `to` is there, {io} if it fails.
void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to);
// Error{usage}: `path` is there, and is not to be replaced.
[[noreturn]] void fail_because_it_exists(const std::filesystem::path& path);
// What was renamed or created in it is durable afterwards.
void sync_folder(const std::filesystem::path& folder);
// Removes temporaries that processes no longer alive left in `folder`; returns how many.
std::size_t remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace oubli
