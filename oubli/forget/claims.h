#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "oubli/forget/forget.h"

namespace oubli {

// What the receipt says, read in full before anything is done about it.
struct Claims {
  struct File {
    std::string role, name, sha256;
    std::size_t files = 1;  // that the digest is of
  };
  struct Head {
    std::size_t classes = 0;
    std::string sha256;
  };
  struct Run {
    std::string inputs, labels, runtime;
    std::string instructions;  // empty in receipts of earlier versions
  };
  struct Class {
    std::size_t before = 0;
    std::optional<std::size_t> after;
  };
  ForgetRequest request;
  std::optional<Solver> chosen;                   // by auto, or asked for
  std::vector<std::string> tensors_changed = {};  // by method curvature
  bool not_explained = false;  // method explained was asked for, normalization carried out
  std::optional<std::string> target_sha256, seed_sha256;
  std::vector<File> before, after;  // the files of the old model, and all that were written
  Head head_before, head_after;
  bool calibrated = false;
  std::optional<std::vector<File>> means, data;
  std::vector<Class> classes;
  std::optional<Run> run;
  bool rows_absent = true;  // of forgotten classes, from the new model's files
  std::optional<std::string> previous;
  std::string version, compiler, architecture;
};

// Error{bad_input} naming the place if something is missing or of another type.
[[nodiscard]] Claims claims_of(const nlohmann::ordered_json& receipt);

// The request that a receipt is about. Error{bad_input} if it names none.
[[nodiscard]] ForgetRequest request_of(const nlohmann::ordered_json& receipt);

// Whether a name that a receipt gives leads to nowhere but to a file beside another.
[[nodiscard]] bool is_plain_name(const std::string& name);

}  // namespace oubli
