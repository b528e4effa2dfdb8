#include "oubli/pickle/pickle.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oubli/pickle/edits.h"
#include "tests/test_support.h"

namespace oubli::pickle {
namespace {

using oubli::testing::error_of;
using oubli::testing::run_python;
using oubli::testing::TempFolder;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto view = as_bytes(text);
  return {view.begin(), view.end()};
}

// What a pickle builds, in Python's spelling; objects as name(arguments){state}.
std::string show(const Pickle& pickle, Ref ref) {
  const auto list = [&](std::span<const Ref> refs) {
    std::vector<std::string> parts;
    for (const Ref one : refs) parts.push_back(show(pickle, one));
    return fmt::format("{}", fmt::join(parts, ", "));
  };
  switch (pickle.kind(ref)) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return pickle.integer(ref) != 0 ? "True" : "False";
    case Kind::integer:
      return std::to_string(pickle.integer(ref));
    case Kind::long_integer:
      return "long";
    case Kind::real:
      return fmt::format("{}", pickle.real(ref));
    case Kind::text:
      return fmt::format("'{}'", pickle.text(ref));
    case Kind::bytes:
      return fmt::format("b'{}'", pickle.text(ref));
    case Kind::tuple:
      return "(" + list(pickle.children(ref, Part::items)) + ")";
    case Kind::list:
      return "[" + list(pickle.children(ref, Part::items)) + "]";
    case Kind::set:
      return "set(" + list(pickle.children(ref, Part::items)) + ")";
    case Kind::dict:
      return "{" + list(pickle.children(ref, Part::pairs)) + "}";
    case Kind::global:
      return pickle.global_name(ref);
    case Kind::persistent:
      return "outside(" + list(pickle.children(ref, Part::arguments)) + ")";
    case Kind::object:
      return fmt::format("{}{}[{}]{{{}}}<{}>", pickle.callee(ref),
                         show(pickle, pickle.children(ref, Part::arguments)[1]),
                         list(pickle.children(ref, Part::items)),
                         list(pickle.children(ref, Part::pairs)),
                         list(pickle.children(ref, Part::state)));
  }
  return "?";
}

std::string show_bytes(std::string_view text) {
  const Pickle pickle(as_bytes(text), "test");
  return show(pickle, pickle.root());
}

// What Python pickles, in protocols 2 to 5, and a file for each.
constexpr const char* kMake = R"(
import pickle, collections, datetime
class Thing: pass
t = Thing(); t.x = [1, (2,), {'a': -1}]
d = collections.OrderedDict(one=1.5, two=None)
shared = 'shared'
value = {'small': 7, 'two': 700, 'four': -70000, 'long': 1 << 40, 'huge': 1 << 90, 'neg': -(1 << 40),
         'real': 0.1, 'yes': True, 'no': False, 'tuple': (), 'three': (1, 2, 3), 'four_': (1, 2, 3, 4),
         'list': list(range(3)), 'set': {5}, 'bytes': b'ab', 'long text': 'x' * 300, 'ordered': d,
         'object': t, 'again': [shared, shared, d], 'type': int}
for protocol in range(2, 6):
    open(f'p{protocol}', 'wb').write(pickle.dumps(value, protocol))
)";

TEST(Pickle, ReadsWhatPythonWrites) {
  const TempFolder folder;
  run_python(folder, kMake);
  for (int protocol = 2; protocol <= 5; ++protocol) {
    const MappedFile file(folder / ("p" + std::to_string(protocol)));
    const Pickle pickle(file.bytes(), "test");
    EXPECT_EQ(pickle.protocol(), protocol);
    EXPECT_EQ(pickle.end(), file.bytes().size());
    const auto at = [&](std::string_view key) {
      return show(pickle, pickle.find(pickle.root(), key));
    };
    EXPECT_EQ(at("small"), "7");
    EXPECT_EQ(at("two"), "700");
    EXPECT_EQ(at("four"), "-70000");
    EXPECT_EQ(at("long"), "1099511627776");
    EXPECT_EQ(at("neg"), "-1099511627776");
    EXPECT_EQ(at("huge"), "long");
    EXPECT_EQ(at("real"), "0.1");
    EXPECT_EQ(at("yes"), "True");
    EXPECT_EQ(at("no"), "False");
    EXPECT_EQ(at("tuple"), "()");
    EXPECT_EQ(at("three"), "(1, 2, 3)");
    EXPECT_EQ(at("four_"), "(1, 2, 3, 4)");
    EXPECT_EQ(at("list"), "[0, 1, 2]");
    EXPECT_EQ(at("long text"), "'" + std::string(300, 'x') + "'");
    EXPECT_EQ(at("ordered"), "collections.OrderedDict()[]{'one', 1.5, 'two', None}<>");
    const std::string thing = at("object");
    EXPECT_THAT(thing, HasSubstr("<{'x', [1, (2), {'a', -1}]}>"));
    EXPECT_EQ(at("again"), "['shared', 'shared', " + at("ordered") + "]");
    EXPECT_EQ(at("type"), protocol == 2 ? "__builtin__.long" : "builtins.int");
    if (protocol >= 3) {
      EXPECT_EQ(at("bytes"), "b'ab'");
    }
    if (protocol >= 4) {
      EXPECT_EQ(at("set"), "set(5)");
    }
    const auto same = Edits(pickle).encode();
    EXPECT_TRUE(std::ranges::equal(same, file.bytes()));
    std::vector<Ref> reached = pickle.reachable(pickle.root());
    std::ranges::sort(reached);
    EXPECT_EQ(std::ranges::adjacent_find(reached), reached.end());
  }
}

