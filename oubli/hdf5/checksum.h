#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace oubli {

// Bob Jenkins' lookup3, as HDF5 uses it for check sums.
[[nodiscard]] std::uint32_t hdf5_checksum(std::span<const std::byte> bytes);

}  // namespace oubli
