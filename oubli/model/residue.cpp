#include "oubli/model/residue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "oubli/base/file.h"
#include "oubli/base/file_chunks.h"

namespace oubli {

namespace {

// So many consecutive values of a row identify it, unless they are all alike.
constexpr std::size_t kWindow = 12;
// In 8 bits it takes more of them.
constexpr std::size_t kWide = 32;
// Of so many steps between its smallest and its largest value so many must occur. Fewer do in 16
// normal numbers once in 10^5, in 32 much less often.
constexpr double kLevels = 16;
constexpr std::size_t kFewestLevels = 6;
// Bytes times rows that are looked through for rows in 8 bits: a second or less.
constexpr std::uint64_t kSlowSearch = std::uint64_t{1} << 27;
// So often a value is taken for the beginning of a column of unknown distance.
constexpr std::size_t kMostAnchors = 4096;
constexpr std::array<DType, 4> kFloatTypes{DType::f32, DType::f64, DType::f16, DType::bf16};

std::vector<double> row_of(const HeadView& head, std::size_t row) {
  const std::size_t size = size_of(head.weights.dtype);
  const std::size_t classes = head.classes();
  std::vector<double> values(head.features());
  if (!head.transposed) {
    decode(head.weights.dtype,
           head.weights.bytes.subspan(row * values.size() * size, values.size() * size), values);
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    decode(head.weights.dtype, head.weights.bytes.subspan((i * classes + row) * size, size),
           std::span(values).subspan(i, 1));
  }
  return values;
}

// The most varied stretch of the row; empty if there is none worth searching.
std::vector<double> window_of(std::span<const double> row) {
  const std::size_t length = std::min(row.size(), kWindow);
  std::size_t best = 0, best_count = 0;
  const std::size_t last = std::min(row.size() - length, std::size_t{256});
  for (std::size_t begin = 0; begin <= last && best_count < length; ++begin) {
    std::set<double> distinct(row.begin() + static_cast<std::ptrdiff_t>(begin),
                              row.begin() + static_cast<std::ptrdiff_t>(begin + length));
    distinct.erase(0.0);
    if (distinct.size() > best_count) {
      best_count = distinct.size();
      best = begin;
    }
  }
  if (best_count < 3) return {};
  const auto chosen = row.subspan(best, length);
  return {chosen.begin(), chosen.end()};
}

// As bytes of `dtype`; empty if too little of them is left there to tell them from others.
std::vector<std::byte> encoded(std::span<const double> window, DType dtype, double sign) {
  std::vector<double> values(window.begin(), window.end());
  for (double& value : values) value *= sign;
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(values.size() * size);
  encode(dtype, values, bytes);
  std::set<std::string_view> distinct;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view element(reinterpret_cast<const char*>(bytes.data() + i * size), size);
    if (element.find_first_not_of('\0') != std::string_view::npos) distinct.insert(element);
  }
  if (distinct.size() < 3 || bytes.size() < 8) bytes.clear();
  return bytes;
}

// How many of kLevels equal steps between the smallest and the largest value occur.
std::size_t levels_of(std::span<const double> values) {
  const auto [low, high] = std::ranges::minmax(values);
  if (!(high > low)) return 1;
  std::set<int> levels;
  for (const double value : values)
    levels.insert(static_cast<int>(kLevels * (value - low) / (high - low)));
  return levels.size();
}

// The stretch of at most kWide values with the largest difference between two of them; empty if
// all have few levels, such as zeros with a number here and there: bytes like those are everywhere.
std::vector<double> wide_window_of(std::span<const double> row) {
  const std::size_t length = std::min(row.size(), kWide);
  std::span<const double> best;
  double best_range = 0;
  for (std::size_t begin = 0; begin + length <= std::min(row.size(), std::size_t{4096});
       begin += length / 2 + 1) {
    const auto values = row.subspan(begin, length);
    const auto [low, high] = std::ranges::minmax(values);
    if (high - low <= best_range || levels_of(values) < kFewestLevels) continue;
    best_range = high - low;
    best = values;
  }
  return {best.begin(), best.end()};
}

std::string base64(std::span<const std::byte> bytes, std::string_view last_two) {
  const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + std::string(last_two);
  std::string text;
  for (std::size_t i = 0; i + 3 <= bytes.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | std::to_integer<unsigned>(bytes[i + k]);
    for (unsigned shift = 24; shift > 0; shift -= 6) text += digits[bits >> (shift - 6) & 63U];
  }
  return text;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// The first five digits of a number as it is written out, cut and not rounded: "-0.12345".
std::string digits_of(double value) {
  const std::string all = fmt::format("{:.17f}", std::abs(value));
  std::string text = value < 0 ? "-" : "";
  int digits = 0;
  for (const char c : all) {
    text.push_back(c);
    if (c != '.' && (digits > 0 || c != '0') && ++digits == 5) break;
  }
  return text;
}

// Whether the decimal numbers of `text` begin with these, to the digits that are written.
bool reads_as(std::string_view text, std::span<const double> wanted) {
  std::string number;
  std::size_t at = 0;
  for (const double value : wanted) {
    std::size_t gap = 0;  // commas, blanks, brackets
    while (at < text.size() && std::string_view("+-.0123456789").find(text[at]) == text.npos &&
           ++gap <= 16)
      ++at;
    const std::size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
    number.assign(text.substr(at, std::min<std::size_t>(end - at, 40)));
    char* parsed = nullptr;
    const double found = std::strtod(number.c_str(), &parsed);
    if (parsed == number.c_str() || std::abs(found - value) > 1e-4 * std::abs(value) + 1e-7)
      return false;
    at = end;
  }
  return true;
}

// Few keys are looked for in blocks, which compilers turn into vector code; many in a table.
constexpr std::size_t kFewKeys = 24;
constexpr std::size_t kBlock = 256;

std::uint16_t key_at(const std::byte* at) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(at[0]) |
                                    (std::to_integer<unsigned>(at[1]) << 8));
}

