#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace oubli::cli {

// Where results go: stdout, or, within answer_to() on its thread, what that returns.
[[nodiscard]] std::FILE* results();

// What the program prints on stdout for these words ("forget", "model.npz", "--class", ...): for
// callers within this process. Throws what the program would report, Error{usage} for words that
// make no sense included; `printed`, if given, then holds what came before.
[[nodiscard]] std::string answer_to(const std::vector<std::string>& words,
                                    std::string* printed = nullptr);

}  // namespace oubli::cli