// Edits of integers, bytes and items; Python loads the result and compares.
TEST(Pickle, EditsAreWhatPythonThenLoads) {
  const TempFolder folder;
  run_python(folder, R"(
import pickle
names = ['cat', 'dog', 'eel', 'fox']
value = {'n': 10, 'big': 70000, 'blob': bytes(range(200)) * 2, 'names': names,
         'map': {name: i for i, name in enumerate(names)}, 'pad': 'y' * 70000, 'after': ['z', 'zz'],
         'again': None}
value['again'] = value['after']
for protocol in range(3, 6):
    open(f'p{protocol}', 'wb').write(pickle.dumps(value, protocol))
)");
  for (int protocol = 3; protocol <= 5; ++protocol) {
    const std::string name = "p" + std::to_string(protocol);
    const MappedFile file(folder / name);
    const Pickle pickle(file.bytes(), "test");
    const auto at = [&](std::string_view key) { return pickle.find(pickle.root(), key); };
    Edits edits(pickle);
    edits.set_integer(at("n"), 9);
    edits.set_integer(at("big"), 69999);
    edits.set_bytes(at("blob"), bytes_of("short"));
    // The name is put away in one place and fetched in the other: both or none.
    const Extent in_list = pickle.items(at("names"))[1].extent;
    const auto pairs = pickle.pairs(at("map"));
    EXPECT_FALSE(edits.remove(std::vector{in_list}));
    ASSERT_TRUE(edits.remove(std::vector{pairs[1].extent, in_list}));
    edits.set_integer(pairs[2].value, 1);
    edits.set_integer(pairs[3].value, 2);
    write_file(folder / ("e" + std::to_string(protocol)), edits.encode());
    EXPECT_EQ(error_of([&] { edits.set_integer(at("n"), 8); }).code(), ErrorCode::unfilterable);
  }
  run_python(folder, R"(
import pickle
for protocol in range(3, 6):
    was = pickle.load(open(f'p{protocol}', 'rb'))
    now = pickle._loads(open(f'e{protocol}', 'rb').read())  # in Python: strict about frames
    assert now == pickle.load(open(f'e{protocol}', 'rb'))
    was.update(n=9, big=69999, blob=b'short', names=['cat', 'eel', 'fox'], map=dict(cat=0, eel=1, fox=2))
    assert now == was, protocol
    assert now['again'] is now['after']
)");
}

TEST(Pickle, IntegersAreSpelledAsPythonSpellsThem) {
  const TempFolder folder;
  const std::vector<std::int64_t> values{0,
                                         255,
                                         256,
                                         65535,
                                         65536,
                                         2147483647,
                                         2147483648,
                                         -1,
                                         -129,
                                         -2147483648,
                                         -2147483649,
                                         std::int64_t{1} << 39,
                                         (std::int64_t{1} << 40) - 1,
                                         std::int64_t{-1} << 39,
                                         INT64_MAX,
                                         INT64_MIN};
  std::string program = "import pickle\n";
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string start("\x80\x02K\x05.", 5);
    const Pickle pickle(as_bytes(start), "test");
    Edits edits(pickle);
    edits.set_integer(pickle.root(), values[i]);
    write_file(folder / ("n" + std::to_string(i)), edits.encode());
    program += fmt::format("assert open('n{0}', 'rb').read() == pickle.dumps({1}, 2), {1}\n", i,
                           values[i] == INT64_MIN ? "-(1 << 63)" : std::to_string(values[i]));
  }
  run_python(folder, program);
}

