#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oubli/array/tensor.h"

namespace oubli {

// ONNX Runtime, opened at run time. Looked for, in this order: `path`, $OUBLI_ONNXRUNTIME, the
// system's libraries, what tools/get-runtime stored.
class OnnxRuntime {
 public:
  // Error{missing} saying how to get it; Error{missing} too if the library is older than 1.21.
  static std::shared_ptr<const OnnxRuntime> open(
      const std::optional<std::filesystem::path>& path = {});
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::filesystem::path& library() const { return library_; }

 private:
  friend class OnnxSession;
  OnnxRuntime() = default;

  struct State;
  std::unique_ptr<State> state_;
  std::string version_;
  std::filesystem::path library_;
};

// A model ready to run, on the calling thread unless it is given more; run() may be called from
// several threads at once.
class OnnxSession {
 public:
  // `model` is a whole ONNX file in memory, needed only during the call; its external data lies in
  // `folder`. Error{bad_input} with the runtime's own words if it does not load.
  OnnxSession(std::shared_ptr<const OnnxRuntime> runtime, std::span<const std::byte> model,
              const std::filesystem::path& folder, const std::string& what, unsigned threads = 1);
  ~OnnxSession();
  OnnxSession(OnnxSession&&) noexcept;
  OnnxSession& operator=(OnnxSession&&) noexcept;

  struct Input {
    std::string name;
    TensorView value;
  };
  // The named values for these inputs. Error{bad_input} with the runtime's own words.
  [[nodiscard]] std::vector<Tensor> run(std::span<const Input> inputs,
                                        std::span<const std::string> outputs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace oubli
