#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace oubli {

// Ed25519 signatures (RFC 8032) of receipts. Keys are PEM files as OpenSSL writes them: the private
// one PKCS#8, mode 0600, the public one SubjectPublicKeyInfo, named KEY.pub.

// Writes both; neither appears if one cannot be written, and the private one appears first.
// Error{usage} if there is no name, or a folder of that name. Returns the public key in
// hexadecimal.
std::string generate_keys(const std::filesystem::path& key, bool replace);
[[nodiscard]] std::filesystem::path public_key_path(const std::filesystem::path& key);
// 64 hexadecimal digits. Error{bad_input} if the file holds no Ed25519 public key.
[[nodiscard]] std::string read_public_key(const std::filesystem::path& path);

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
