#include "oubli/model/residue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fstream>
#include <set>

namespace oubli {

namespace {

// So many consecutive values of a row identify it, unless they are all alike.
constexpr std::size_t kWindow = 12;
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

// The most varied stretch of the row, as bytes of `dtype`; empty if there is none worth searching.
std::vector<std::byte> window_of(std::span<const double> row, DType dtype) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(row.size() * size);
  encode(dtype, row, bytes);
  const std::size_t length = std::min(row.size(), kWindow);
  std::size_t best = 0;
  std::size_t best_count = 0;
  const std::size_t last = std::min(row.size() - length, std::size_t{256});
  for (std::size_t begin = 0; begin <= last; ++begin) {
    std::set<std::string_view> distinct;
    for (std::size_t i = 0; i < length; ++i) {
      const auto* at = reinterpret_cast<const char*>(bytes.data() + (begin + i) * size);
      const std::string_view element(at, size);
      if (element.find_first_not_of('\0') != std::string_view::npos) distinct.insert(element);
    }
    if (distinct.size() > best_count) {
      best_count = distinct.size();
      best = begin;
    }
    if (best_count == length) break;
  }
  if (best_count < 3 || length * size < 8) return {};
  const auto* begin = bytes.data() + best * size;
  return {begin, begin + length * size};
}

std::uint16_t key_at(const std::byte* at) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(at[0]) |
                                    (std::to_integer<unsigned>(at[1]) << 8));
}

}  // namespace

RowScan::RowScan(const HeadView& old_head, std::span<const std::size_t> forget)
    : by_key_(65536), wanted_(65536) {
  for (const std::size_t row : forget) {
    const std::vector<double> values = row_of(old_head, row);
    bool any = false;
    for (const DType dtype : kFloatTypes) {
      const std::vector<std::byte> window = window_of(values, dtype);
      if (window.empty()) continue;
      any = true;
      const std::size_t size = size_of(dtype);
      for (const bool column : {false, true}) {
        Pattern pattern{
            {row, 0, dtype, column}, window, size, column ? size * old_head.classes() : size};
        // Two bytes inside an element, not both zero: low ones of a mantissa vary most.
        const std::size_t elements = window.size() / size;
        for (std::size_t i = 0; i < elements * (size / 2); ++i) {
          const std::size_t place = (i % elements) * size + 2 * (i / elements);
          if (key_at(window.data() + place) == 0) continue;
          pattern.probe = place;
          break;
        }
        const std::uint16_t key = key_at(window.data() + pattern.probe);
        wanted_[key] = true;
        by_key_[key].push_back(static_cast<std::uint32_t>(patterns_.size()));
        patterns_.push_back(std::move(pattern));
      }
    }
    if (!any) unrecognisable_.push_back(row);
  }
}

std::vector<RowResidue> RowScan::scan(std::span<const std::byte> bytes, std::size_t limit) const {
  std::vector<RowResidue> found;
  // wanted_ unpacked to bytes: one look-up per position.
  std::vector<std::uint8_t> wanted(wanted_.begin(), wanted_.end());
  const std::byte* const data = bytes.data();
  for (std::size_t at = 0; at + 1 < bytes.size() && found.size() < limit; ++at) {
    if (wanted[key_at(data + at)] == 0) continue;
    for (const std::uint32_t number : by_key_[key_at(data + at)]) {
      const Pattern& pattern = patterns_[number];
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
      found.push_back(pattern.what);
      found.back().offset = at - before;
    }
  }
  return found;
}

std::vector<RowResidue> RowScan::scan_file(const std::filesystem::path& path,
                                           std::size_t limit) const {
  std::size_t longest = 1;
  for (const Pattern& pattern : patterns_) {
    const std::size_t count = pattern.elements.size() / pattern.size;
    longest = std::max(longest, (count - 1) * pattern.stride + pattern.size);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::io, "{}: cannot be opened", path.string());
  std::vector<RowResidue> found;
  std::vector<char> buffer(std::max(std::size_t{4} << 20, 2 * longest));
  std::size_t kept = 0;  // bytes of the piece before, for patterns across the border
  std::uint64_t begin = 0;
  while (file && found.size() < limit) {
    file.read(buffer.data() + kept, static_cast<std::streamsize>(buffer.size() - kept));
    const std::size_t size = kept + static_cast<std::size_t>(file.gcount());
    for (RowResidue row : scan(std::as_bytes(std::span(buffer).first(size)), limit)) {
      row.offset += begin;
      if (found.empty() || found.back().offset != row.offset) found.push_back(row);
    }
    kept = std::min(size, longest - 1);
    std::memmove(buffer.data(), buffer.data() + size - kept, kept);
    begin += size - kept;
  }
  if (file.bad()) fail(ErrorCode::io, "{}: cannot be read", path.string());
  return found;
}

bool mentions_name(std::string_view text, std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.empty() || std::ranges::all_of(name, is_digit)) return false;
  if (name.size() < 3) return text == name;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const bool begins = at == 0 || !is_word(text[at - 1]);
    const std::size_t end = at + name.size();
    const bool ends = end == text.size() || !is_word(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace oubli
