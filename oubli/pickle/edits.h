#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "oubli/pickle/pickle.h"

namespace oubli::pickle {

using Sink = std::function<void(std::span<const std::byte>)>;

// Changes of a pickle: everything else is written back byte for byte. Lengths of frames and the
// padding before data in the stream follow from the changes.
class Edits {
 public:
  explicit Edits(const Pickle& pickle) : pickle_(pickle) {}

  // As Python would spell it. Error{unfilterable} if the value may have a second owner.
  void set_integer(Ref integer, std::int64_t value);
  void set_bytes(Ref bytes, std::span<const std::byte> content);
  void set_text(Ref text, std::string_view content);
  // The data in the stream behind an object.
  void set_stream_data(Ref object, std::vector<std::byte> content);
  // Takes the operations of items or pairs out, all of them or none: false if something else in the
  // pickle needs what they put away in the memo.
  [[nodiscard]] bool remove(std::span<const Extent> extents);

  [[nodiscard]] bool empty() const { return patches_.empty(); }
  // From the first operation to the last, for a stream that is `position` bytes long already.
  void write(const Sink& sink, std::uint64_t position = 0) const;
  [[nodiscard]] std::vector<std::byte> encode() const;

 private:
  struct Patch {
    std::uint64_t end = 0;
    std::vector<std::byte> content;
    std::uint32_t alignment = 0;  // a count of padding bytes and the padding, to this multiple
  };

  void replace(Ref value, std::vector<std::byte> content);
  void add(const Extent& extent, std::vector<std::byte> content);
  [[nodiscard]] bool crosses_a_frame(const Extent& extent) const;
  [[nodiscard]] bool needed_elsewhere(std::span<const Extent> ascending) const;
  // What is changed, and lengths of frames that follow from it.
  [[nodiscard]] std::map<std::uint64_t, Patch> all_patches() const;

  const Pickle& pickle_;
  std::map<std::uint64_t, Patch> patches_;  // by where they begin; apart from each other
};

}  // namespace oubli::pickle
