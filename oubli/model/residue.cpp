#include "oubli/model/residue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <set>

#include "oubli/base/file_windows.h"
#include "oubli/model/name_text.h"

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
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(best * size), length * size,
              bytes.begin());
  bytes.resize(length * size);
  return bytes;
}

// Few keys are looked for in blocks, which compilers turn into vector code; many in a table.
constexpr std::size_t kFewKeys = 16;
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

RowScan::RowScan(const HeadView& old_head, std::span<const std::size_t> forget) {
  for (const std::size_t row : forget) {
    const std::vector<double> values = row_of(old_head, row);
    bool any = false;
    for (const DType dtype : kFloatTypes) {
      const std::vector<std::byte> window = window_of(values, dtype);
      if (window.empty()) continue;
      any = true;
      const std::size_t size = size_of(dtype);
      // Typed data that is not packed has a byte before every value, its field's tag.
      const std::size_t tag = size >= 4 ? 1 : 0;
      for (const bool column : {false, true})
        for (std::size_t apart = size; apart <= size + tag; ++apart)
          add({{row, 0, dtype, column},
               window,
               size,
               column ? apart * old_head.classes() : apart,
               probe_of(window, size)});
      if (size == 2) {
        for (const bool packed : {true, false})
          if (auto [bytes, probe] = as_varints(window, packed); !bytes.empty())
            add({{row, 0, dtype, false}, bytes, bytes.size(), bytes.size(), probe});
      }
    }
    if (!any) unrecognisable_.push_back(row);
  }
  std::ranges::sort(by_key_);
  for (const auto& [key, pattern] : by_key_)
    if (keys_.empty() || keys_.back() != key) keys_.push_back(key);
}

void RowScan::add(Pattern pattern) {
  by_key_.emplace_back(key_at(pattern.elements.data() + pattern.probe),
                       static_cast<std::uint32_t>(patterns_.size()));
  patterns_.push_back(std::move(pattern));
}

std::vector<RowResidue> RowScan::scan(std::span<const std::byte> bytes, std::size_t limit) const {
  std::vector<RowResidue> found;
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
  std::size_t longest = 1;
  for (const Pattern& pattern : patterns_) {
    const std::size_t count = pattern.elements.size() / pattern.size;
    longest = std::max(longest, (count - 1) * pattern.stride + pattern.size);
  }
  std::vector<RowResidue> found;
  for_each_window(path, longest - 1, [&](std::uint64_t begin, std::span<const std::byte> bytes) {
    for (RowResidue row : scan(bytes, limit)) {
      row.offset += begin;
      if (found.empty() || found.back().offset < row.offset) found.push_back(row);
    }
    return found.size() < limit;
  });
  return found;
}

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

// The next place of `name` as a word of its own; both in small letters.
std::size_t find_word(std::string_view text, std::string_view name, std::size_t from) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  for (std::size_t at = text.find(name, from); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return at;
  }
  return std::string_view::npos;
}

bool is_searchable(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && !std::ranges::all_of(name, is_digit);
}

}  // namespace

bool mentions_name(std::string_view text, std::string_view name) {
  if (!is_searchable(name)) return false;
  if (name.size() < 3) return text == name;
  const std::string word = lowered(name);
  std::string there(text);
  // As it stands, then as text inside of a literal, and inside of a literal inside of another.
  for (int depth = 0; depth <= 2; ++depth) {
    if (find_word(lowered(there), word, 0) != std::string_view::npos) return true;
    if (there.find('\\') == std::string::npos) return false;
    there = unescaped(there);
  }
  return false;
}

std::string without_name(std::string_view text, std::string_view name) {
  if (!is_searchable(name)) return std::string(text);
  const std::string word = lowered(name), where = lowered(text);
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = where.find(word); at != std::string::npos; at = where.find(word, done)) {
    out += text.substr(done, at - done);
    out += "...";
    done = at + word.size();
  }
  out += text.substr(done);
  return mentions_name(out, name) ? "..." : out;
}

}  // namespace oubli
