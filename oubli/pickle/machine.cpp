#include <algorithm>
#include <bit>
#include <utility>

#include "oubli/base/byte_reader.h"
#include "oubli/base/file.h"
#include "oubli/pickle/memo.h"
#include "oubli/pickle/opcodes.h"
#include "oubli/pickle/pickle.h"

namespace oubli::pickle {
namespace {

// Of a module or class; a file may share a long one many times.
constexpr std::size_t kLongestName = 1024;
// Beyond what any model needs; each may take some hundred bytes of memory.
constexpr std::size_t kMostOperations = std::size_t{1} << 24;

}  // namespace

// Runs the operations of one pickle, and of pickles inside its stream.
class Machine {
 public:
  Machine(Pickle& pickle, const Pickle::StreamRule& rule)
      : pickle_(pickle), rule_(rule), reader_(pickle.bytes_, pickle.what_) {
    reader_.skip(std::min<std::uint64_t>(pickle.begin_, pickle.bytes_.size()));
  }

  void run() {
    expect_header();
    while (step()) {
      if (++operations_ > kMostOperations)
        fail(ErrorCode::bad_input, "{}: more than {} operations: no model that is taken here",
             pickle_.what_, kMostOperations);
    }
    pickle_.end_ = reader_.position();
    std::ranges::stable_sort(pickle_.stream_data_, {}, &Pickle::StreamData::object);
  }

 private:
  struct Slot {
    Ref value = kNothing;
    std::uint64_t from = 0;  // where the operations that make it begin
  };
  struct Mark {
    std::size_t height = 0;
    std::uint64_t at = 0;
  };
  struct State {
    std::vector<Slot> stack;
    std::vector<Mark> marks;
    Memo memo;
    std::uint64_t frame_end = 0;
  };

  [[noreturn]] void damaged(std::string_view why) const {
    fail(ErrorCode::bad_input, "{}: damaged pickle at byte {}: {}", pickle_.what_, at_, why);
  }

  void expect_header() {
    at_ = reader_.position();
    if (reader_.remaining() < 2 || load_le<std::uint8_t>(pickle_.bytes_, at_) != op::kProto)
      fail(ErrorCode::bad_input,
           "{}: no pickle of protocol 2 or later at byte {}; save it again with a later protocol",
           pickle_.what_, at_);
  }

  // One operation; false when all is done.
  bool step() {
    at_ = reader_.position();
    op_ = reader_.take_le<std::uint8_t>();
    if (op_ == op::kStop) return stop();
    if (push_simple() || push_text() || stack_and_memo() || collect() || call()) return true;
    if (op_ == op::kNextBuffer || op_ == op::kReadonlyBuffer)
      fail(ErrorCode::bad_input,
           "{}: a part of this pickle is in another place (buffers out of band, protocol 5)",
           pickle_.what_);
    if (op_ >= op::kExt1 && op_ <= op::kExt4)
      fail(ErrorCode::bad_input, "{}: uses Python's registry of extensions (byte {})",
           pickle_.what_, at_);
    damaged(fmt::format("0x{:02x} is no operation of protocols 2 to 5", op_));
  }

  bool stop() {
    if (state_.stack.empty() || !state_.marks.empty()) damaged("STOP without one value");
    const Ref result = state_.stack.back().value;
    if (outer_.empty()) {
      pickle_.root_ = result;
      return false;
    }
    state_ = std::move(outer_.back());
    outer_.pop_back();
    Pickle::StreamData& data = pickle_.stream_data_[nested_in_];
    data.nested = result;
    data.data.end = reader_.position();
    return true;
  }

