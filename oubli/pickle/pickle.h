#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// A lossless view of Python pickles, protocols 2 to 5: what a pickle builds, with the place of
// every value in its bytes. The operations are run symbolically. Nothing is imported and nothing is
// ever called: what a pickle would call becomes an object that remembers by whose name and with
// what it was to be made, and called_names() lists those names.
//
// What is trusted: nothing. There is no recursion; time and memory are linear in the bytes,
// whatever lengths they claim and however often values refer to each other.
namespace oubli::pickle {

// Where a value stands among the values of its pickle.
using Ref = std::uint32_t;
inline constexpr Ref kNothing = 0xFFFF'FFFF;

enum class Kind : std::uint8_t {
  none,
  boolean,
  integer,
  long_integer,  // of more than 64 bits
  real,
  text,
  bytes,
  tuple,
  list,
  dict,
  set,
  global,      // a name that Python would import
  persistent,  // something outside of the pickle: its arguments are what names it
  object,      // what a call would have made: its arguments are what is called, and with what
};

// What a value is to the one that holds it.
enum class Part : std::uint8_t { arguments, items, pairs, state };

// Bytes of the pickle, from `begin` to before `end`.
struct Extent {
  std::uint64_t begin = 0, end = 0;
};

// An item, or a key and its value, and the operations that make it and nothing else.
struct Item {
  Ref value = kNothing;
  Extent extent;
  bool alone = false;  // `extent` includes the operation that adds it
};
struct Pair {
  Ref key = kNothing, value = kNothing;
  Extent extent;
  bool alone = false;
};

// Something in the stream that is no pickle operation, as joblib puts arrays behind the objects
// that describe them: `bytes` of data that are to begin at a multiple of `alignment` behind a byte
// n and n bytes of padding, unless that is 0. Or a whole pickle.
struct Follows {
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 0;
  bool pickle = false;
};

class Pickle {
 public:
  // Whether anything follows in the stream when an object's state was set; called with the pickle
  // as far as it was read.
  using StreamRule = std::function<std::optional<Follows>(const Pickle&, Ref object)>;

  // The pickle that begins at bytes[begin], where it is damaged Error{bad_input}. The bytes must
  // outlive it; positions count from their beginning.
  Pickle(std::span<const std::byte> bytes, std::string what, std::uint64_t begin = 0,
         const StreamRule& rule = {});

  [[nodiscard]] Ref root() const { return root_; }
  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  // One past its last operation.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  [[nodiscard]] int protocol() const { return protocol_; }
  [[nodiscard]] const std::string& what() const { return what_; }
  [[nodiscard]] std::span<const std::byte> source() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

  [[nodiscard]] Kind kind(Ref ref) const { return values_[ref].kind; }
  [[nodiscard]] bool is(Ref ref, Kind kind) const {
    return ref != kNothing && values_[ref].kind == kind;
  }
  [[nodiscard]] bool is_text(Ref ref, std::string_view text) const {
    return is(ref, Kind::text) && this->text(ref) == text;
  }
  // Of an integer or boolean.
  [[nodiscard]] std::int64_t integer(Ref ref) const {
    return static_cast<std::int64_t>(values_[ref].first);
  }
  [[nodiscard]] double real(Ref ref) const;
  // Of a text (UTF-8) or bytes: where it stands, and what it is.
  [[nodiscard]] Extent payload(Ref ref) const;
  [[nodiscard]] std::string_view text(Ref ref) const;
  // "torch.FloatStorage"; empty for what is no global.
  [[nodiscard]] std::string global_name(Ref ref) const;
  // The operation that makes a value with all that belongs to it, if it is one operation.
  [[nodiscard]] Extent operation(Ref ref) const;
  // Fetched from the memo or duplicated: it may have a second owner.
  [[nodiscard]] bool shared(Ref ref) const { return values_[ref].shared; }