TEST(Pickle, CallsNothing) {
  const TempFolder folder;
  run_python(folder, R"(
import pickle, os
class Evil:
    def __reduce__(self): return os.system, ('touch ' + os.path.abspath('canary'),)
for protocol in range(2, 6):
    open(f'p{protocol}', 'wb').write(pickle.dumps({'w': Evil()}, protocol))
open('set', 'wb').write(b'\x80\x02cbuiltins\nlist\n}X\x01\x00\x00\x00aK\x01sb.')
)");
  for (int protocol = 2; protocol <= 5; ++protocol) {
    const MappedFile file(folder / ("p" + std::to_string(protocol)));
    const Pickle pickle(file.bytes(), "test");
    EXPECT_EQ(pickle.called_names(), std::vector<std::string>{"posix.system"});
    EXPECT_THAT(show(pickle, pickle.root()), HasSubstr("posix.system('touch "));
  }
  const MappedFile file(folder / "set");
  EXPECT_EQ(Pickle(file.bytes(), "test").called_names(), std::vector<std::string>{"builtins.list"});
  EXPECT_FALSE(std::filesystem::exists(folder / "canary"));
  // The same file, loaded by Python, does it: the canary can sing.
  run_python(folder, "import pickle\npickle.load(open('p4', 'rb'))\n");
  EXPECT_TRUE(std::filesystem::exists(folder / "canary"));
}

TEST(Pickle, DamageIsAnErrorNotACrash) {
  const auto refused = [](std::string_view text) {
    return error_of([&] { (void)show_bytes(text); }).code() == ErrorCode::bad_input;
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(show_bytes("\x80\x02]K\x01"
                       "a."sv),
            "[1]");
  for (const std::string_view text : {""sv,
                                      "\x80"sv,
                                      "\x80\x02"sv,
                                      "\x80\x02."sv,
                                      "\x80\x07N."sv,
                                      "(lp0\n."sv,
                                      "\x80\x02NNa."sv,
                                      "\x80\x02Na."sv,
                                      "\x80\x02K\x01K\x02Rb."sv,
                                      "\x80\x02h\x05."sv,
                                      "\x80\x02j\xff\xff\xff\xff."sv,
                                      "\x80\x02X\xff\xff\xff\xff"
                                      "abc."sv,
                                      "\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff."sv,
                                      "\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN."sv,
                                      "\x80\x02}(K\x01u."sv,
                                      "\x80\x02(."sv,
                                      "\x80\x02(N."sv,
                                      "\x80\x02(t(."sv,
                                      "\x80\x02N(a."sv,
                                      "\x80\x02t."sv,
                                      "\x80\x02(o."sv,
                                      "\x80\x02"
                                      "cos\nsystem"sv,
                                      "\x80\x02K\x01K\x02\x93."sv,
                                      "\x80\x05\x97."sv,
                                      "\x80\x02\x82\x01."sv,
                                      "\x80\x02]Nb."sv,
                                      "\x80\x02(ios\nsystem"sv,
                                      "\x80\x02ios\nsystem\n."sv,
                                      "\x80\x02Q."sv,
                                      "\x80\x02R."sv,
                                      "\x80\x02\x86."sv,
                                      "\x80\x02s."sv,
                                      "\x80\x02N(0s."sv})
    EXPECT_TRUE(refused(text)) << fmt::format("{}", fmt::join(text, " "));
}

// Lists of lists: 2^200 elements by 200 references, as Python's own reader builds them, too.
TEST(Pickle, MemoBombsAreWalkedOnce) {
  std::string text("\x80\x02]q\0", 5);
  for (int level = 1; level < 200; ++level) {
    text += "](";
    for (int i = 0; i < 2; ++i) text += {'h', static_cast<char>(level - 1)};
    text += "eq";
    text += static_cast<char>(level);
  }
  text += '.';
  const Pickle pickle(as_bytes(text), "test");
  EXPECT_EQ(pickle.reachable(pickle.root()).size(), 200U);
  // A list that holds itself
  const std::string loop("\x80\x02]q\0h\0a.", 9);
  const Pickle itself(as_bytes(loop), "test");
  EXPECT_EQ(itself.reachable(itself.root()).size(), 1U);
}

TEST(Pickle, DeepNestingNeedsNoStack) {
  constexpr std::size_t kDepth = 1'000'000;
  std::string text("\x80\x02");
  text += "N";
  text.append(kDepth, '\x85');  // TUPLE1
  text += '.';
  const Pickle pickle(as_bytes(text), "test");
  EXPECT_EQ(pickle.reachable(pickle.root()).size(), kDepth + 1);
  std::string marks("\x80\x02");
  marks.append(kDepth, '(');
  EXPECT_EQ(error_of([&] { (void)Pickle(as_bytes(marks), "test"); }).code(), ErrorCode::bad_input);
}

TEST(Pickle, ASharedValueIsNotEdited) {
  const std::string text("\x80\x02K\x05q\0h\0\x86.", 10);
  const Pickle pickle(as_bytes(text), "test");
  Edits edits(pickle);
  const Ref five = pickle.children(pickle.root(), Part::items)[0];
  EXPECT_EQ(error_of([&] { edits.set_integer(five, 4); }).code(), ErrorCode::unfilterable);
}

}  // namespace
}  // namespace oubli::pickle
