#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace oubli {

// "FILE" or "FILE:NAME": an array in a file. A file may have a colon in its name; where there is
// one of the whole name, that is meant.
struct ArrayPlace {
  std::string file;
  std::string name;  // empty: none was given
};
[[nodiscard]] ArrayPlace split_place(const std::string& where);

// For the start of work that ends in an AtomicFile at `path`: removes what killed runs left beside
// it. Error{usage} if it is there and not to be replaced, or is no file; {io} if its folder is not
// there.
void prepare_output(const std::filesystem::path& path, bool replace);

// Error{usage} if an output is an input, or another output: whatever was said about replacing.
// An input that is a folder is all that is in it, "FILE:NAME" is FILE. Empty paths do not count.
void require_apart(std::span<const std::filesystem::path> outputs,
                   std::span<const std::filesystem::path> inputs);

}  // namespace oubli