  [[nodiscard]] std::vector<Ref> children(Ref ref, Part part) const;
  // One of them, and whether there are no more than that many: for values that many others may
  // share, so that the work for each of these does not depend on their size.
  [[nodiscard]] Ref child(Ref ref, Part part, std::size_t n) const;
  [[nodiscard]] bool has_at_most(Ref ref, Part part, std::size_t n) const;
  // Of a list, a set, or an object that was extended.
  [[nodiscard]] std::vector<Item> items(Ref ref) const;
  // Of a dictionary, or of an object that was filled like one.
  [[nodiscard]] std::vector<Pair> pairs(Ref ref) const;
  // The value of a key that is a text; the last one counts, as in Python.
  [[nodiscard]] Ref find(Ref dict, std::string_view key) const;

  // Of an object: what would be called, and the n-th argument of that call.
  [[nodiscard]] std::string callee(Ref object) const;
  [[nodiscard]] Ref argument(Ref object, std::size_t n) const;
  // The state that an object was given last; an attribute of that name in it.
  [[nodiscard]] Ref state(Ref object) const;
  [[nodiscard]] Ref attribute(Ref object, std::string_view name) const;

  // Every value that `from` leads to, each once, in the order of the pickle's nesting.
  [[nodiscard]] std::vector<Ref> reachable(Ref from) const;
  // What loading the pickle would call or set up, by name, each once.
  [[nodiscard]] std::vector<std::string> called_names() const;

  struct MemoUse {
    std::uint64_t at = 0;    // the position of the operation
    std::uint64_t slot = 0;  // in the memo
    std::size_t scope = 0;   // 0, or which of the pickles inside this one it belongs to
    bool put = false;
    bool numbered = false;  // its place in the memo is the number of puts before it (MEMOIZE)
  };
  [[nodiscard]] std::span<const MemoUse> memo_uses() const { return memo_uses_; }
  // FRAME operations, and what each says it holds.
  [[nodiscard]] std::span<const Extent> frames() const { return frames_; }
  struct StreamData {
    Ref object = kNothing;
    std::uint64_t padding_at = 0;  // the byte that counts the padding, if there is an alignment
    std::uint32_t alignment = 0;
    Extent data;
    Ref nested = kNothing;  // what a whole pickle there builds
  };
  [[nodiscard]] std::span<const StreamData> stream_data() const { return stream_data_; }
  // That of `object`, or nullptr.
  [[nodiscard]] const StreamData* stream_data(Ref object) const;

 private:
  friend class Machine;
  static constexpr std::uint32_t kNoBatch = 0xFFFF'FFFF;

  struct Value {
    Kind kind = Kind::none;
    bool shared = false;
    std::uint32_t batch = kNoBatch;  // the first of its children
    std::uint64_t begin = 0;         // its operation
    std::uint64_t first = 0;         // number, position of the payload, or last of its batches
    std::uint64_t second = 0;        // end of the payload or operation; of an object: its state
  };
  struct Child {
    Ref value = kNothing;
    std::uint64_t from = 0;  // where the operations that make it begin
  };
  // Children that one operation adds.
  struct Batch {
    std::uint64_t end = 0;  // where the children's operations end
    std::uint32_t first = 0, count = 0, next = kNoBatch;
    Part part = Part::arguments;
    bool alone = false;  // added without a mark: the operation that does it has one byte
  };
  template <typename Visit>
  void for_each_batch(Ref ref, Part part, Visit visit) const;

  std::span<const std::byte> bytes_;
  std::string what_;
  std::uint64_t begin_ = 0, end_ = 0;
  int protocol_ = 0;
  Ref root_ = kNothing;
  std::vector<Value> values_;
  std::vector<Child> children_;
  std::vector<Batch> batches_;
  std::vector<MemoUse> memo_uses_;
  std::vector<Extent> frames_;
  std::vector<StreamData> stream_data_;
};

}  // namespace oubli::pickle
