#pragma once

#include <string>

namespace oubli::testing {

// Where the sources and the build of a test program are. Functions, so that one object knows the
// folders and all others are the same wherever they are compiled.
[[nodiscard]] std::string source_folder();
[[nodiscard]] std::string build_folder();

}  // namespace oubli::testing
