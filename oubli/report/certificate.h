#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "oubli/report/card.h"

namespace oubli::report {

// A receipt as one sheet of A4 for whoever asked for the deletion: what was done, what was checked
// and how that is known, what an observer can still tell, what this does not prove, and what must
// still be done. `oubli report RECEIPT` draws the figures behind it.
struct CertificateWords {
  std::string classes = {};         // "class 5 (sandal)"; empty: by number, as the receipt has it
  std::string date = {};            // "2026-11-18"; the receipt holds none
  std::string receipt_sha256 = {};  // of its bytes
  // Names of files; empty: as the receipt has them, without the forgotten class's name.
  std::string receipt_name = {};  // for the command that verifies it
  std::string new_model = {};
  std::string old_model = {};  // what must still be deleted
};

// Self-contained HTML without script. Error{bad_input} if the receipt is damaged.
[[nodiscard]] std::string certificate(const nlohmann::json& receipt, const CertificateWords& words);

// The same in one picture.
[[nodiscard]] Card share_card(const nlohmann::json& receipt, const CertificateWords& words);

// Reads the receipt at `receipt`, and writes the page to `output` and the card beside it, as
// OUTPUT.card.svg and, where its font is installed, .card.png; else it says so. `words` as above;
// an empty date is that of the receipt's file.
void write_certificate(const std::filesystem::path& receipt, const std::filesystem::path& output,
                       bool replace, CertificateWords words);
[[nodiscard]] std::array<std::filesystem::path, 2> card_paths(const std::filesystem::path& page);

}  // namespace oubli::report
