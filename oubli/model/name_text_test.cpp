#include "oubli/model/name_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oubli/base/error.h"
#include "oubli/model/name_agreement.h"

namespace oubli {
namespace {

using Names = std::vector<std::string>;

std::string cut(std::string_view text, std::vector<std::size_t> forget) {
  return NameText::parse(text).value().without(forget);
}

TEST(NameText, ReadsEverySpelling) {
  const Names wanted{"ant", "bee", "cat"};
  for (
      const std::string_view text :
      {R"(["ant", "bee", "cat"])", "['ant','bee','cat']", "('ant', 'bee', 'cat')",
       "{0: 'ant', 1: 'bee', 2: 'cat'}", R"({"0":"ant","2":"cat","1":"bee"})",
       R"({"cat": 2, "ant": 0, "bee": 1})", "ant,bee,cat", "ant, bee, cat", "ant\nbee\ncat\n",
       "ant,bee,cat\n", "ant;bee;cat", "ant; bee; cat\r\n", "{1: 'ant', 2: 'bee', 3: 'cat'}",
       R"({"bee": 2, "ant": 1, "cat": 3})",
       R"([{"name": "ant"}, {"name": "bee"}, {"name": "cat"}])",
       R"([{"id": 2, "name": "cat"}, {"id": 0, "name": "ant"}, {"name": "bee", "id": 1}])",
       R"([{"id": 1, "label": "ant", "x": "y"}, {"id": 2, "label": "bee"}, {"id": 3, "label": "cat"}])",
       "[\n  \"ant\",\n  \"bee\",\n  \"cat\"\n]"}) {
    const auto names = NameText::parse(text);
    ASSERT_TRUE(names.has_value()) << text;
    EXPECT_EQ(names->names(), wanted) << text;
  }
}

TEST(NameText, CutsAndRenumbersInTheSameSpelling) {
  EXPECT_EQ(cut(R"(["ant", "bee", "cat"])", {0}), R"(["bee", "cat"])");
  EXPECT_EQ(cut("{0: 'ant', 1: 'bee', 2: 'cat'}", {1}), "{0: 'ant', 1: 'cat'}");
  EXPECT_EQ(cut(R"({"0":"ant","2":"cat","1":"bee"})", {0}), R"({"1":"cat","0":"bee"})");
  EXPECT_EQ(cut(R"({"cat": 2, "ant": 0, "bee": 1})", {1}), R"({"cat": 1, "ant": 0})");
  EXPECT_EQ(cut("ant\nbee\ncat\n", {2}), "ant\nbee\n");
  EXPECT_EQ(cut("ant,bee,cat\n", {2}), "ant,bee\n");
  EXPECT_EQ(cut("ant;bee;cat", {1}), "ant;cat");
  EXPECT_EQ(cut("{1: 'ant', 2: 'bee', 3: 'cat'}", {1}), "{1: 'ant', 2: 'cat'}");
  EXPECT_EQ(
      cut(R"([{"id": 0, "name": "ant"}, {"id": 1, "name": "bee"}, {"id": 2, "name": "cat"}])", {0}),
      R"([{"id": 0, "name": "bee"}, {"id": 1, "name": "cat"}])");
  EXPECT_EQ(cut("ant, bee, cat, dog", {0, 2}), "bee, dog");
  EXPECT_EQ(cut("[\n  \"ant\",\n  \"bee\",\n  \"cat\"\n]", {1}), "[\n  \"ant\",\n  \"cat\"\n]");
}

TEST(NameText, EscapesAndQuotesInsideNames) {
  const auto names = NameText::parse(R"(["a\"b", "c,d", "\u00e9\ud83d\ude00", "it's"])");
  ASSERT_TRUE(names.has_value());
  EXPECT_EQ(names->names(), (Names{"a\"b", "c,d", "é😀", "it's"}));
  EXPECT_EQ(names->without(std::vector<std::size_t>{1}),
            R"(["a\"b", "\u00e9\ud83d\ude00", "it's"])");
}

