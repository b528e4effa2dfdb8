#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "oubli/forget/forget.h"

namespace oubli {

// Parts of a receipt, without the names of forgotten classes: files, tensors, nodes and outputs may
// be called by them, and they do not belong there.
class Masked {
 public:
  Masked(const ForgetInputs& inputs, const ForgetRequest& request);

  [[nodiscard]] std::string name(std::string text) const;
  // Of our own sentences, only what they quote.
  [[nodiscard]] std::string sentence(std::string_view text) const;
  [[nodiscard]] nlohmann::ordered_json findings(std::span<const Finding> all) const;
  [[nodiscard]] nlohmann::ordered_json files(std::span<const FileDigest> all) const;
  [[nodiscard]] nlohmann::ordered_json head(const ModelFile& model,
                                            const std::string& sha256) const;
  // What was seen when the old model ran.
  [[nodiscard]] nlohmann::ordered_json run(const RunReport& report) const;

 private:
  std::set<std::string> names_;
};

}  // namespace oubli