// Where two bytes stand inside an element, not both zero: low ones of a mantissa vary most.
std::size_t probe_of(std::span<const std::byte> window, std::size_t size) {
  const std::size_t elements = window.size() / size;
  for (std::size_t i = 0; i < elements * (size / 2); ++i) {
    const std::size_t place = (i % elements) * size + 2 * (i / elements);
    if (key_at(window.data() + place) != 0) return place;
  }
  return 0;
}

// 16-bit floats as typed data of ONNX has them: numbers of seven bits to the byte, with a field's
// tag between them if not packed. And where to look first, inside of a value, so that it is the
// same two bytes for both. Nothing if every value has one byte only: denormal numbers.
std::pair<std::vector<std::byte>, std::size_t> as_varints(std::span<const std::byte> window,
                                                          bool packed) {
  constexpr std::byte kTag{0x28};  // int32_data, one number
  std::vector<std::byte> bytes;
  std::size_t probe = 0;
  bool found = false;
  for (std::size_t at = 0; at < window.size(); at += 2) {
    unsigned value = key_at(window.data() + at);
    if (!found) probe = bytes.size();
    found = found || value >= 0x80;
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 0x80));
    bytes.push_back(static_cast<std::byte>(value));
    if (!packed && at + 2 < window.size()) bytes.push_back(kTag);
  }
  if (!found) bytes.clear();
  return {std::move(bytes), probe};
}

// The smallest difference from two bytes at any place of a block: zero where they stand. Not
// inlined: g++ 12 then makes vector code of it, 30 times as fast as what it makes of two nested
// loops.
[[gnu::noinline]] std::uint8_t least_difference(const std::byte* first, const std::byte* second,
                                                std::uint16_t key) {
  const auto low = static_cast<std::byte>(key & 0xff), high = static_cast<std::byte>(key >> 8);
  std::uint8_t least = 255;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::byte differs = (first[i] ^ low) | (second[i] ^ high);
    least = std::min(least, static_cast<std::uint8_t>(differs));
  }
  return least;
}

// Where any of the keys stands among the first kBlock places, ascending; there are kBlock + 1
// bytes.
void find_in_block(const std::byte* block, std::span<const std::uint16_t> keys,
                   std::vector<std::size_t>& places) {
  places.clear();
  for (const std::uint16_t key : keys)
    if (least_difference(block, block + 1, key) == 0)
      for (std::size_t i = 0; i < kBlock; ++i)
        if (key_at(block + i) == key) places.push_back(i);
  std::ranges::sort(places);
}

}  // namespace

std::string describe(const RowResidue& residue) {
  using enum RowResidue::Form;
  const std::string_view form = residue.form == negated     ? ", negated"
                                : residue.form == base64    ? ", in base64"
                                : residue.form == decimal   ? ", in decimal"
                                : residue.form == quantised ? ", rounded to 8 bits"
                                                            : "";
  const std::string_view type =
      residue.form == quantised ? "whole numbers" : name_of(residue.dtype);
  return fmt::format("{}{}{}", type, residue.column ? ", as a column" : "", form);
}

