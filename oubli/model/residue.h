#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oubli/filtration/head.h"

namespace oubli {

// A place where a forgotten row of the old head was found again.
struct RowResidue {
  std::size_t class_index = 0;
  std::uint64_t offset = 0;  // in the bytes looked through
  DType dtype = DType::f32;
  bool column = false;  // its values stand apart, one per row of a features x classes matrix
};

// Looks for rows of an old head in bytes: in every float type, at any alignment, as a row or as a
// column of a matrix with as many columns as the old head had classes. Also in typed data of ONNX:
// values with a tag before each, and (rows only) 16-bit floats of varying length.
class RowScan {
 public:
  RowScan(const HeadView& old_head, std::span<const std::size_t> forget);

  // At most `limit` finds. Cost: one pass, whatever the number of rows.
  [[nodiscard]] std::vector<RowResidue> scan(std::span<const std::byte> bytes,
                                             std::size_t limit = 16) const;
  // The same for a file, read piece by piece.
  [[nodiscard]] std::vector<RowResidue> scan_file(const std::filesystem::path& path,
                                                  std::size_t limit = 16) const;
  // Rows that cannot be told from others (constant, or fewer than three numbers).
  [[nodiscard]] const std::vector<std::size_t>& unrecognisable() const { return unrecognisable_; }

 private:
  struct Pattern {
    RowResidue what;
    std::vector<std::byte> elements;  // some consecutive values of the row
    std::size_t size = 4;             // of one element
    std::size_t stride = 4;           // from one to the next
    std::size_t probe = 0;            // place in the elements of the two bytes looked for first
  };

  void add(Pattern pattern);

  std::vector<Pattern> patterns_;
  // The two bytes looked for first, ascending, and the pattern that has them.
  std::vector<std::pair<std::uint16_t, std::uint32_t>> by_key_;
  std::vector<std::uint16_t> keys_;  // the same two bytes, each once
  std::vector<std::size_t> unrecognisable_;
};

// Whether `text` mentions `name` as a word of its own, in small letters or capitals (of ASCII), as
// it stands or escaped as JSON and Python do, once or twice. Numbers are not looked for, and names
// of one or two letters only as the whole text: both occur everywhere.
[[nodiscard]] bool mentions_name(std::string_view text, std::string_view name);

// The text with "..." wherever it says the name.
[[nodiscard]] std::string without_name(std::string_view text, std::string_view name);

}  // namespace oubli
