#include "oubli/evidence/keys.h"

#include <openssl/core_names.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <array>

#include "oubli/base/digest.h"
#include "oubli/base/file.h"
#include "oubli/base/progress.h"
#include "oubli/evidence/ecdsa.h"
#include "oubli/evidence/openssl.h"

namespace oubli {
namespace {

using Context = Owned<EVP_MD_CTX>;
using Bio = Owned<BIO>;

constexpr std::size_t kKeyBytes = 32;  // Ed25519
constexpr std::size_t kSignatureBytes = 64;
constexpr std::size_t kKeyFileLimit = 1 << 16;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

SharedKey shared(EVP_PKEY* key) {
  return {key, [](EVP_PKEY* last) { EVP_PKEY_free(last); }};
}

// None for a key of another type or curve, or of a curve that is spelled out instead of named.
std::optional<KeyType> type_of(EVP_PKEY* key) {
  if (key == nullptr) return std::nullopt;
  if (EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519) return KeyType::ed25519;
  std::array<char, 64> group{};
  std::size_t size = 0;
  int spelled_out = 0;
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC ||
      EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group.data(), group.size(),
                                     &size) != 1 ||
      std::string_view(group.data(), size) != "prime256v1" ||
      EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &spelled_out) !=
          1 ||
      spelled_out != 0)
    return std::nullopt;
  return KeyType::p256;
}

// No pass phrase is asked for: an encrypted key is refused rather than a terminal read.
int no_pass_phrase(char*, int, int, void*) { return -1; }

SharedKey parse_key(std::string_view pem, bool secret, const std::string& what) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  require_openssl(bio != nullptr, "BIO_new_mem_buf");
  SharedKey key =
      shared(secret ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_pass_phrase, nullptr)
                    : PEM_read_bio_PUBKEY(bio.get(), nullptr, no_pass_phrase, nullptr));
  if (!type_of(key.get()))
    fail(ErrorCode::bad_input, "{}: holds no Ed25519 or P-256 {} key; 'oubli keygen' makes one",
         what, secret ? "private" : "public");
  return key;
}

std::string pem_of(EVP_PKEY* key, bool secret) {
  const Bio bio(BIO_new(BIO_s_mem()));
  require_openssl(bio != nullptr, "BIO_new");
  require_openssl(
      (secret ? PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr)
              : PEM_write_bio_PUBKEY(bio.get(), key)) == 1,
      "writing a key");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string sign_ed25519(EVP_PKEY* key, std::string_view message) {
  const Context context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  std::size_t size = signature.size();
  require_openssl(
      context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key) == 1 &&
          EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                         bytes_of(message), message.size()) == 1 &&
          size == signature.size(),
      "signing");
  return signature;
}

}  // namespace

std::string_view name_of(KeyType type) {
  return type == KeyType::ed25519 ? "ed25519" : "ecdsa-p256";
}

std::optional<KeyType> key_type_named(std::string_view name) {
  for (const KeyType type : kAllKeyTypes)
    if (name_of(type) == name) return type;
  return std::nullopt;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

std::optional<std::string> bytes_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kDigits.find(hex[i]);
    const std::size_t low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(16 * high + low);
  }
  return bytes;
}

PublicKey PublicKey::read(const std::filesystem::path& path) {
  return from_pem(read_text_file(path, kKeyFileLimit), path.string());
}

PublicKey PublicKey::from_pem(std::string_view pem, const std::string& what) {
  return PublicKey(parse_key(pem, false, what));
}

std::optional<PublicKey> PublicKey::from_hex(std::string_view hex) {
  const auto bytes = bytes_of_hex(hex);
  if (!bytes) return std::nullopt;
  if (bytes->size() == kKeyBytes) {
    SharedKey key = shared(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(*bytes), bytes->size()));
    return key ? std::optional(PublicKey(std::move(key))) : std::nullopt;
  }
  const unsigned char* end = bytes_of(*bytes);
  SharedKey key = shared(d2i_PUBKEY(nullptr, &end, static_cast<long>(bytes->size())));
  if (type_of(key.get()) != KeyType::p256) return std::nullopt;
  PublicKey result(std::move(key));
  return result.hex() == hex ? std::optional(std::move(result)) : std::nullopt;
}

