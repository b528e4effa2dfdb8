#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace oubli {

// Signatures inside receipts. (Those in envelopes, which other programs check too, are in
// oubli/evidence.) Keys are of the types of oubli/evidence/keys.h.

// What is signed: the receipt without its "signature", keys sorted, no white space. Any reader of
// JSON can form it, however the file is laid out.
[[nodiscard]] std::string canonical(const nlohmann::ordered_json& receipt);

// Adds {"signature": {"algorithm", "public_key", "value"}}.
void sign_receipt(nlohmann::ordered_json& receipt, const std::filesystem::path& key);

// Whether the receipt is signed, and by the key whose public half is `public_key` (hexadecimal).
enum class SignatureState { valid, invalid, other_key, unsigned_receipt };
[[nodiscard]] SignatureState check_signature(const nlohmann::ordered_json& receipt,
                                             const std::string& public_key);

}  // namespace oubli
