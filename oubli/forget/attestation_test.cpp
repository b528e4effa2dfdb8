#include "oubli/forget/attestation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oubli/base/digest.h"
#include "oubli/base/json.h"
#include "oubli/forget/receipt.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using Json = nlohmann::ordered_json;
using State = VerifyStep::State;

std::string digest(char c) { return std::string(64, c); }

Json file(const char* role, const char* name, char c) {
  return {{"role", role}, {"name", name}, {"sha256", digest(c)}};
}

// As much of a receipt as a statement is made of: model `before` became model `after`.
Json receipt(char before, char after, const Json& previous = {}) {
  return {{"format", kReceiptFormat},
          {"version", kReceiptVersion},
          {"input", {{"files", {file("model", "old.npz", before)}}}},
          {"output",
           {{"files", {file("model", "new.npz", after), file("means", "new.npz.means.npz", '9')}}}},
          {"previous_receipt_sha256", previous},
          {"calibration", {{"means_files", {file("means", "means.npz", '8')}}}},
          {"figure", 0.1}};
}

std::string digest_of_file(const Json& written) {
  return sha256_hex(as_bytes(to_text(written, 1) + "\n"));
}

class Attestation : public ::testing::Test {
 protected:
  Envelope signed_by(const PrivateKey& key, const Statement& statement) {
    Envelope envelope = enclose(statement);
    sign(envelope, key);
    return envelope;
  }
  Envelope deletion(const Json& of) { return signed_by(key_, deletion_statement(of)); }
  EvidenceCheck check(const std::vector<Envelope>& envelopes, char model,
                      std::size_t threshold = 1) {
    return check_evidence(envelopes, keys_, threshold, digest(model), "file");
  }
  static VerifyStep step(const EvidenceCheck& check, std::string_view what) {
    for (const VerifyStep& step : check.steps)
      if (step.what == what) return step;
    ADD_FAILURE() << "no step " << what;
    return {};
  }
  static State chain(const EvidenceCheck& check) {
    return step(check, "the chain of deletions").state;
  }

  PrivateKey key_ = PrivateKey::generate(KeyType::p256);
  std::vector<PublicKey> keys_{key_.public_key()};
};

TEST_F(Attestation, NamesWhatCameOutAndWhatWentIn) {
  const Json said = receipt('1', '2', digest('7'));
  const Statement statement = deletion_statement(said);
  EXPECT_EQ(statement.subjects,
            (std::vector<Artifact>{{"new.npz", digest('2')}, {"new.npz.means.npz", digest('9')}}));
  const Json& materials = (*statement.predicate)["materials"];
  ASSERT_EQ(materials.size(), 3);
  const std::pair<const char*, char> expected[] = {
      {"model", '1'}, {"means", '8'}, {"previous receipt", '7'}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(materials[i]["annotations"]["role"], expected[i].first);
    EXPECT_EQ(materials[i]["digest"]["sha256"], digest(expected[i].second));
  }
  EXPECT_EQ(receipt_in(statement, "file"), said);
  // Through text and back, the receipt is the file that was written, byte for byte.
  EXPECT_EQ(to_text(receipt_in(statement_in(enclose(statement), "file"), "file"), 1),
            to_text(said, 1));
}

TEST_F(Attestation, NoTwoPartsOfAStatementDisagree) {
  const Statement good = deletion_statement(receipt('1', '2'));
  const auto refused = [&](auto change) {
    Statement changed = good;
    Json predicate = *good.predicate;
    change(changed, predicate);
    changed.predicate = std::make_shared<const Json>(predicate);
    EXPECT_EQ(error_of([&] { (void)receipt_in(changed, "file"); }).code(), ErrorCode::bad_input);
  };
  refused([](Statement& s, Json&) { s.subjects[0].sha256 = digest('3'); });
  refused([](Statement& s, Json&) { s.subjects[0].name = "other"; });
  refused([](Statement& s, Json&) { s.subjects.pop_back(); });
  refused([](Statement& s, Json&) { s.subjects.push_back({"more", digest('5')}); });
  refused([](Statement& s, Json&) { s.predicate_type = "urn:oubli:class-deletion:v2"; });
  refused([](Statement&, Json& p) { p.erase("materials"); });
  refused([](Statement&, Json& p) { p.erase("receipt"); });
  refused([](Statement&, Json& p) { p["materials"].erase(0); });
  refused([](Statement&, Json& p) { p["materials"][0]["digest"]["sha256"] = digest('3'); });
  refused([](Statement&, Json& p) { p["materials"][0]["annotations"]["role"] = "means"; });
  refused([](Statement&, Json& p) { p["receipt"]["output"]["files"][0]["sha256"] = digest('3'); });
  refused([](Statement&, Json& p) { p["receipt"]["input"]["files"][0]["sha256"] = digest('3'); });
  refused([](Statement&, Json& p) { p["receipt"]["previous_receipt_sha256"] = digest('3'); });
  refused([](Statement&, Json& p) { p["receipt"]["version"] = 99; });
  refused([](Statement&, Json& p) { p["receipt"]["output"]["files"] = "none"; });
}

