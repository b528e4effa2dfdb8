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
  bool column = false;  // its values stand apart, one per row of a matrix with classes in columns
  enum class Form { plain, negated, quantised, base64, decimal };
  Form form = Form::plain;
};

// "float32, as a column, negated"
[[nodiscard]] std::string describe(const RowResidue& residue);

// Looks for rows of an old head in bytes, at any alignment:
//   - in every float type, negated or not, as a row or as a column of a matrix with as many columns
//     as the old head had classes; float32 and float64 also with any other number of columns up to
//     kWidestColumns bytes;
//   - in typed data of ONNX: values with a tag before each, and (rows only) 16-bit floats of
//     varying length;
//   - in 8 bits, signed or not, of any scale and zero point, where there are 16 numbers or more,
//     not all alike, and looks_for_8_bits();
//   - as text: base64 of the bytes, and decimal numbers of at least six digits, one after another.
// Not found: sums, products or parts of rows, other codes, what is encrypted or compressed.
class RowScan {
 public:
  RowScan(const HeadView& old_head, std::span<const std::size_t> forget);

  // At most `limit` finds. Cost: one pass, whatever the number of rows.
  [[nodiscard]] std::vector<RowResidue> scan(std::span<const std::byte> bytes,
                                             std::size_t limit = 16) const;
  // The same for a file, read piece by piece.
  [[nodiscard]] std::vector<RowResidue> scan_file(const std::filesystem::path& path,
                                                  std::size_t limit = 16) const;
  // Whether so many bytes are also looked through for rows in 8 bits.
  [[nodiscard]] bool looks_for_8_bits(std::uint64_t bytes) const;
  // Rows that cannot be told from others (constant, or fewer than three numbers).
  [[nodiscard]] const std::vector<std::size_t>& unrecognisable() const { return unrecognisable_; }

 private:
  struct Pattern {
    RowResidue what;
    std::vector<std::byte> elements;  // some consecutive values of the row
    std::size_t size = 4;             // of one element
    std::size_t stride = 4;           // from one to the next
    std::size_t probe = 0;            // place in the elements of the two bytes looked for first
    // What follows an element that was found decides: values at some distance, or in decimal.
    enum class Rest { none, columns, decimals } rest = Rest::none;
    std::size_t row = 0;  // of rows_
  };
  // A row's most varied stretch, and what it looks like in 8 bits.
  struct Row {
    std::size_t class_index = 0;
    std::vector<double> window;
    std::vector<double> wide;  // a longer one, for 8 bits
  };

  void add(Pattern pattern);
  void add_floats(const Row& row, DType dtype, std::size_t classes);
  void add_base64(const Row& row, DType dtype);
  void add_anchors(std::size_t row);
  [[nodiscard]] bool rest_follows(const Pattern& pattern, std::span<const std::byte> bytes,
                                  std::size_t at) const;
  [[nodiscard]] std::vector<RowResidue> scan_patterns(std::span<const std::byte> bytes,
                                                      std::size_t limit) const;
  void scan_quantised(std::span<const std::byte> bytes, std::size_t limit,
                      std::vector<RowResidue>& found) const;

  static constexpr std::size_t kWidestColumns = std::size_t{1} << 15;

  std::size_t classes_ = 0;
  std::vector<Row> rows_;
  std::vector<Pattern> patterns_;
  // The two bytes looked for first, ascending, and the pattern that has them.
  std::vector<std::pair<std::uint16_t, std::uint32_t>> by_key_;
  std::vector<std::uint16_t> keys_;  // the same two bytes, each once
  std::vector<std::size_t> unrecognisable_;
};

}  // namespace oubli
