#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oubli/base/file.h"
#include "oubli/base/json.h"
#include "oubli/evidence/attested.h"
#include "oubli/evidence/base64.h"
#include "oubli/evidence/evidence_file.h"
#include "tests/test_paths.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using Json = nlohmann::ordered_json;

const Statement& example() {
  static const Statement statement({{"new.npz", std::string(64, 'a')}}, "urn:example:v1",
                                   Json{{"said", "so"}, {"number", 0.1}});
  return statement;
}

TEST(Dsse, ThePublishedVectorsAreAcceptedAndRefused) {
  const Json file = parse_json(
      read_text_file(testing::source_folder() + "/tests/evidence/dsse_vectors.json"), "vectors");
  ASSERT_EQ(file["vectors"].size(), 9);
  for (const Json& vector : file["vectors"]) {
    const std::string id = vector["id"].get<std::string>();
    std::vector<PublicKey> keys;
    for (const Json& name : vector["trustedKeys"])
      keys.push_back(
          *PublicKey::from_hex(file["keys"][name.get<std::string>()].get<std::string>()));
    bool accepted = false;
    try {
      const Envelope envelope = envelope_of(vector["envelope"], id);
      const bool known =
          std::ranges::count(vector["supportedPayloadTypes"], Json(envelope.payload_type)) == 1;
      accepted = known && signers(check_signatures(envelope, keys), keys) >= vector["threshold"];
      if (accepted) {
        EXPECT_EQ(to_hex(pre_authentication_encoding(envelope.payload_type, envelope.payload)),
                  vector["pae"].get<std::string>())
            << id;
      }
    } catch (const Error& error) {
      EXPECT_EQ(id, "empty-payload-type") << error.what();
    }
    EXPECT_EQ(accepted, vector["expect"] == "accept") << id;
  }
  EXPECT_EQ(pre_authentication_encoding("http://example.com/HelloWorld", "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
}

TEST(Evidence, WhatIsSignedComesBack) {
  for (const KeyType type : kAllKeyTypes) {
    const PrivateKey key = PrivateKey::generate(type);
    const std::vector<PublicKey> keys{key.public_key()};
    Envelope envelope = enclose(example());
    sign(envelope, key);
    const std::string line = envelope_line(envelope);
    const std::string pretty = envelope_json(envelope).dump(2);
    for (const std::string& text :
         {line, line.substr(0, line.size() - 1), pretty, pretty + "\n", bundle_text(envelope)}) {
      const auto read = parse_evidence(text, "file");
      ASSERT_TRUE(read && read->size() == 1) << text;
      EXPECT_EQ(read->front().payload, envelope.payload);
      const Attested found = attested(read->front(), keys, 1, "file");
      ASSERT_TRUE(found.statement) << found.detail;
      EXPECT_EQ(found.statement->subjects, example().subjects);
      EXPECT_EQ(found.statement->predicate_type, example().predicate_type);
      EXPECT_EQ(*found.statement->predicate, *example().predicate);
    }
  }
}

TEST(Evidence, SeveralStatementsAreLinesAndAReceiptIsNone) {
  const PrivateKey key = PrivateKey::generate(KeyType::ed25519);
  std::string text;
  for (int i = 0; i < 3; ++i) {
    Envelope envelope = enclose(Statement({{fmt::format("{}", i), std::string(64, 'b')}},
                                          "urn:example:v1", Json::object()));
    sign(envelope, key);
    text += envelope_line(envelope);
  }
  const auto envelopes = parse_evidence(text, "file");
  ASSERT_TRUE(envelopes);
  ASSERT_EQ(envelopes->size(), 3);
  EXPECT_EQ(statement_in((*envelopes)[2], "file").subjects[0].name, "2");
  EXPECT_FALSE(parse_evidence("{\n \"format\": \"oubli-receipt\"\n}\n", "file"));
  EXPECT_FALSE(parse_evidence(R"({"format": "oubli-receipt"})", "file"));
  for (const std::string& damaged :
       {text + "\n", "\n" + text, text + "{}", text + "{\"format\": 1}\n", text + "x",
        "\xef\xbb\xbf" + text, " " + text, text.substr(0, text.size() / 2), std::string(),
        std::string("[]"), std::string("{}{}"), text + text.substr(0, 20)})
    EXPECT_EQ(error_of([&] { (void)parse_evidence(damaged, "file"); }).code(),
              ErrorCode::bad_input);
}

TEST(Evidence, AsManyDifferentKeysAsAreAskedFor) {
  const PrivateKey a = PrivateKey::generate(KeyType::ed25519);
  const PrivateKey b = PrivateKey::generate(KeyType::p256);
  const PrivateKey stranger = PrivateKey::generate(KeyType::p256);
  Envelope envelope = enclose(example());
  sign(envelope, stranger);
  sign(envelope, a);
  sign(envelope, a);
  const std::vector<PublicKey> keys{a.public_key(), b.public_key(), a.public_key()};
  const auto accepted = [&](std::size_t threshold) {
    return attested(envelope, keys, threshold, "file").statement.has_value();
  };
  EXPECT_TRUE(accepted(1));
  EXPECT_FALSE(accepted(2)) << "one key signed twice and was given twice";
  sign(envelope, b);
  EXPECT_TRUE(accepted(2));
  EXPECT_FALSE(accepted(3));
  EXPECT_FALSE(attested(envelope, {}, 1, "file").statement);
  const std::vector<PublicKey> other{PrivateKey::generate(KeyType::p256).public_key()};
  EXPECT_FALSE(attested(envelope, other, 1, "file").statement);
}

TEST(Evidence, WhatEnoughKeysSignedMustBeAStatement) {
  const PrivateKey key = PrivateKey::generate(KeyType::ed25519);
  const std::vector<PublicKey> keys{key.public_key()};
  const std::string good = enclose(example()).payload;
  const auto refuses = [&](std::string type, std::string payload) {
    Envelope envelope{std::move(type), std::move(payload), {}};
    sign(envelope, key);
    EXPECT_EQ(error_of([&] { (void)attested(envelope, keys, 1, "file"); }).code(),
              ErrorCode::bad_input)
        << envelope.payload;
  };
  refuses("application/json", good);
  refuses("application/vnd.in-toto+JSON", good);
  refuses(kInTotoPayload, "");
  refuses(kInTotoPayload, " " + good);
  refuses(kInTotoPayload, good + "x");
  refuses(kInTotoPayload, good + good);
  const Json json = parse_json(good, "payload");
  for (const char* const name : {"_type", "subject", "predicateType", "predicate"}) {
    Json changed = json;
    changed.erase(name);
    refuses(kInTotoPayload, changed.dump());
    changed[name] = 3;
    refuses(kInTotoPayload, changed.dump());
    std::string twice = good;
    twice.insert(1, fmt::format("\"{}\":{},", name, json[name].dump()));
    refuses(kInTotoPayload, twice);
  }
  Json changed = json;
  changed["_type"] = "https://in-toto.io/Statement/v0.1";
  refuses(kInTotoPayload, changed.dump());
  changed = json;
  changed["subject"] = Json::array();
  refuses(kInTotoPayload, changed.dump());
  for (const std::string& digest : {std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                    std::string(64, 'A'), std::string(64, 'g')}) {
    changed = json;
    changed["subject"][0]["digest"]["sha256"] = digest;
    refuses(kInTotoPayload, changed.dump());
  }
  changed = json;
  changed["subject"][0].erase("digest");
  refuses(kInTotoPayload, changed.dump());
}

TEST(TestResults, TheWorstTestIsTheResult) {
  TestResult result{.configuration = {{"seen.npy", std::string(64, 'c')}},
                    .passed = {"a"},
                    .warned = {},
                    .failed = {}};
  const auto round_trip = [&] {
    const Statement statement =
        test_statement({{"new.onnx", std::string(64, 'a')}}, result, Json{{"figure", 0.5}});
    const TestResult read = test_result_in(statement, "file");
    EXPECT_EQ(read.passed, result.passed);
    EXPECT_EQ(read.warned, result.warned);
    EXPECT_EQ(read.failed, result.failed);
    EXPECT_EQ(read.configuration, result.configuration);
    return (*statement.predicate)["result"].get<std::string>();
  };
  EXPECT_EQ(round_trip(), "PASSED");
  result.warned = {"b"};
  EXPECT_EQ(round_trip(), "WARNED");
  result.failed = {"c", "d"};
  EXPECT_EQ(round_trip(), "FAILED");
  Json lie = *test_statement({{"m", std::string(64, 'a')}}, result, {}).predicate;
  lie["result"] = "PASSED";
  EXPECT_EQ(error_of([&] {
              (void)test_result_in({{{"m", std::string(64, 'a')}}, kTestResultType, lie}, "file");
            }).code(),
            ErrorCode::bad_input);
}

}  // namespace
}  // namespace oubli