  // Values.
  Ref make(Kind kind, std::uint64_t first = 0) {
    pickle_.values_.push_back({kind, false, Pickle::kNoBatch, at_, first, reader_.position()});
    return static_cast<Ref>(pickle_.values_.size() - 1);
  }
  void push(Ref value, std::uint64_t from) { state_.stack.push_back({value, from}); }
  bool push_made(Kind kind, std::uint64_t first = 0) {
    push(make(kind, first), at_);
    return true;
  }
  bool push_payload(Kind kind, std::uint64_t length) {
    const std::uint64_t begin = reader_.position();
    if (length > reader_.remaining())
      damaged(fmt::format("{} bytes claimed, {} are left", length, reader_.remaining()));
    reader_.skip(length);
    return push_made(kind, begin);
  }

  bool push_simple() {
    switch (op_) {
      case op::kNone:
        return push_made(Kind::none);
      case op::kNewTrue:
        return push_made(Kind::boolean, 1);
      case op::kNewFalse:
        return push_made(Kind::boolean, 0);
      case op::kBinInt1:
        return push_integer(reader_.take_le<std::uint8_t>());
      case op::kBinInt2:
        return push_integer(reader_.take_le<std::uint16_t>());
      case op::kBinInt:
        return push_integer(static_cast<std::int32_t>(reader_.take_le<std::uint32_t>()));
      case op::kLong1:
        return push_long(reader_.take_le<std::uint8_t>());
      case op::kLong4:
        return push_long(reader_.take_le<std::uint32_t>());
      case op::kBinFloat:
        return push_real();
      case op::kEmptyTuple:
        return push_made(Kind::tuple);
      case op::kEmptyList:
        return push_made(Kind::list);
      case op::kEmptyDict:
        return push_made(Kind::dict);
      case op::kEmptySet:
        return push_made(Kind::set);
      default:
        return false;
    }
  }
  bool push_integer(std::int64_t value) {
    return push_made(Kind::integer, static_cast<std::uint64_t>(value));
  }
  bool push_real() {
    std::uint64_t bits = 0;  // big-endian
    for (const std::byte byte : reader_.take(8)) bits = bits << 8 | static_cast<std::uint8_t>(byte);
    return push_made(Kind::real, bits);
  }
  bool push_long(std::uint64_t length) {
    if (length > 8) return push_payload(Kind::long_integer, length);
    std::uint64_t value = 0;
    std::uint64_t shift = 0;
    bool negative = false;
    for (const std::byte byte : reader_.take(length)) {
      value |= static_cast<std::uint64_t>(byte) << shift;
      negative = (byte & std::byte{0x80}) != std::byte{0};
      shift += 8;
    }
    if (negative && shift < 64) value |= ~std::uint64_t{0} << shift;
    return push_integer(static_cast<std::int64_t>(value));
  }

  bool push_text() {
    switch (op_) {
      case op::kShortBinUnicode:
      case op::kShortBinString:
        return push_payload(Kind::text, reader_.take_le<std::uint8_t>());
      case op::kBinUnicode:
      case op::kBinString:
        return push_payload(Kind::text, reader_.take_le<std::uint32_t>());
      case op::kBinUnicode8:
        return push_payload(Kind::text, reader_.take_le<std::uint64_t>());
      case op::kShortBinBytes:
        return push_payload(Kind::bytes, reader_.take_le<std::uint8_t>());
      case op::kBinBytes:
        return push_payload(Kind::bytes, reader_.take_le<std::uint32_t>());
      case op::kBinBytes8:
      case op::kByteArray8:
        return push_payload(Kind::bytes, reader_.take_le<std::uint64_t>());
      case op::kGlobal:
        return push_global();
      default:
        return false;
    }
  }
  // Two lines of text: a module, and a name in it. Longer ones than any are refused, so that a file
  // without line ends is not searched from every operation again.
  std::uint64_t skip_line() {
    const auto rest = pickle_.bytes_.subspan(reader_.position());
    const auto window = rest.first(std::min(rest.size(), kLongestName));
    const auto end = std::ranges::find(window, std::byte{'\n'});
    if (end == window.end()) damaged("a name without end");
    const auto length = static_cast<std::uint64_t>(end - window.begin());
    reader_.skip(length + 1);
    return length;
  }
  bool push_global() {
    for (int line = 0; line < 2; ++line) {
      const std::uint64_t begin = reader_.position();
      const std::uint64_t length = skip_line();
      push_made(Kind::text, begin);
      pickle_.values_.back().second = begin + length;
    }
    return collect_made(Kind::global, Part::arguments, state_.stack.size() - 2, at_);
  }