RowScan::RowScan(const HeadView& old_head, std::span<const std::size_t> forget)
    : classes_(old_head.classes()) {
  for (const std::size_t class_index : forget) {
    const std::vector<double> values = row_of(old_head, class_index);
    Row row{class_index, window_of(values), wide_window_of(values)};
    const std::size_t before = patterns_.size();
    for (const DType dtype : kFloatTypes) {
      if (row.window.empty()) break;
      add_floats(row, dtype, classes_);
      if (dtype == DType::f32 || dtype == old_head.weights.dtype) add_base64(row, dtype);
    }
    if (patterns_.size() == before) {
      unrecognisable_.push_back(class_index);
      continue;
    }
    rows_.push_back(std::move(row));
    add_anchors(rows_.size() - 1);
  }
  std::ranges::sort(by_key_);
  for (const auto& [key, pattern] : by_key_)
    if (keys_.empty() || keys_.back() != key) keys_.push_back(key);
}

void RowScan::add_floats(const Row& row, DType dtype, std::size_t classes) {
  using enum RowResidue::Form;
  const std::size_t size = size_of(dtype);
  for (const RowResidue::Form form : {plain, negated}) {
    const std::vector<std::byte> window = encoded(row.window, dtype, form == plain ? 1 : -1);
    if (window.empty()) continue;
    // Typed data that is not packed has a byte before every value, its field's tag.
    const std::size_t tag = size >= 4 ? 1 : 0;
    for (const bool column : {false, true})
      for (std::size_t apart = size; apart <= size + tag; ++apart)
        add({{row.class_index, 0, dtype, column, form},
             window,
             size,
             column ? apart * classes : apart,
             probe_of(window, size)});
    if (size != 2) continue;
    for (const bool packed : {true, false})
      if (auto [bytes, probe] = as_varints(window, packed); !bytes.empty())
        add({{row.class_index, 0, dtype, false, form}, bytes, bytes.size(), bytes.size(), probe});
  }
}

void RowScan::add_base64(const Row& row, DType dtype) {
  const std::vector<std::byte> window = encoded(row.window, dtype, 1);
  for (std::size_t skip = 0; skip < 3 && window.size() > 3; ++skip) {
    const std::string usual = base64(std::span(window).subspan(skip), "+/");
    const std::string in_urls = base64(std::span(window).subspan(skip), "-_");
    for (const std::string& text : {usual, in_urls}) {
      if (text.size() < 12 || (&text != &usual && in_urls == usual)) continue;
      add({{row.class_index, 0, dtype, false, RowResidue::Form::base64},
           bytes_of(text),
           text.size(),
           text.size(),
           0});
    }
  }
}

void RowScan::add_anchors(std::size_t index) {
  using enum RowResidue::Form;
  const Row& row = rows_[index];
  for (const DType dtype : {DType::f32, DType::f64})
    for (const RowResidue::Form form : {plain, negated}) {
      std::vector<std::byte> first = encoded(row.window, dtype, form == plain ? 1 : -1);
      if (first.empty()) continue;
      first.resize(size_of(dtype));
      const std::size_t probe = probe_of(first, first.size());
      add({{row.class_index, 0, dtype, true, form},
           first,
           first.size(),
           first.size(),
           probe,
           Pattern::Rest::columns,
           index});
    }
  const double value = row.window.front();
  if (row.window.size() < 6 || std::abs(value) < 1e-3 || std::abs(value) >= 1e4) return;
  const std::string text = digits_of(value);
  add({{row.class_index, 0, DType::f64, false, decimal},
       bytes_of(text),
       text.size(),
       text.size(),
       text.size() - 2,
       Pattern::Rest::decimals,
       index});
}

void RowScan::add(Pattern pattern) {
  by_key_.emplace_back(key_at(pattern.elements.data() + pattern.probe),
                       static_cast<std::uint32_t>(patterns_.size()));
  patterns_.push_back(std::move(pattern));
}

bool RowScan::looks_for_8_bits(std::uint64_t bytes) const {
  return bytes <= kSlowSearch / std::max<std::size_t>(1, rows_.size());
}

