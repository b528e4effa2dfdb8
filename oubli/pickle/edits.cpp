#include "oubli/pickle/edits.h"

#include <algorithm>
#include <set>
#include <utility>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/pickle/opcodes.h"

namespace oubli::pickle {
namespace {

template <typename T>
void append_le(std::vector<std::byte>& out, T value, std::size_t bytes = sizeof(T)) {
  for (std::size_t i = 0; i < bytes; ++i)
    out.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
}

std::vector<std::byte> operation(std::uint8_t code) { return {static_cast<std::byte>(code)}; }

// The shortest spelling, as Python chooses it.
std::vector<std::byte> spell_integer(std::int64_t value) {
  if (value >= 0 && value <= 0xFF) {
    auto out = operation(op::kBinInt1);
    append_le(out, value, 1);
    return out;
  }
  if (value >= 0 && value <= 0xFFFF) {
    auto out = operation(op::kBinInt2);
    append_le(out, value, 2);
    return out;
  }
  if (value == static_cast<std::int32_t>(value)) {
    auto out = operation(op::kBinInt);
    append_le(out, value, 4);
    return out;
  }
  std::size_t bytes = 8;
  while (bytes > 1 && (value >> (8 * (bytes - 1) - 1) == 0 || value >> (8 * (bytes - 1) - 1) == -1))
    --bytes;
  auto out = operation(op::kLong1);
  append_le(out, bytes, 1);
  append_le(out, value, bytes);
  return out;
}

// Operation, length and content; `short_code` for up to 255 bytes, 0 if there is none.
std::vector<std::byte> spell_payload(std::uint8_t short_code, std::uint8_t code,
                                     std::uint8_t wide_code, std::span<const std::byte> content) {
  std::vector<std::byte> out;
  const std::uint64_t length = content.size();
  if (short_code != 0 && length <= 0xFF) {
    out = operation(short_code);
    append_le(out, length, 1);
  } else if (code != 0 && length <= 0xFFFF'FFFF) {
    out = operation(code);
    append_le(out, length, 4);
  } else {
    out = operation(wide_code);
    append_le(out, length, 8);
  }
  out.insert(out.end(), content.begin(), content.end());
  return out;
}

}  // namespace

void Edits::add(const Extent& extent, std::vector<std::byte> content) {
  const auto next = patches_.lower_bound(extent.begin);
  const bool after = next == patches_.end() || extent.end <= next->first;
  const bool before = next == patches_.begin() || std::prev(next)->second.end <= extent.begin;
  if (!after || !before)
    fail(ErrorCode::unfilterable, "{}: two changes meet at byte {}", pickle_.what(), extent.begin);
  patches_[extent.begin] = {extent.end, std::move(content), 0};
}

void Edits::replace(Ref value, std::vector<std::byte> content) {
  const Extent where = pickle_.operation(value);
  if (pickle_.shared(value))
    fail(ErrorCode::unfilterable,
         "{}: the value at byte {} is used in two places, which no program that saves models does",
         pickle_.what(), where.begin);
  add(where, std::move(content));
}

void Edits::set_integer(Ref integer, std::int64_t value) { replace(integer, spell_integer(value)); }

void Edits::set_bytes(Ref bytes, std::span<const std::byte> content) {
  const auto code = static_cast<std::uint8_t>(pickle_.source()[pickle_.operation(bytes).begin]);
  if (code == op::kByteArray8)
    replace(bytes, spell_payload(0, 0, op::kByteArray8, content));
  else
    replace(bytes, spell_payload(op::kShortBinBytes, op::kBinBytes, op::kBinBytes8, content));
}

void Edits::set_text(Ref text, std::string_view content) {
  const auto code = static_cast<std::uint8_t>(pickle_.source()[pickle_.operation(text).begin]);
  const bool old = code == op::kShortBinString || code == op::kBinString;
  const std::uint8_t short_code = old                      ? op::kShortBinString
                                  : pickle_.protocol() < 4 ? 0
                                                           : op::kShortBinUnicode;
  replace(text, spell_payload(short_code, old ? op::kBinString : op::kBinUnicode, op::kBinUnicode8,
                              as_bytes(content)));
}

void Edits::set_stream_data(Ref object, std::vector<std::byte> content) {
  const Pickle::StreamData* const data = pickle_.stream_data(object);
  OUBLI_ASSERT(data != nullptr);
  add(data->data, std::move(content));
}

bool Edits::crosses_a_frame(const Extent& extent) const {
  const auto frames = pickle_.frames();
  // A frame's length is before its content; that, too, must not be inside.
  const auto next = std::ranges::lower_bound(frames, extent.begin, {}, &Extent::begin);
  if (next != frames.end() && next->begin < extent.end + 9) return next->begin - 9 < extent.end;
  return next != frames.begin() && std::prev(next)->end > extent.begin &&
         std::prev(next)->end < extent.end;
}

bool Edits::needed_elsewhere(std::span<const Extent> ascending) const {
  const auto inside = [&](std::uint64_t at) {
    const auto next = std::ranges::upper_bound(ascending, at, {}, &Extent::begin);
    return next != ascending.begin() && at < std::prev(next)->end;
  };
  std::set<std::pair<std::size_t, std::uint64_t>> gone;
  for (const Pickle::MemoUse& use : pickle_.memo_uses())
    if (use.put && inside(use.at)) gone.emplace(use.scope, use.slot);
  return !gone.empty() && std::ranges::any_of(pickle_.memo_uses(), [&](const Pickle::MemoUse& use) {
    return !use.put && !inside(use.at) && gone.contains({use.scope, use.slot});
  });
}

bool Edits::remove(std::span<const Extent> extents) {
  std::vector<Extent> ascending(extents.begin(), extents.end());
  std::ranges::sort(ascending, {}, &Extent::begin);
  if (std::ranges::any_of(ascending, [&](const Extent& e) { return crosses_a_frame(e); }) ||
      needed_elsewhere(ascending))
    return false;
  const auto uses = pickle_.memo_uses();
  for (const Extent& extent : ascending) {
    // Later values are numbered by how many were put away before them: an empty text takes the
    // place of each that goes.
    std::vector<std::byte> content;
    for (auto use = std::ranges::lower_bound(uses, extent.begin, {}, &Pickle::MemoUse::at);
         use != uses.end() && use->at < extent.end; ++use)
      if (use->put && use->numbered)
        for (const std::uint8_t code : {std::uint8_t{op::kShortBinUnicode}, std::uint8_t{0},
                                        std::uint8_t{op::kMemoize}, std::uint8_t{op::kPop}})
          content.push_back(static_cast<std::byte>(code));
    add(extent, std::move(content));
  }
  return true;
}

std::map<std::uint64_t, Edits::Patch> Edits::all_patches() const {
  std::map<std::uint64_t, Patch> all = patches_;
  for (const Extent& frame : pickle_.frames()) {
    std::int64_t growth = 0;
    for (auto patch = patches_.lower_bound(frame.begin);
         patch != patches_.end() && patch->first < frame.end; ++patch)
      growth += static_cast<std::int64_t>(patch->second.content.size()) -
                static_cast<std::int64_t>(patch->second.end - patch->first);
    if (growth == 0) continue;
    Patch length{frame.begin, {}, 0};
    append_le(length.content, static_cast<std::uint64_t>(
                                  static_cast<std::int64_t>(frame.end - frame.begin) + growth));
    all[frame.begin - 8] = std::move(length);
  }
  return all;
}

void Edits::write(const Sink& sink, std::uint64_t position) const {
  std::map<std::uint64_t, Patch> all = all_patches();
  if (!patches_.empty()) {
    // Filled in when it is known where the data goes.
    for (const Pickle::StreamData& data : pickle_.stream_data())
      if (data.alignment != 0) all[data.padding_at] = {data.data.begin, {}, data.alignment};
  }
  const auto put = [&](std::span<const std::byte> piece) {
    if (!piece.empty()) sink(piece);
    position += piece.size();
  };
  std::uint64_t at = pickle_.begin();
  for (auto& [begin, patch] : all) {
    put(pickle_.source().subspan(at, begin - at));
    if (patch.alignment != 0) {
      const std::uint64_t padding = patch.alignment - (position + 1) % patch.alignment;
      patch.content.assign(1, static_cast<std::byte>(padding));
      patch.content.resize(1 + padding, std::byte{0xFF});
    }
    put(patch.content);
    at = patch.end;
  }
  put(pickle_.source().subspan(at, pickle_.end() - at));
}

std::vector<std::byte> Edits::encode() const {
  std::vector<std::byte> out;
  write(
      [&](std::span<const std::byte> piece) { out.insert(out.end(), piece.begin(), piece.end()); });
  return out;
}

}  // namespace oubli::pickle