KeyType PublicKey::type() const { return *type_of(key_.get()); }

std::string PublicKey::pem() const { return pem_of(key_.get(), false); }

std::string PublicKey::hex() const {
  if (type() == KeyType::ed25519) {
    std::string bytes(kKeyBytes, '\0');
    std::size_t size = bytes.size();
    require_openssl(EVP_PKEY_get_raw_public_key(
                        key_.get(), reinterpret_cast<unsigned char*>(bytes.data()), &size) == 1 &&
                        size == bytes.size(),
                    "reading the public key");
    return to_hex(bytes);
  }
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key_.get(), &der);
  require_openssl(size > 0, "i2d_PUBKEY");
  const std::string bytes(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return to_hex(bytes);
}

std::string PublicKey::id() const { return sha256_hex(as_bytes(pem())); }

bool PublicKey::verifies(std::string_view message, std::string_view signature) const {
  const EVP_MD* const digest = type() == KeyType::ed25519 ? nullptr : EVP_sha256();
  const Context context(EVP_MD_CTX_new());
  require_openssl(
      context && EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1,
      "EVP_DigestVerifyInit");
  return EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(message),
                          message.size()) == 1;
}

bool PublicKey::operator==(const PublicKey& other) const {
  return EVP_PKEY_eq(key_.get(), other.key_.get()) == 1;
}

PrivateKey PrivateKey::generate(KeyType type) {
  SharedKey key =
      shared(type == KeyType::ed25519 ? EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")
                                      : EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  require_openssl(type_of(key.get()) == type, "making a key");
  return PrivateKey(std::move(key));
}

void warn_if_open(const std::filesystem::path& key) {
  struct stat status {};
  if (::stat(key.c_str(), &status) == 0 && (status.st_mode & 077U) != 0)
    say(fmt::format("{}: others may read this key; chmod 600 it", key.string()));
}

PrivateKey PrivateKey::read(const std::filesystem::path& path) {
  return PrivateKey(parse_key(read_text_file(path, kKeyFileLimit), true, path.string()));
}

std::string PrivateKey::pem() const { return pem_of(key_.get(), true); }

std::string PrivateKey::sign(std::string_view message) const {
  const PublicKey open = public_key();
  std::string signature = open.type() == KeyType::ed25519 ? sign_ed25519(key_.get(), message)
                                                          : sign_p256(key_.get(), message);
  // A key file may hold a public half that is not that of its private one.
  if (!open.verifies(message, signature))
    fail(ErrorCode::bad_input, "the private key does not fit the public one in its file");
  return signature;
}

std::filesystem::path public_key_path(const std::filesystem::path& key) {
  std::filesystem::path path = key;
  path += ".pub";
  return path;
}

PublicKey generate_keys(const std::filesystem::path& path, bool replace, KeyType type) {
  const PrivateKey key = PrivateKey::generate(type);
  if (!path.has_filename())
    fail(ErrorCode::usage, "'{}': wanted the name of a file for the key", path.string());
  for (const auto& file : {path, public_key_path(path)})
    if (std::filesystem::is_directory(file))
      fail(ErrorCode::usage, "{}: is a folder, wanted the name of a file for the key",
           file.string());
  AtomicFile secret(path, replace, 0600);
  AtomicFile open(public_key_path(path), replace);
  secret.write(key.pem());
  open.write(key.public_key().pem());
  for (AtomicFile* const file : {&secret, &open})
    (void)file->temporary_path();  // on a full disk, now
  // A public key without its private one would have others wait for signatures that never fit.
  AtomicFile::commit(std::array{&secret, &open});
  return key.public_key();
}

}  // namespace oubli
