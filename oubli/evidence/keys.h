#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "oubli/base/error.h"

struct evp_pkey_st;  // OpenSSL's key

namespace oubli {

// Ed25519 [RFC 8032], or ECDSA over NIST P-256 with SHA-256 and signatures in DER, which is what
// signers of models (OMS) take.
enum class KeyType { ed25519, p256 };

inline constexpr KeyType kAllKeyTypes[] = {KeyType::ed25519, KeyType::p256};

// "ed25519", "ecdsa-p256"
[[nodiscard]] std::string_view name_of(KeyType type);
[[nodiscard]] std::optional<KeyType> key_type_named(std::string_view name);

using SharedKey = std::shared_ptr<evp_pkey_st>;

class PublicKey {
 public:
  // PEM, SubjectPublicKeyInfo. Error{bad_input} if it holds no key of a type above.
  [[nodiscard]] static PublicKey read(const std::filesystem::path& path);
  [[nodiscard]] static PublicKey from_pem(std::string_view pem, const std::string& what);
  // What hex() gave; none for anything else.
  [[nodiscard]] static std::optional<PublicKey> from_hex(std::string_view hex);

  [[nodiscard]] KeyType type() const;
  [[nodiscard]] std::string pem() const;
  // Ed25519: its 32 bytes. P-256: SubjectPublicKeyInfo in DER.
  [[nodiscard]] std::string hex() const;
  // The SHA-256 of the PEM text in hexadecimal: the hint that signers of models use.
  [[nodiscard]] std::string id() const;
  // False for whatever is no signature of this key's type, too.
  [[nodiscard]] bool verifies(std::string_view message, std::string_view signature) const;
  // The same point, however it was written.
  [[nodiscard]] bool operator==(const PublicKey& other) const;

 private:
  friend class PrivateKey;
  explicit PublicKey(SharedKey key) : key_(std::move(key)) {}
  SharedKey key_;
};

class PrivateKey {
 public:
  [[nodiscard]] static PrivateKey generate(KeyType type);
  // PEM, PKCS#8, not encrypted.
  [[nodiscard]] static PrivateKey read(const std::filesystem::path& path);

  [[nodiscard]] PublicKey public_key() const { return PublicKey(key_); }
  [[nodiscard]] std::string pem() const;
  // The same key and message give the same bytes.
  [[nodiscard]] std::string sign(std::string_view message) const;

 private:
  explicit PrivateKey(SharedKey key) : key_(std::move(key)) {}
  SharedKey key_;
};

// Says so if others may read the file of a private key.
void warn_if_open(const std::filesystem::path& key);

// Writes the private key (mode 0600) and KEY.pub; neither appears if one cannot be written, and the
// private one appears first. Error{usage} if there is no name, or a folder of that name.
PublicKey generate_keys(const std::filesystem::path& key, bool replace,
                        KeyType type = KeyType::ed25519);
[[nodiscard]] std::filesystem::path public_key_path(const std::filesystem::path& key);

// Lower-case digits; none if there is anything else.
[[nodiscard]] std::string to_hex(std::string_view bytes);
[[nodiscard]] std::optional<std::string> bytes_of_hex(std::string_view hex);

}  // namespace oubli