bool RowScan::rest_follows(const Pattern& pattern, std::span<const std::byte> bytes,
                           std::size_t at) const {
  const Row& row = rows_[pattern.row];
  if (pattern.rest == Pattern::Rest::decimals)
    return reads_as(as_text(bytes.subspan(at, std::min<std::size_t>(bytes.size() - at, 1024))),
                    std::span(row.window).first(6));
  const double sign = pattern.what.form == RowResidue::Form::negated ? -1 : 1;
  const std::vector<std::byte> all = encoded(row.window, pattern.what.dtype, sign);
  const std::size_t size = pattern.size, count = all.size() / size;
  const auto is_there = [&](std::size_t element, std::size_t place) {
    return place + size <= bytes.size() &&
           std::memcmp(bytes.data() + place, all.data() + element * size, size) == 0;
  };
  for (std::size_t apart = 2 * size; apart <= kWidestColumns; apart += size) {
    if (apart == classes_ * size || !is_there(1, at + apart)) continue;  // looked for as a whole
    std::size_t same = 2;
    while (same < count && is_there(same, at + same * apart)) ++same;
    if (same == count) return true;
  }
  return false;
}

std::vector<RowResidue> RowScan::scan(std::span<const std::byte> bytes, std::size_t limit) const {
  std::vector<RowResidue> found = scan_patterns(bytes, limit);
  if (looks_for_8_bits(bytes.size())) scan_quantised(bytes, limit, found);
  return found;
}

std::vector<RowResidue> RowScan::scan_patterns(std::span<const std::byte> bytes,
                                               std::size_t limit) const {
  std::vector<RowResidue> found;
  std::size_t anchors = 0;
  std::vector<std::uint8_t> wanted;  // one look-up per position
  const bool by_blocks = keys_.size() <= kFewKeys;
  if (!by_blocks) {
    wanted.resize(65536);
    for (const std::uint16_t key : keys_) wanted[key] = 1;
  }
  const std::byte* const data = bytes.data();
  const auto look_at = [&](std::size_t at) {
    const std::uint16_t key = key_at(data + at);
    for (auto entry = std::ranges::lower_bound(by_key_, std::pair{key, std::uint32_t{0}});
         entry != by_key_.end() && entry->first == key; ++entry) {
      const Pattern& pattern = patterns_[entry->second];
      const std::size_t element = pattern.probe / pattern.size;
      const std::size_t before = element * pattern.stride + pattern.probe % pattern.size;
      const std::size_t count = pattern.elements.size() / pattern.size;
      if (at < before || bytes.size() - (at - before) < (count - 1) * pattern.stride + pattern.size)
        continue;
      const std::byte* const begin = data + (at - before);
      bool same = true;
      for (std::size_t i = 0; i < count && same; ++i) {
        same = std::memcmp(begin + i * pattern.stride, pattern.elements.data() + i * pattern.size,
                           pattern.size) == 0;
      }
      if (!same) continue;
      if (pattern.rest != Pattern::Rest::none &&
          (++anchors > kMostAnchors || !rest_follows(pattern, bytes, at - before)))
        continue;
      found.push_back(pattern.what);
      found.back().offset = at - before;
    }
  };
  std::size_t at = 0;
  if (by_blocks) {
    std::vector<std::size_t> places;
    for (; bytes.size() - at > kBlock && found.size() < limit; at += kBlock) {
      find_in_block(data + at, keys_, places);
      for (const std::size_t place : places)
        if (found.size() < limit) look_at(at + place);
    }
  }
  for (; at + 1 < bytes.size() && found.size() < limit; ++at) {
    const std::uint16_t key = key_at(data + at);
    if (by_blocks ? std::ranges::find(keys_, key) != keys_.end() : wanted[key] != 0) look_at(at);
  }
  return found;
}

std::vector<RowResidue> RowScan::scan_file(const std::filesystem::path& path,
                                           std::size_t limit) const {
  std::size_t longest = kWindow * kWidestColumns;  // a column of unknown distance
  for (const Pattern& pattern : patterns_) {
    const std::size_t count = pattern.elements.size() / pattern.size;
    longest = std::max(longest, (count - 1) * pattern.stride + pattern.size);
  }
  const bool small = looks_for_8_bits(std::filesystem::file_size(path));
  std::vector<RowResidue> found;
  for_each_chunk(path, longest - 1, [&](std::uint64_t begin, std::span<const std::byte> bytes) {
    for (RowResidue row : small ? scan(bytes, limit) : scan_patterns(bytes, limit)) {
      row.offset += begin;
      if (found.empty() || found.back().offset < row.offset) found.push_back(row);
    }
    return found.size() < limit;
  });
  return found;
}

}  // namespace oubli
