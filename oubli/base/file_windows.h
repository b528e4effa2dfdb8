#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace oubli {

// Reads a file from begin to end without copying it: windows of some megabytes are mapped one after
// another, so that a large file never counts as memory in use. Each window begins `overlap` bytes
// before the end of the one before. Stops when `visit` says false. Error{io} if the file cannot be
// read; if it shrinks meanwhile, see MappedFile.
void for_each_window(
    const std::filesystem::path& path, std::size_t overlap,
    const std::function<bool(std::uint64_t offset, std::span<const std::byte>)>& visit);

// Returns when the file's bytes are on the disk: beside other work, so that AtomicFile::commit()
// has nothing left to wait for. Error{io} if they do not get there.
void wait_for_disk(const std::filesystem::path& path);

}  // namespace oubli
