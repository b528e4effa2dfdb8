#pragma once

#include <filesystem>

namespace oubli {

// For the start of work that ends in an AtomicFile at `path`: removes what killed runs left beside
// it. Error{usage} if it is there and not to be replaced.
void prepare_output(const std::filesystem::path& path, bool replace);

}  // namespace oubli
