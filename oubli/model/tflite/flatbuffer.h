#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oubli {

// A vector in a flatbuffer: a 32-bit count at `at`, then the elements.
struct FlatVector {
  std::uint64_t at = 0;
  std::uint64_t count = 0;

  [[nodiscard]] std::uint64_t elements() const { return at + 4; }
};

// Reads flatbuffers without their schema: tables by the number of a field. Every offset is checked;
// Error{bad_input} naming `what`.
class FlatBuffer {
 public:
  FlatBuffer(std::span<const std::byte> bytes, std::string what)
      : bytes_(bytes), what_(std::move(what)) {}

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t root() const { return indirect(0); }
  // Where the value of a table's field stands; none if it has its default.
  [[nodiscard]] std::optional<std::uint64_t> field(std::uint64_t table, unsigned number) const;
  [[nodiscard]] std::uint64_t number(std::uint64_t table, unsigned field, unsigned bytes) const;
  [[nodiscard]] std::optional<std::uint64_t> table(std::uint64_t table, unsigned field) const;
  [[nodiscard]] std::optional<FlatVector> vector(std::uint64_t table, unsigned field,
                                                 unsigned element_bytes) const;
  [[nodiscard]] std::string_view text(std::uint64_t table, unsigned field) const;
  // Element i of a vector of tables.
  [[nodiscard]] std::uint64_t table_in(const FlatVector& tables, std::uint64_t i) const {
    return indirect(tables.elements() + 4 * i);
  }
  // The numbers in a vector; none if there is no vector.
  template <typename T>
  [[nodiscard]] std::vector<T> values(const std::optional<FlatVector>& vector) const {
    std::vector<T> values(vector ? static_cast<std::size_t>(vector->count) : 0);
    if (!values.empty())  // memcpy takes no null pointer, not even to copy nothing
      std::memcpy(values.data(), span(vector->elements(), vector->count * sizeof(T)).data(),
                  values.size() * sizeof(T));
    return values;
  }
  [[nodiscard]] std::span<const std::byte> span(std::uint64_t at, std::uint64_t count) const;
  [[nodiscard]] std::uint64_t load(std::uint64_t at, unsigned bytes) const;

 private:
  [[nodiscard]] std::uint64_t indirect(std::uint64_t at) const { return at + load(at, 4); }

  std::span<const std::byte> bytes_;
  std::string what_;
};

}  // namespace oubli
