#pragma once

#include <filesystem>

#include "oubli/experiment/methods.h"

namespace oubli::cli {

// `oubli reproduce methods`.
struct MethodsCommand {
  MethodsPlan plan;
  std::filesystem::path folder;
  unsigned jobs = 0;
  bool as_json = false;
  bool markdown = false;
};
void reproduce_methods(const MethodsCommand& command);

}  // namespace oubli::cli