  // The stack and the memo.
  [[nodiscard]] std::size_t floor() const {
    return state_.marks.empty() ? 0 : state_.marks.back().height;
  }
  Slot pop() {
    if (state_.stack.size() <= floor()) damaged("a value is wanted that is not there");
    const Slot top = state_.stack.back();
    state_.stack.pop_back();
    return top;
  }
  Slot& top() {
    if (state_.stack.size() <= floor()) damaged("a value is wanted that is not there");
    return state_.stack.back();
  }
  Mark pop_mark() {
    if (state_.marks.empty()) damaged("no mark");
    const Mark mark = state_.marks.back();
    state_.marks.pop_back();
    return mark;
  }
  // 0, or a number for each pickle inside.
  [[nodiscard]] std::size_t scope() const { return outer_.empty() ? 0 : nested_in_ + 1; }
  void put(std::uint64_t slot, bool numbered) {
    state_.memo.put(slot, top().value);
    pickle_.memo_uses_.push_back({at_, slot, scope(), true, numbered});
  }
  void get(std::uint64_t slot) {
    const Ref value = state_.memo.get(slot);
    if (value == kNothing) damaged(fmt::format("nothing was put away under number {}", slot));
    pickle_.values_[value].shared = true;
    pickle_.memo_uses_.push_back({at_, slot, scope(), false, false});
    push(value, at_);
  }
  bool stack_and_memo() {
    switch (op_) {
      case op::kProto: {
        const int protocol = reader_.take_le<std::uint8_t>();
        if (protocol < 2 || protocol > 5) damaged(fmt::format("protocol {}", protocol));
        if (outer_.empty()) pickle_.protocol_ = protocol;
        return true;
      }
      case op::kFrame:
        return frame();
      case op::kMark:
        state_.marks.push_back({state_.stack.size(), at_});
        return true;
      case op::kPop:
        if (state_.stack.size() == floor() && !state_.marks.empty())
          state_.marks.pop_back();
        else
          (void)pop();
        return true;
      case op::kPopMark:
        state_.stack.resize(pop_mark().height);
        return true;
      case op::kDup:
        pickle_.values_[top().value].shared = true;
        push(top().value, at_);
        return true;
      case op::kBinPut:
        put(reader_.take_le<std::uint8_t>(), false);
        return true;
      case op::kLongBinPut:
        put(reader_.take_le<std::uint32_t>(), false);
        return true;
      case op::kMemoize:
        put(state_.memo.size(), true);
        return true;
      case op::kBinGet:
        get(reader_.take_le<std::uint8_t>());
        return true;
      case op::kLongBinGet:
        get(reader_.take_le<std::uint32_t>());
        return true;
      default:
        return false;
    }
  }
  bool frame() {
    const auto length = reader_.take_le<std::uint64_t>();
    const std::uint64_t begin = reader_.position();
    if (length > reader_.remaining())
      damaged(fmt::format("a frame of {} bytes, {} are left", length, reader_.remaining()));
    if (begin < state_.frame_end) damaged("a frame inside of a frame");
    state_.frame_end = begin + length;
    pickle_.frames_.push_back({begin, begin + length});
    return true;
  }

