#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "oubli/base/enum_names.h"

namespace oubli::cli {

// What the words name, each once.
template <typename Choice>
std::vector<Choice> chosen_from(const std::vector<std::string>& words) {
  std::vector<Choice> choices;
  for (const std::string& word : words)
    if (const auto choice = value_named<Choice>(word);
        std::ranges::find(choices, choice) == choices.end())
      choices.push_back(choice);
  return choices;
}

}  // namespace oubli::cli
