#pragma once

#include <string>
#include <string_view>

struct evp_pkey_st;  // OpenSSL's key

namespace oubli {

// ECDSA over P-256 with SHA-256, DER, the nonce from key and message [RFC 6979]: the same request
// gives the same bytes, and no bad random number can give the key away. `key` must be a private key
// of that curve. (OpenSSL 3.0 signs with random nonces only; it does the arithmetic here.)
[[nodiscard]] std::string sign_p256(evp_pkey_st* key, std::string_view message);

}  // namespace oubli
