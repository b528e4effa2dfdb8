#pragma once

// What the fuzz targets have in common. A target feeds bytes to a parser and touches all that it
// returns; Error is the parser's right, anything else (another exception, a sanitizer's report, an
// allocation beyond the limit given by run.sh) is a find.

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "oubli/array/tensor.h"
#include "oubli/base/error.h"

namespace oubli::fuzz {

using Bytes = std::span<const std::uint8_t>;

// A folder, in memory where there is one, in which inputs become files, since parsers take paths.
class Scratch {
 public:
  Scratch() {
    std::error_code none;
    const std::filesystem::path memory = "/dev/shm";
    const bool usable = std::filesystem::is_directory(memory, none);
    std::string name =
        (usable ? memory : std::filesystem::temp_directory_path()) / "oubli-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::filesystem::path put(const std::string& name, Bytes bytes) const {
    std::filesystem::path path = path_ / name;
    const int descriptor = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (descriptor < 0 ||
        ::write(descriptor, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
    ::close(descriptor);
    return path;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Runs `action`; Error is fine.
template <typename Action>
void may_refuse(Action action) {
  try {
    action();
  } catch (const Error&) {
  }
}

// Reads every element, so that a view beyond its bytes is seen.
inline void touch(const TensorView& tensor) {
  if (tensor.count() != element_count(tensor.shape, "fuzz")) std::abort();
  volatile std::uint8_t sum = 0;
  for (const std::byte byte : tensor.bytes) sum = sum ^ static_cast<std::uint8_t>(byte);
}

}  // namespace oubli::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
