#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace oubli {

// Of a chunk, without what overlaps.
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;

// Reads a file from begin to end without copying it: chunks of kChunkBytes are mapped one after
// another, so that a large file never counts as memory in use. Each chunk begins `overlap` bytes
// before the end of the one before. Stops when `visit` says false. Error{io} if the file cannot be
// read; if it shrinks meanwhile, see MappedFile.
void for_each_chunk(
    const std::filesystem::path& path, std::size_t overlap,
    const std::function<bool(std::uint64_t offset, std::span<const std::byte>)>& visit);

// Returns when the file's bytes are on the disk: beside other work, so that AtomicFile::commit()
// has nothing left to wait for. Error{io} if they do not get there.
void wait_for_disk(const std::filesystem::path& path);

// What was read so far of (part of) a MappedFile's bytes no longer counts as memory in use; reading
// it again maps it again. May be called while others read. Of other memory it would lose content.
void release_pages(std::span<const std::byte> mapped);

}  // namespace oubli
