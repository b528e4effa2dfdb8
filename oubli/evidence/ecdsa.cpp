#include "oubli/evidence/ecdsa.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/obj_mac.h>
#include <openssl/sha.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "oubli/evidence/openssl.h"

namespace oubli {
namespace {

constexpr int kBytes = 32;  // of the order, and of SHA-256

using Number = Owned<BIGNUM>;
using Block = std::array<unsigned char, kBytes>;

Number number() {
  Number result(BN_secure_new());
  require_openssl(result != nullptr, "BN_secure_new");
  BN_set_flags(result.get(), BN_FLG_CONSTTIME);
  return result;
}

Block octets(const BIGNUM* value) {
  Block block{};
  require_openssl(BN_bn2binpad(value, block.data(), kBytes) == kBytes, "BN_bn2binpad");
  return block;
}

Block hmac(const Block& key, std::initializer_list<std::span<const unsigned char>> parts) {
  std::vector<unsigned char> message;
  for (const auto part : parts) message.insert(message.end(), part.begin(), part.end());
  Block result{};
  unsigned size = 0;
  require_openssl(HMAC(EVP_sha256(), key.data(), kBytes, message.data(), message.size(),
                       result.data(), &size) != nullptr,
                  "HMAC");
  OPENSSL_cleanse(message.data(), message.size());
  return result;
}

// [RFC 6979, section 3.2], the generator of nonces: steps b to f, then h for every call.
class Nonces {
 public:
  Nonces(const Block& secret, const Block& digest) {
    value_.fill(1);
    for (const unsigned char step : std::array<unsigned char, 2>{0, 1}) {
      key_ = hmac(key_, {value_, std::array{step}, secret, digest});
      value_ = hmac(key_, {value_});
    }
  }
  ~Nonces() {
    OPENSSL_cleanse(key_.data(), key_.size());
    OPENSSL_cleanse(value_.data(), value_.size());
  }
  Nonces(const Nonces&) = delete;
  Nonces& operator=(const Nonces&) = delete;

  // From 1 to order - 1.
  void next(BIGNUM* nonce, const BIGNUM* order) {
    for (;; again_ = true) {
      if (again_) {
        key_ = hmac(key_, {value_, std::array<unsigned char, 1>{0}});
        value_ = hmac(key_, {value_});
      }
      value_ = hmac(key_, {value_});
      require_openssl(BN_bin2bn(value_.data(), kBytes, nonce) != nullptr, "BN_bin2bn");
      if (BN_is_zero(nonce) || BN_cmp(nonce, order) >= 0) continue;
      again_ = true;
      return;
    }
  }

 private:
  Block key_{};
  Block value_{};
  bool again_ = false;
};

}  // namespace

std::string sign_p256(EVP_PKEY* key, std::string_view message) {
  const Owned<EC_GROUP> group(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const Owned<BN_CTX> context(BN_CTX_secure_new());
  require_openssl(group && context, "EC_GROUP_new_by_curve_name");
  const Owned<EC_POINT> point(EC_POINT_new(group.get()));
  require_openssl(point != nullptr, "EC_POINT_new");
  const BIGNUM* const order = EC_GROUP_get0_order(group.get());
  BIGNUM* secret_value = nullptr;
  require_openssl(EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_PRIV_KEY, &secret_value) == 1,
                  "reading the private key");
  const Number secret(secret_value);
  BN_set_flags(secret.get(), BN_FLG_CONSTTIME);

  Block hash{};
  SHA256(reinterpret_cast<const unsigned char*>(message.data()), message.size(), hash.data());
  const Number digest = number();
  require_openssl(BN_bin2bn(hash.data(), kBytes, digest.get()) != nullptr &&
                      BN_nnmod(digest.get(), digest.get(), order, context.get()) == 1,
                  "BN_nnmod");
  Block secret_octets = octets(secret.get());
  Nonces nonces(secret_octets, octets(digest.get()));
  OPENSSL_cleanse(secret_octets.data(), secret_octets.size());

  const Number nonce = number();
  Number r = number();
  Number s = number();
  const Number inverse = number();
  do {
    nonces.next(nonce.get(), order);
    require_openssl(
        EC_POINT_mul(group.get(), point.get(), nonce.get(), nullptr, nullptr, context.get()) == 1 &&
            EC_POINT_get_affine_coordinates(group.get(), point.get(), r.get(), nullptr,
                                            context.get()) == 1 &&
            BN_nnmod(r.get(), r.get(), order, context.get()) == 1 &&
            BN_mod_inverse(inverse.get(), nonce.get(), order, context.get()) != nullptr &&
            BN_mod_mul(s.get(), r.get(), secret.get(), order, context.get()) == 1 &&
            BN_mod_add(s.get(), s.get(), digest.get(), order, context.get()) == 1 &&
            BN_mod_mul(s.get(), s.get(), inverse.get(), order, context.get()) == 1,
        "signing");
  } while (BN_is_zero(r.get()) || BN_is_zero(s.get()));

  const Owned<ECDSA_SIG> signature(ECDSA_SIG_new());
  require_openssl(signature && ECDSA_SIG_set0(signature.get(), r.get(), s.get()) == 1,
                  "ECDSA_SIG_set0");
  (void)r.release();  // are the signature's now
  (void)s.release();
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  require_openssl(size > 0, "i2d_ECDSA_SIG");
  std::string bytes(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return bytes;
}

}  // namespace oubli