  // Children of `parent`: the values from `slots` on.
  void adopt(Ref parent, Part part, std::span<const Slot> slots, bool alone = false) {
    const auto batch = static_cast<std::uint32_t>(pickle_.batches_.size());
    pickle_.batches_.push_back({at_, static_cast<std::uint32_t>(pickle_.children_.size()),
                                static_cast<std::uint32_t>(slots.size()), Pickle::kNoBatch, part,
                                alone});
    for (const Slot& slot : slots) pickle_.children_.push_back({slot.value, slot.from});
    Pickle::Value& value = pickle_.values_[parent];
    if (value.batch == Pickle::kNoBatch)
      value.batch = batch;
    else
      pickle_.batches_[value.first].next = batch;
    value.first = batch;
  }
  bool collect_made(Kind kind, Part part, std::size_t height, std::uint64_t from) {
    if (height > state_.stack.size()) damaged("a value is wanted that is not there");
    const std::span<const Slot> slots = std::span(state_.stack).subspan(height);
    if (part == Part::pairs && slots.size() % 2 != 0) damaged("a key without a value");
    const Ref made = make(kind);
    if (kind == Kind::object || kind == Kind::global || kind == Kind::persistent)
      pickle_.values_[made].second = kNothing;  // no state yet
    if (!slots.empty()) adopt(made, part, slots);
    state_.stack.resize(height);
    push(made, from);
    return true;
  }
  bool collect_marked(Kind kind, Part part) {
    const Mark mark = pop_mark();
    return collect_made(kind, part, mark.height, mark.at);
  }
  bool collect_last(Kind kind, std::size_t count) {
    if (state_.stack.size() < floor() + count) damaged("a value is wanted that is not there");
    const std::size_t height = state_.stack.size() - count;
    return collect_made(kind, Part::items, height, state_.stack[height].from);
  }
  // Adds what is above `height` to the value below it.
  bool add(Part part, std::size_t height, bool alone) {
    if (height == 0 || height > state_.stack.size() || height <= floor())
      damaged("nothing to add to");
    const Ref target = state_.stack[height - 1].value;
    const Kind kind = pickle_.kind(target);
    const bool fits =
        kind == Kind::object || kind == Kind::persistent ||
        (part == Part::items ? kind == Kind::list || kind == Kind::set : kind == Kind::dict);
    if (!fits) damaged("adds to what cannot be added to");
    const std::span<const Slot> slots = std::span(state_.stack).subspan(height);
    if (part == Part::pairs && slots.size() % 2 != 0) damaged("a key without a value");
    if (!slots.empty()) adopt(target, part, slots, alone);
    state_.stack.resize(height);
    return true;
  }
  bool add_marked(Part part) { return add(part, pop_mark().height, false); }
  bool add_last(Part part, std::size_t count) {
    if (state_.stack.size() < floor() + count + 1) damaged("a value is wanted that is not there");
    return add(part, state_.stack.size() - count, true);
  }
  bool collect() {
    switch (op_) {
      case op::kTuple:
        return collect_marked(Kind::tuple, Part::items);
      case op::kList:
        return collect_marked(Kind::list, Part::items);
      case op::kFrozenSet:
        return collect_marked(Kind::set, Part::items);
      case op::kDict:
        return collect_marked(Kind::dict, Part::pairs);
      case op::kTuple1:
        return collect_last(Kind::tuple, 1);
      case op::kTuple2:
        return collect_last(Kind::tuple, 2);
      case op::kTuple3:
        return collect_last(Kind::tuple, 3);
      case op::kAppend:
        return add_last(Part::items, 1);
      case op::kSetItem:
        return add_last(Part::pairs, 2);
      case op::kAppends:
      case op::kAddItems:
        return add_marked(Part::items);
      case op::kSetItems:
        return add_marked(Part::pairs);
      default:
        return false;
    }
  }