// Classes named by digits: only the key tells which side is the index, whatever is quoted.
TEST(NameText, NamesThatAreNumbers) {
  const Names wanted{"2", "0", "1"};
  for (const std::string_view key : {"names", "class_names", "labels", "classes", "id2label"})
    for (const std::string_view text :
         {"{0: 2, 1: 0, 2: 1}", "{0: '2', 1: '0', 2: '1'}", R"({"0": 2, "1": 0, "2": 1})",
          R"({"0": "2", "1": "0", "2": "1"})"})
      EXPECT_EQ(NameText::parse(text, key).value().names(), wanted) << key << text;
  for (const std::string_view text :
       {"{2: 0, 0: 1, 1: 2}", "{'2': 0, '0': 1, '1': 2}", R"({"2": "0", "0": "1", "1": "2"})"})
    EXPECT_EQ(NameText::parse(text, "label2id").value().names(), wanted) << text;
  const std::vector<std::size_t> first{0};
  EXPECT_EQ(NameText::parse(R"({"2": "0", "0": "1", "1": "2"})", "label2id").value().without(first),
            R"({"0": "0", "1": "1"})");
  EXPECT_EQ(NameText::parse("{0: 2, 1: 0, 2: 1}", "names").value().without(first), "{0: 0, 1: 1}");
  // Where only one side can be the index, it is, whatever the key.
  EXPECT_EQ(NameText::parse("{0: 'ant', 1: 'bee'}", "label2id").value().names(),
            (Names{"ant", "bee"}));
  EXPECT_EQ(NameText::parse("{'ant': '0', 'bee': '1'}", "names").value().names(),
            (Names{"ant", "bee"}));
  const auto inside = names_in_entry("config", R"({"label2id": {"1": "0", "0": "1"}})");
  ASSERT_EQ(inside.size(), 1U);
  EXPECT_EQ(inside[0].names.names(), (Names{"1", "0"}));
}

TEST(NameText, WhatIsNoListOfNames) {
  for (const std::string_view text :
       {"", "hello", "{2: 'a', 3: 'b'}", R"([{"id": 0, "name": "a"}, {"name": "b"}])",
        R"([{"name": "a", "label": "b"}])", R"([{"id": 0}, {"id": 1}])", "a,,b", ",", ";;", "hello",
        "[1, [2]]", "{'a': 'b'}", "{0: 'a', 0: 'b'}", "{0: 'a', 7: 'b'}", "['a', ", "{", "[]",
        "{\"a\": 1", "\"\\u12\""}) {
    EXPECT_FALSE(NameText::parse(text).has_value()) << text;
  }
}

TEST(NameText, InsideAConfiguration) {
  const std::string value =
      R"({"model": "x", "id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}})";
  const auto found = names_in_entry("config", value);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].names.names(), (Names{"a", "b"}));
  EXPECT_EQ(found[1].names.names(), (Names{"a", "b"}));
  EXPECT_EQ(value.substr(found[0].begin, found[0].names.size()), R"({"0": "a", "1": "b"})");
  EXPECT_TRUE(names_in_entry("description", "names of things").empty());
  const auto tuple = names_in_entry("config", "{'names': ('a', 'b')}");
  ASSERT_EQ(tuple.size(), 1U);
  EXPECT_EQ(tuple[0].names.names(), (Names{"a", "b"}));
}

// JSON as a string inside of JSON: cut where it stands, every other character as it was.
TEST(NameText, InsideAStringOfAConfiguration) {
  const auto cut = [](std::string_view key, std::string text) {
    const auto found = names_in_entry(key, text);
    for (auto entry = found.rbegin(); entry != found.rend(); ++entry) {
      EXPECT_EQ(entry->names.names()[1], "bé\"e");
      text.replace(entry->begin, entry->names.size(),
                   entry->names.without(std::vector<std::size_t>{1}));
    }
    EXPECT_TRUE(unknown_spellings(key, text, 2).empty()) << text;
    return text;
  };
  const auto quote = [](const nlohmann::json& json, bool ascii, int indent) {
    return nlohmann::json(json.dump(indent, ' ', ascii)).dump(-1, ' ', ascii);
  };
  const nlohmann::ordered_json before{{"id2label", {{"0", "ant"}, {"1", "bé\"e"}, {"2", "cat"}}},
                                      {"label2id", {{"ant", 0}, {"bé\"e", 1}, {"cat", 2}}},
                                      {"other", "é\\n"}};
  const nlohmann::ordered_json after{{"id2label", {{"0", "ant"}, {"1", "cat"}}},
                                     {"label2id", {{"ant", 0}, {"cat", 1}}},
                                     {"other", "é\\n"}};
  for (const bool ascii : {false, true}) {
    for (const int indent : {-1, 1}) {
      std::string old_text = before.dump(indent, ' ', ascii);
      std::string new_text = after.dump(indent, ' ', ascii);
      for (int depth = 0; depth < 4; ++depth) {  // each level in a string of the next
        EXPECT_EQ(cut("config", old_text), new_text) << depth;
        const auto wrap = [&](const std::string& text) {
          const nlohmann::ordered_json outer{{"version", "it's 3"}, {"inner", text}, {"more", 1}};
          return outer.dump(indent, ' ', ascii);
        };
        old_text = wrap(old_text);
        new_text = wrap(new_text);
      }
    }
  }
  // The list itself as a string, under its key inside or as the whole entry.
  const nlohmann::json list{"ant", "bé\"e", "cat"}, shorter{"ant", "cat"};
  for (const bool ascii : {false, true}) {
    const std::string text = quote(list, ascii, -1), wanted = quote(shorter, ascii, -1);
    EXPECT_EQ(cut("names", text), wanted);
    EXPECT_EQ(cut("config", "{\"labels\": " + text + "}"), "{\"labels\": " + wanted + "}");
  }
}

