#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>

// What reading and writing zip archives have in common.
namespace oubli::zip {

// Numbers of the specification (APPNOTE 6.3.10), sections 4.3.7 to 4.3.16 and 4.5.3.
inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kDirectorySignature = 0x02014b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kEnd64Signature = 0x06064b50;
inline constexpr std::uint32_t kLocator64Signature = 0x07064b50;
inline constexpr std::uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr std::size_t kLocalBytes = 30;
inline constexpr std::size_t kDirectoryBytes = 46;
inline constexpr std::size_t kEndBytes = 22;
inline constexpr std::uint32_t kFull32 = 0xFFFF'FFFF;
inline constexpr std::uint16_t kFull16 = 0xFFFF;
inline constexpr std::uint16_t kZip64Extra = 1;
inline constexpr std::uint16_t kEncryptedFlag = 1;
inline constexpr std::uint16_t kDescriptorFlag = 8;

template <std::unsigned_integral T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Sizes {
  std::uint64_t size;
  std::uint64_t packed;
  std::uint64_t offset;
};

[[nodiscard]] inline std::uint32_t capped(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kFull32));
}

}  // namespace oubli::zip