  // Calls, none of which is made.
  bool call_with(std::size_t count) {
    if (state_.stack.size() < floor() + count) damaged("a value is wanted that is not there");
    const std::size_t height = state_.stack.size() - count;
    return collect_made(Kind::object, Part::arguments, height, state_.stack[height].from);
  }
  bool stack_global() {
    if (state_.stack.size() < floor() + 2) damaged("a value is wanted that is not there");
    const std::size_t height = state_.stack.size() - 2;
    for (const Slot& part : std::span(state_.stack).subspan(height))
      if (!pickle_.is(part.value, Kind::text) || pickle_.text(part.value).size() > kLongestName)
        damaged("a name that is no text, or too long");
    return collect_made(Kind::global, Part::arguments, height, state_.stack[height].from);
  }
  // OBJ has class and arguments above a mark, INST a name in its own text.
  bool old_object() {
    if (op_ == op::kInst) {
      push_global();
      const Slot name = state_.stack.back();
      state_.stack.pop_back();
      const std::size_t height = state_.marks.empty() ? 0 : state_.marks.back().height;
      state_.stack.insert(state_.stack.begin() + static_cast<std::ptrdiff_t>(height), name);
    }
    const Mark mark = pop_mark();
    if (state_.stack.size() <= mark.height) damaged("no class to make an object of");
    const Slot callee = state_.stack[mark.height];
    collect_made(Kind::tuple, Part::items, mark.height + 1, mark.at);
    const std::vector<Slot> both{callee, state_.stack.back()};
    state_.stack.resize(mark.height);
    const Ref made = make(Kind::object);
    pickle_.values_[made].second = kNothing;
    adopt(made, Part::arguments, both);
    push(made, mark.at);
    return true;
  }
  bool build() {
    const Slot given = pop();
    const Ref target = top().value;
    const Kind kind = pickle_.kind(target);
    if (kind != Kind::object && kind != Kind::global && kind != Kind::persistent)
      damaged("sets the state of what has none");
    adopt(target, Part::state, std::span(&given, 1));
    pickle_.values_[target].second = given.value;
    if (!rule_ || !outer_.empty()) return true;
    if (const auto follows = rule_(pickle_, target)) read_stream(target, *follows);
    return true;
  }
  void read_stream(Ref object, const Follows& follows) {
    if (reader_.position() < state_.frame_end) damaged("an array inside of a frame");
    Pickle::StreamData data{object, reader_.position(), follows.alignment, {}, kNothing};
    if (follows.alignment != 0) reader_.skip(reader_.take_le<std::uint8_t>());
    data.data = {reader_.position(), reader_.position() + follows.bytes};
    if (follows.pickle) {
      nested_in_ = pickle_.stream_data_.size();
      expect_header();
      outer_.push_back(std::exchange(state_, {}));
    } else {
      reader_.skip(follows.bytes);
    }
    pickle_.stream_data_.push_back(data);
  }
  bool call() {
    switch (op_) {
      case op::kReduce:
      case op::kNewObj:
        return call_with(2);
      case op::kNewObjEx:
        return call_with(3);
      case op::kObj:
      case op::kInst:
        return old_object();
      case op::kStackGlobal:
        return stack_global();
      case op::kBuild:
        return build();
      case op::kBinPersId: {
        if (state_.stack.size() <= floor()) damaged("a value is wanted that is not there");
        const std::size_t height = state_.stack.size() - 1;
        return collect_made(Kind::persistent, Part::arguments, height, state_.stack[height].from);
      }
      default:
        return false;
    }
  }

  Pickle& pickle_;
  const Pickle::StreamRule& rule_;
  ByteReader reader_;
  std::uint64_t at_ = 0;  // the operation
  std::uint8_t op_ = 0;
  std::size_t operations_ = 0;
  State state_;
  std::vector<State> outer_;   // of the pickle around this one, if any
  std::size_t nested_in_ = 0;  // of stream_data_
};

Pickle::Pickle(std::span<const std::byte> bytes, std::string what, std::uint64_t begin,
               const StreamRule& rule)
    : bytes_(bytes), what_(std::move(what)), begin_(begin) {
  Machine(*this, rule).run();
}

}  // namespace oubli::pickle