TEST(NameText, AConfigurationInAStringUnderAKeyOfNames) {
  const std::string value = R"({"labels": "{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}}"})";
  const auto found = names_in_entry("config", value);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].names.without(std::vector<std::size_t>{0}), R"({\"0\": \"b\"})");
}

TEST(NameText, StringsThatHoldNoNames) {
  for (const std::string_view text :
       {R"("{\"id2label\")", R"({"a": "{\"names\": [")", R"({"a": "\"names\": [\"a\", \"b\"])",
        R"(it's "{\"names\": [\"a\", \"b\"]}")", R"({"a": "\u12"})", R"(")", R"({"a": "\)",
        R"({"labels": "a,b"})", R"({"labels": "\"a\", \"b\""})"})
    EXPECT_TRUE(names_in_entry("config", text).empty()) << text;
}

// Commas and semicolons: the number of classes tells which of them separates.
TEST(NameText, PlainItemsWithBothSeparators) {
  const auto found = names_in_entry("labels", "tench, Tinca tinca; goldfish; shark, white; ray");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].names.names().size(), 3U);
  EXPECT_EQ(found[1].names.names(),
            (Names{"tench, Tinca tinca", "goldfish", "shark, white", "ray"}));
  EXPECT_TRUE(names_in_entry("labels", "a;b,c").empty());
  EXPECT_TRUE(names_in_entry("labels", "").empty());
}

TEST(NameText, WhatLooksLikeNamesButIsNot) {
  const auto unknown = [](std::string_view value) { return unknown_spellings("config", value, 2); };
  EXPECT_TRUE(unknown(R"({"names": ["a", "b"], "n": 3})").empty());
  EXPECT_TRUE(unknown(R"({"names": false, "labels": "many", "classes": []})").empty());
  EXPECT_EQ(unknown(R"({"names": ["a", "b", "c"]})"), Names{"names"});
  EXPECT_EQ(unknown(R"({"labels": "a,b"})"), Names{"labels"});
  EXPECT_TRUE(unknown(R"({"inner": "{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}}"})").empty());
  EXPECT_EQ(unknown(R"({"inner": "{\"id2label\": {\"0\": \"a\", \"5\": \"b\"}}"})"),
            Names{"id2label"});
  EXPECT_TRUE(unknown_spellings("names", "?", 2).empty());  // said by who cuts them
}

TEST(Names, InAnotherOrder) {
  const Names names{"ant", "bee", "cat"};
  EXPECT_FALSE(in_another_order(names, names));
  EXPECT_FALSE(in_another_order(names, Names{"x", "y", "z"}));
  EXPECT_FALSE(in_another_order(names, Names{"ant", "Biene", "cat"}));
  EXPECT_TRUE(in_another_order(names, Names{"cat", "bee", "ant"}));
  EXPECT_TRUE(in_another_order(names, Names{"background", "ant", "bee"}));
}

TEST(Names, ThatContradictTheModels) {
  const Names own{"ant", "bee", "cat", "dog"};
  const auto check = [&](const Names& given, std::vector<std::size_t> forget) {
    return check_names_agree(own, given, forget, "the file");
  };
  EXPECT_TRUE(check(own, {0, 1, 2, 3}).empty());
  EXPECT_TRUE(check({}, {1}).empty());
  EXPECT_TRUE(check({"dog", "bee", "cat", "ant"}, {1}).empty());  // this one is the same
  const auto warnings = check({"Ameise", "Biene", "Katze", "Hund"}, {1});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].find("bee"), std::string::npos);
  for (const Names& given : {Names{"dog", "cat", "bee", "ant"}, Names{"x", "cat", "y", "z"},
                             Names{"x", "y", "bee", "z"}}) {
    try {
      (void)check(given, {1});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_NE(std::string(error.what()).find("'bee'"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("'" + given[1] + "'"), std::string::npos);
    }
  }
}

TEST(Names, OfTwoClasses) {
  const Names names{"ant", "bee", "bee"};
  EXPECT_THROW(check_unambiguous("bee", names), Error);
  EXPECT_NO_THROW(check_unambiguous("ant", names));
  EXPECT_NO_THROW(check_unambiguous("2", names));
  EXPECT_NO_THROW(check_unambiguous("2", {}));
}

}  // namespace
}  // namespace oubli
