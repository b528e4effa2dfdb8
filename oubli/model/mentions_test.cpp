#include "oubli/model/mentions.h"

#include <gtest/gtest.h>

#include <string>

namespace oubli {
namespace {

TEST(Mentions, NamesAsWords) {
  EXPECT_TRUE(mentions_name("model of alice and bob", "alice"));
  EXPECT_TRUE(mentions_name("score/alice", "alice"));
  EXPECT_TRUE(mentions_name("alice", "alice"));
  EXPECT_FALSE(mentions_name("malice", "alice"));
  EXPECT_FALSE(mentions_name("alices", "alice"));
  EXPECT_TRUE(mentions_name("malice, alice", "alice"));
  EXPECT_FALSE(mentions_name("layer 3", "3"));
  EXPECT_FALSE(mentions_name("an ox", "ox"));
  EXPECT_TRUE(mentions_name("ox", "ox"));
  EXPECT_TRUE(mentions_name("ALICE and bob", "Alice"));
  EXPECT_FALSE(mentions_name("MALICE", "Alice"));
}

// What json.dumps, repr and ascii of Python make of names.
TEST(Mentions, NamesInEscapes) {
  for (const char* text :
       {R"({"people": ["Jos\u00e9"]})", R"(["Jos\u00E9"])", R"({"a": "[\"Jos\\u00e9\"]"})",
        R"(['Jos\xe9'])", R"(['Jos\U000000e9'])", "[\"José\"]"})
    EXPECT_TRUE(mentions_name(text, "José")) << text;
  EXPECT_FALSE(mentions_name(R"(["Jos\u00e9e"])", "José"));
  const char* bob = "O'Neil \"Bob\"";
  for (const char* text :
       {R"(["O'Neil \"Bob\""])", R"(['O\'Neil "Bob"'])", R"({"a": "[\"O'Neil \\\"Bob\\\"\"]"})"})
    EXPECT_TRUE(mentions_name(text, bob)) << text;
  EXPECT_TRUE(mentions_name(R"(["\ud83d\udc1d"])", "\U0001f41d"));
  EXPECT_FALSE(mentions_name("C:\\", "alice"));  // no escape at all
  EXPECT_TRUE(mentions_name("C:\\u12 alice \\", "alice"));
}

TEST(Mentions, NamesAreMasked) {
  EXPECT_EQ(without_name("node 'ALICE_alice'", "Alice"), "node '..._...'");
  EXPECT_EQ(without_name("tensor 'W'", "Alice"), "tensor 'W'");
  EXPECT_EQ(without_name(R"(metadata 'Jos\u00e9')", "José"), "...");
  EXPECT_EQ(without_name("layer 3", "3"), "layer 3");
}

TEST(Mentions, EveryWayToWriteAName) {
  for (const char* const text :
       {"José", "JOSÉ", "Jose\u0301", "JOSE\u0301", "jose", "Jos%C3%A9", "jos%c3%a9",
        "x/Jos%C3%A9?a=b", "\uff2a\uff4f\uff53\uff45", R"("Jos\\u00e9")"})
    EXPECT_TRUE(mentions_name(text, "José")) << text;
  EXPECT_FALSE(mentions_name("Joseph", "José"));
  EXPECT_TRUE(mentions_name("\u1112\u1161\u11ab", "\ud55c"));  // a Hangul syllable in letters
  EXPECT_TRUE(mentions_name("ΆΛΦΑ", "άλφα"));
  EXPECT_TRUE(mentions_name("\u30ab\u3099\u30b9", "\u30ac\u30b9"));
  EXPECT_EQ(folded("\xff\xfe A"), "\xff\xfe a");  // no UTF-8 stays
}

// A text and a name that match everywhere but at the end: linear in both, not in their product.
TEST(Mentions, TakesTimeInProportionToText) {
  const std::string text(2'000'000, 'a');
  EXPECT_FALSE(mentions_name(text, std::string(500'000, 'a') + "b"));
  EXPECT_FALSE(mentions_name(text, std::string(500'000, 'a')));  // everywhere, nowhere as a word
  EXPECT_EQ(without_name(text, std::string(500'000, 'a')), "............");
}

}  // namespace
}  // namespace oubli
