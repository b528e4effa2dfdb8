#include "oubli/base/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>

#include "oubli/base/error.h"
#include "oubli/base/file_chunks.h"

namespace oubli {

struct Sha256::State {
  EVP_MD_CTX* context = nullptr;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  state_->context = EVP_MD_CTX_new();
  if (state_->context == nullptr) throw std::bad_alloc();
  if (EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
    throw Error(ErrorCode::bug, "OpenSSL has no SHA-256");
}

Sha256::Sha256(const Sha256& other) : Sha256() {
  if (EVP_MD_CTX_copy_ex(state_->context, other.state_->context) != 1) throw std::bad_alloc();
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

std::string sha256_file(const std::filesystem::path& path, std::span<const std::byte> known,
                        const DigestTrail& trail) {
  std::size_t alike = 0;  // windows
  std::optional<Sha256> digest;
  const auto start = [&] {
    if (alike == 0)
      digest.emplace();
    else
      digest.emplace(trail.states[alike - 1]);
  };
  for_each_chunk(path, 0, [&](std::uint64_t, std::span<const std::byte> bytes) {
    if (!digest && alike < trail.states.size() && bytes.size() == kChunkBytes &&
        std::memcmp(bytes.data(), known.data() + alike * kChunkBytes, kChunkBytes) == 0) {
      release_pages(known.subspan(alike * kChunkBytes, kChunkBytes));
      ++alike;
      return true;
    }
    if (!digest) start();
    digest->update(bytes);
    return true;
  });
  if (!digest) start();
  return digest->hex();
}

std::string sha256_of_mapped(std::span<const std::byte> mapped) {
  DigestTrail trail;
  return sha256_of_mapped(mapped, trail);
}

std::string sha256_of_mapped(std::span<const std::byte> mapped, DigestTrail& trail) {
  Sha256 digest;
  while (!mapped.empty()) {
    const auto window = mapped.first(std::min(kChunkBytes, mapped.size()));
    digest.update(window);
    if (window.size() == kChunkBytes) trail.states.push_back(digest);
    release_pages(window);
    mapped = mapped.subspan(window.size());
  }
  return digest.hex();
}

std::string sha256_file(const std::filesystem::path& path) {
  Sha256 digest;
  for_each_chunk(path, 0, [&](std::uint64_t, std::span<const std::byte> bytes) {
    digest.update(bytes);
    return true;
  });
  return digest.hex();
}

}  // namespace oubli
