#include "oubli/forget/signature.h"

#include <nlohmann/json.hpp>

#include "oubli/base/json.h"
#include "oubli/evidence/keys.h"

namespace oubli {
namespace {

std::string_view algorithm_of(const PublicKey& key) {
  return key.type() == KeyType::ed25519 ? "Ed25519" : "ECDSA-P256-SHA256";
}

}  // namespace

std::string canonical(const nlohmann::ordered_json& receipt) {
  nlohmann::json sorted = receipt;  // nlohmann::json keeps its keys sorted
  sorted.erase("signature");
  return to_text(sorted, -1);
}

void sign_receipt(nlohmann::ordered_json& receipt, const std::filesystem::path& path) {
  warn_if_open(path);
  const PrivateKey key = PrivateKey::read(path);
  const PublicKey open = key.public_key();
  const std::string value = to_hex(key.sign(canonical(receipt)));
  receipt["signature"] = {
      {"algorithm", algorithm_of(open)}, {"public_key", open.hex()}, {"value", value}};
}

SignatureState check_signature(const nlohmann::ordered_json& receipt,
                               const std::string& public_key) {
  const auto signature = receipt.find("signature");
  if (signature == receipt.end()) return SignatureState::unsigned_receipt;
  // Nothing signs the signature itself: it has no room for anything else.
  if (!signature->is_object() || signature->size() != 3) return SignatureState::invalid;
  const auto text = [&](const char* field) {
    const auto value = signature->value(field, nlohmann::ordered_json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  // The key that counts is the one the verifier brings, never the one in the receipt.
  const auto key = PublicKey::from_hex(public_key);
  if (!key) return SignatureState::invalid;
  if (text("public_key") != public_key) return SignatureState::other_key;
  if (text("algorithm") != algorithm_of(*key)) return SignatureState::invalid;
  const auto value = bytes_of_hex(text("value"));
  return value && key->verifies(canonical(receipt), *value) ? SignatureState::valid
                                                            : SignatureState::invalid;
}

}  // namespace oubli
