#pragma once

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>

#include <memory>

#include "oubli/base/error.h"

// What OpenSSL gives, with an owner. For .cpp files only: our headers do not show OpenSSL.
namespace oubli {

struct OpenSslFree {
  void operator()(BIGNUM* number) const { BN_clear_free(number); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(BN_CTX* context) const { BN_CTX_free(context); }
  void operator()(EC_GROUP* group) const { EC_GROUP_free(group); }
  void operator()(EC_POINT* point) const { EC_POINT_clear_free(point); }
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
template <class T>
using Owned = std::unique_ptr<T, OpenSslFree>;

// What only fails without memory, or where OpenSSL was built without it.
inline void require_openssl(bool condition, const char* what) {
  if (!condition) fail(ErrorCode::io, "OpenSSL: {} failed", what);
}

}  // namespace oubli
