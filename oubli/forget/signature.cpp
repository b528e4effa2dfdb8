#include "oubli/forget/signature.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/base/json.h"
#include "oubli/base/progress.h"

namespace oubli {
namespace {

constexpr char kAlgorithm[] = "Ed25519";
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kSignatureBytes = 64;
constexpr std::size_t kKeyFileLimit = 1 << 16;

struct Freed {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed>;
using Context = std::unique_ptr<EVP_MD_CTX, Freed>;
using Bio = std::unique_ptr<BIO, Freed>;

void require(bool condition, const char* what) {
  if (!condition) fail(ErrorCode::io, "OpenSSL: {} failed", what);
}

std::string to_hex(std::span<const unsigned char> bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::optional<std::vector<unsigned char>> from_hex(const std::string& hex, std::size_t bytes) {
  if (hex.size() != 2 * bytes) return std::nullopt;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::vector<unsigned char> result;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]);
    const int low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    result.push_back(static_cast<unsigned char>(16 * high + low));
  }
  return result;
}

std::string public_half(EVP_PKEY* key) {
  std::array<unsigned char, kKeyBytes> bytes{};
  std::size_t size = bytes.size();
  require(EVP_PKEY_get_raw_public_key(key, bytes.data(), &size) == 1 && size == bytes.size(),
          "reading the public key");
  return to_hex(bytes);
}

// No pass phrase is asked for: an encrypted key is refused rather than a terminal read.
int no_pass_phrase(char*, int, int, void*) { return -1; }

Key read_key(const std::filesystem::path& path, bool secret) {
  const std::string text = read_text_file(path, kKeyFileLimit);
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  require(bio != nullptr, "BIO_new_mem_buf");
  Key key(secret ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_pass_phrase, nullptr)
                 : PEM_read_bio_PUBKEY(bio.get(), nullptr, no_pass_phrase, nullptr));
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519)
    fail(ErrorCode::bad_input, "{}: holds no Ed25519 {} key; 'oubli keygen' makes one",
         path.string(), secret ? "private" : "public");
  return key;
}

std::string pem_of(EVP_PKEY* key, bool secret) {
  const Bio bio(BIO_new(BIO_s_mem()));
  require(bio != nullptr, "BIO_new");
  require(
      (secret ? PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr)
              : PEM_write_bio_PUBKEY(bio.get(), key)) == 1,
      "writing a key");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

std::filesystem::path public_key_path(const std::filesystem::path& key) {
  std::filesystem::path path = key;
  path += ".pub";
  return path;
}

std::string generate_keys(const std::filesystem::path& path, bool replace) {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  require(key != nullptr, "making a key");
  if (!path.has_filename())
    fail(ErrorCode::usage, "'{}': wanted the name of a file for the key", path.string());
  for (const auto& file : {path, public_key_path(path)})
    if (std::filesystem::is_directory(file))
      fail(ErrorCode::usage, "{}: is a folder, wanted the name of a file for the key",
           file.string());
  AtomicFile secret(path, replace, 0600);
  AtomicFile open(public_key_path(path), replace);
  secret.write(pem_of(key.get(), true));
  open.write(pem_of(key.get(), false));
  for (AtomicFile* const file : {&secret, &open})
    (void)file->temporary_path();  // on a full disk, now
  // A public key without its private one would have others wait for signatures that never fit.
  secret.commit();
  open.commit();
  return public_half(key.get());
}

std::string read_public_key(const std::filesystem::path& path) {
  return public_half(read_key(path, false).get());
}

std::string canonical(const nlohmann::ordered_json& receipt) {
  nlohmann::json sorted = receipt;  // nlohmann::json keeps its keys sorted
  sorted.erase("signature");
  return to_text(sorted, -1);
}

void sign_receipt(nlohmann::ordered_json& receipt, const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077U) != 0)
    say(fmt::format("{}: others may read this key; chmod 600 it", path.string()));
  const Key key = read_key(path, true);
  const std::string message = canonical(receipt);
  const Context context(EVP_MD_CTX_new());
  std::array<unsigned char, kSignatureBytes> signature{};
  std::size_t size = signature.size();
  require(context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
              EVP_DigestSign(context.get(), signature.data(), &size,
                             reinterpret_cast<const unsigned char*>(message.data()),
                             message.size()) == 1,
          "signing");
  receipt["signature"] = {{"algorithm", kAlgorithm},
                          {"public_key", public_half(key.get())},
                          {"value", to_hex(signature)}};
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
  if (text("algorithm") != kAlgorithm) return SignatureState::invalid;
  // The key that counts is the one the verifier brings, never the one in the receipt.
  if (text("public_key") != public_key) return SignatureState::other_key;
  const auto key_bytes = from_hex(public_key, kKeyBytes);
  const auto value = from_hex(text("value"), kSignatureBytes);
  if (!key_bytes || !value) return SignatureState::invalid;
  const Key key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key_bytes->data(), key_bytes->size()));
  const Context context(EVP_MD_CTX_new());
  const std::string message = canonical(receipt);
  if (!key || !context ||
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1)
    return SignatureState::invalid;
  return EVP_DigestVerify(context.get(), value->data(), value->size(),
                          reinterpret_cast<const unsigned char*>(message.data()),
                          message.size()) == 1
             ? SignatureState::valid
             : SignatureState::invalid;
}

}  // namespace oubli
