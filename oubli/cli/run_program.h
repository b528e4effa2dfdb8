#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "tests/test_paths.h"
#include "tests/test_support.h"

namespace oubli::testing {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// The program, run in `folder`.
inline Outcome run_program(const TempFolder& folder, const std::string& arguments) {
  const std::string command = fmt::format("cd {} && {}/oubli {} >.out 2>.err",
                                          folder.path().string(), build_folder(), arguments);
  const int status = std::system(command.c_str());
  Outcome outcome{WEXITSTATUS(status), read_text_file(folder / ".out"),
                  read_text_file(folder / ".err")};
  std::filesystem::remove(folder / ".out");
  std::filesystem::remove(folder / ".err");
  return outcome;
}

}  // namespace oubli::testing