TEST_F(Attestation, ExactlyOneDeletionGaveTheModel) {
  const Envelope envelope = deletion(receipt('1', '2'));
  const EvidenceCheck found = check({envelope}, '2');
  EXPECT_EQ(step(found, "a deletion that gave this model").state, State::passed);
  EXPECT_EQ(step(found, "signature of the statement").state, State::passed);
  EXPECT_EQ(chain(found), State::not_made);
  ASSERT_TRUE(found.deletion);
  EXPECT_EQ(receipt_in(*found.deletion, "file"), receipt('1', '2'));
  EXPECT_FALSE(check({envelope}, '1').deletion) << "the old model was not given by it";
  EXPECT_FALSE(check({envelope}, '3').deletion);
  EXPECT_FALSE(check({envelope, envelope}, '2').deletion) << "which one?";
  // Somebody else's statement about the same model is none of ours, with or without ours.
  const PrivateKey stranger = PrivateKey::generate(KeyType::ed25519);
  const Envelope other = signed_by(stranger, deletion_statement(receipt('4', '2')));
  EXPECT_FALSE(check({other}, '2').deletion);
  EXPECT_TRUE(check({other, envelope}, '2').deletion);
  EXPECT_FALSE(check({envelope}, '2', 2).deletion);
  // Without a key it is read, and nothing is said about who signed.
  const EvidenceCheck unknown = check_evidence(std::vector{envelope}, {}, 1, digest('2'), "file");
  EXPECT_TRUE(unknown.deletion);
  EXPECT_EQ(step(unknown, "signature of the statement").state, State::not_made);
}

TEST_F(Attestation, AChainIsFollowedByModelsAndReceipts) {
  const Json first = receipt('1', '2');
  const Json second = receipt('2', '3', digest_of_file(first));
  const Json third = receipt('3', '4', digest_of_file(second));
  const Envelope a = deletion(first);
  const Envelope b = deletion(second);
  const Envelope c = deletion(third);
  EXPECT_EQ(chain(check({a, b, c}, '4')), State::passed);
  EXPECT_EQ(chain(check({c, a, b}, '4')), State::passed) << "in any order";
  EXPECT_EQ(chain(check({b, c}, '4')), State::passed) << "as far as it is there";
  EXPECT_EQ(chain(check({a, b, c}, '3')), State::passed);
  EXPECT_EQ(chain(check({a, c}, '4')), State::not_made);
  // Another receipt for the step in between than the one that was named.
  Json other = second;
  other["figure"] = 0.2;
  EXPECT_EQ(chain(check({a, deletion(other), c}, '4')), State::failed);
  EXPECT_EQ(chain(check({a, deletion(receipt('2', '3')), c}, '4')), State::failed);
  // Two ways to one model, and a circle.
  EXPECT_EQ(chain(check({a, deletion(receipt('5', '2')), b}, '3')), State::failed);
  EXPECT_EQ(chain(check({deletion(receipt('3', '2')), b}, '3')), State::failed);
  EXPECT_EQ(chain(check({deletion(receipt('2', '2'))}, '2')), State::failed);
}

TEST_F(Attestation, TestResultsAboutTheModelAreShown) {
  TestResult result;
  result.failed = {"logits"};
  const Envelope test = signed_by(key_, test_statement({{"new.npz", digest('2')}}, result, Json()));
  const Envelope envelope = deletion(receipt('1', '2'));
  const VerifyStep said = step(check({envelope, test}, '2'), "a test result about this model");
  EXPECT_NE(said.detail.find("says FAILED"), std::string::npos);
  EXPECT_NE(said.detail.find("logits"), std::string::npos);
  const EvidenceCheck elsewhere = check({deletion(receipt('2', '3')), envelope, test}, '3');
  EXPECT_TRUE(std::ranges::none_of(elsewhere.steps, [](const VerifyStep& step) {
    return step.what == "a test result about this model";
  }));
}

}  // namespace
}  // namespace oubli
