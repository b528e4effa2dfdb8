#pragma once

#include <string>
#include <vector>

#include "oubli/pickle/pickle.h"

namespace oubli::pickle {

// What loading the pickle would call that is not a part of saving arrays, tensors and the classes
// of PyTorch, NumPy and scikit-learn: code of whoever made the file. By name, each once.
[[nodiscard]] std::vector<std::string> foreign_calls(const Pickle& pickle);

}  // namespace oubli::pickle
