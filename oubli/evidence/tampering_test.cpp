#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "oubli/base/json.h"
#include "oubli/evidence/attested.h"
#include "oubli/evidence/base64.h"
#include "oubli/evidence/evidence_file.h"

namespace oubli {
namespace {

using Json = nlohmann::ordered_json;

// Evidence of one statement that somebody changes on its way, as an envelope and as a bundle.
class Tampering : public ::testing::TestWithParam<KeyType> {
 protected:
  Tampering() { sign(envelope_, key_); }

  // What a verifier takes the evidence to say; none if it is refused.
  [[nodiscard]] std::optional<std::string> believed(const std::string& text) const {
    try {
      const auto envelopes = parse_evidence(text, "file");
      if (!envelopes || envelopes->size() != 1) return std::nullopt;
      const Attested found = attested(envelopes->front(), keys_, 1, "file");
      return found.statement ? std::optional(envelopes->front().payload) : std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  void refused(const Json& json) const { EXPECT_FALSE(believed(json.dump())) << json.dump(2); }

  PrivateKey key_ = PrivateKey::generate(GetParam());
  std::vector<PublicKey> keys_{key_.public_key()};
  Envelope envelope_ = enclose(Statement({{"new.npz", std::string(64, 'a')}}, "urn:example:v1",
                                         Json{{"forget", {3}}, {"method", "naive"}}));
};

TEST_P(Tampering, EveryMemberOfTheEnvelopeIsFixed) {
  const Json good = envelope_json(envelope_);
  ASSERT_TRUE(believed(good.dump()));
  for (const char* const name : {"payload", "payloadType", "signatures"}) {
    Json changed = good;
    changed.erase(name);
    refused(changed);
    for (const Json& value :
         {Json(), Json(1), Json(""), Json("AAAA"), Json::array(), Json::object(), Json(true)}) {
      changed = good;
      changed[name] = value;
      refused(changed);
    }
    std::string twice = good.dump();
    twice.insert(1, fmt::format("\"{}\":{},", name, good[name].dump()));
    EXPECT_FALSE(believed(twice)) << name;
  }
  for (const char* const pointer : {"", "/signatures/0"}) {
    Json changed = good;
    changed[Json::json_pointer(pointer)]["added"] = "x";
    refused(changed);
  }
  for (const char* const name : {"keyid", "sig"}) {
    for (const Json& value : {Json(), Json(1), Json("AAAA"), Json::array()}) {
      Json changed = good;
      changed["signatures"][0][name] = value;
      refused(changed);
    }
    std::string twice = good.dump();
    twice.insert(twice.find("{\"keyid\"") + 1,
                 fmt::format("\"{}\":{},", name, good["signatures"][0][name].dump()));
    EXPECT_FALSE(believed(twice)) << name;
  }
  Json changed = good;
  changed["signatures"][0].erase("sig");
  refused(changed);
  changed = good;
  changed["signatures"] = Json::array();
  refused(changed);
  changed["signatures"] = Json::array({Json::object()});
  refused(changed);
  // Only the hint may be missing, which the specification leaves open.
  changed = good;
  changed["signatures"][0].erase("keyid");
  EXPECT_EQ(believed(changed.dump()), envelope_.payload);
}

TEST_P(Tampering, EveryMemberOfTheStatementIsSigned) {
  const Json statement = parse_json(envelope_.payload, "payload");
  const Json flat = statement.flatten();
  const auto refused_payload = [&](const std::string& payload) {
    ASSERT_NE(payload, envelope_.payload);
    Json changed = envelope_json(envelope_);
    changed["payload"] = to_base64(payload);
    refused(changed);
  };
  std::size_t members = 0;
  for (const auto& entry : flat.items()) {
    const Json::json_pointer pointer(entry.key());
    Json changed = statement;
    changed[pointer] = "changed";
    refused_payload(changed.dump());
    changed = statement;
    Json& parent = changed[pointer.parent_pointer()];
    if (parent.is_object()) {
      parent.erase(pointer.back());
      refused_payload(changed.dump());
      changed = statement;
      changed[pointer.parent_pointer()]["added"] = 1;
      refused_payload(changed.dump());
    }
    ++members;
  }
  EXPECT_EQ(members, 6);               // _type, name, sha256, predicateType, forget[0], method
  refused_payload(statement.dump(1));  // laid out otherwise
  refused_payload(nlohmann::json::parse(statement.dump()).dump());  // sorted
  refused_payload(envelope_.payload + " ");
  refused_payload(envelope_.payload + std::string(1, '\0'));
  refused_payload("");
}

TEST_P(Tampering, EveryMemberOfTheBundleIsFixed) {
  const Json good = parse_json(bundle_text(envelope_), "bundle");
  ASSERT_TRUE(believed(good.dump()));
  const auto at = [](const char* pointer) { return Json::json_pointer(pointer); };
  for (const char* const pointer :
       {"/mediaType", "/verificationMaterial", "/verificationMaterial/publicKey",
        "/verificationMaterial/publicKey/hint", "/dsseEnvelope", "/dsseEnvelope/payload",
        "/dsseEnvelope/payloadType", "/dsseEnvelope/signatures", "/dsseEnvelope/signatures/0/keyid",
        "/dsseEnvelope/signatures/0/sig"}) {
    Json changed = good;
    changed[at(pointer).parent_pointer()].erase(at(pointer).back());
    refused(changed);
    for (const Json& value : {Json(), Json(1), Json("AAAA"), Json::array(), Json::object()}) {
      changed = good;
      changed[at(pointer)] = value;
      refused(changed);
    }
  }
  for (const char* const pointer : {"", "/verificationMaterial", "/verificationMaterial/publicKey",
                                    "/dsseEnvelope", "/dsseEnvelope/signatures/0"}) {
    Json changed = good;
    changed[at(pointer)]["added"] = "x";
    refused(changed);
  }
  Json changed = good;
  changed[at("/verificationMaterial/tlogEntries")].push_back(Json::object());
  refused(changed);
  changed = good;  // two signatures are one too many for a bundle
  Json& signatures = changed[at("/dsseEnvelope/signatures")];
  signatures.push_back(Json(signatures[0]));
  refused(changed);
  changed = good;
  changed["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.2";
  refused(changed);
}

TEST_P(Tampering, NoByteCanBeChangedAndGiveAnotherStatement) {
  for (const std::string& text : {envelope_line(envelope_), bundle_text(envelope_)}) {
    ASSERT_EQ(believed(text), envelope_.payload);
    for (std::size_t i = 0; i < text.size(); ++i) {
      for (const char other : {static_cast<char>(text[i] ^ 1), static_cast<char>(text[i] ^ 0x20),
                               'A', '-', '=', '\0'}) {
        std::string changed = text;
        changed[i] = other;
        EXPECT_EQ(believed(changed).value_or(envelope_.payload), envelope_.payload) << changed;
      }
      std::string shorter = text;
      shorter.erase(i, 1);
      EXPECT_EQ(believed(shorter).value_or(envelope_.payload), envelope_.payload) << shorter;
    }
    for (const char* const behind : {"x", " ", "\n", "{}", "\"\"", "\n{}\n"})
      EXPECT_FALSE(believed(text + behind)) << behind;
    EXPECT_FALSE(believed(text + std::string(1, '\0')));
  }
}

TEST_P(Tampering, EitherAlphabetOfBase64ButNoOtherVariant) {
  const Json good = envelope_json(envelope_);
  const auto with = [&](auto change) {
    Json changed = good;
    for (Json* const value : {&changed["payload"], &changed["signatures"][0]["sig"]}) {
      std::string text = value->get<std::string>();
      change(text);
      *value = text;
    }
    return believed(changed.dump());
  };
  EXPECT_TRUE(with([](std::string& text) {
    std::ranges::replace(text, '+', '-');
    std::ranges::replace(text, '/', '_');
  }));
  EXPECT_FALSE(with([](std::string& text) { text += "="; }));
  EXPECT_FALSE(with([](std::string& text) { text += "\n"; }));
  EXPECT_FALSE(with([](std::string& text) { text.insert(4, "\n"); }));
  EXPECT_FALSE(with([](std::string& text) { text.insert(0, " "); }));
  EXPECT_FALSE(with([](std::string& text) { text += "===="; }));
  // Without padding: 64 bytes of Ed25519 have some, those of P-256 not always.
  const bool padded = good.dump().find("=\"") != std::string::npos;
  EXPECT_TRUE(padded || GetParam() == KeyType::p256);
  if (padded) {
    EXPECT_FALSE(with([](std::string& text) { std::erase(text, '='); }));
  }
}

TEST_P(Tampering, AKeyOfAnotherKindSaysNothing) {
  for (const KeyType type : kAllKeyTypes) {
    const std::vector<PublicKey> others{PrivateKey::generate(type).public_key()};
    EXPECT_FALSE(attested(envelope_, others, 1, "file").statement);
  }
  // The other key's hint on this key's signature, and the other way round.
  const PrivateKey other =
      PrivateKey::generate(GetParam() == KeyType::p256 ? KeyType::ed25519 : KeyType::p256);
  Envelope confused = envelope_;
  sign(confused, other);
  std::swap(confused.signatures[0].key_id, confused.signatures[1].key_id);
  const std::vector<PublicKey> both{key_.public_key(), other.public_key()};
  EXPECT_FALSE(attested(confused, both, 1, "file").statement);
  EXPECT_FALSE(attested(confused, keys_, 1, "file").statement);
}

INSTANTIATE_TEST_SUITE_P(Keys, Tampering, ::testing::ValuesIn(kAllKeyTypes), [](const auto& test) {
  return test.param == KeyType::p256 ? "P256" : "Ed25519";
});

}  // namespace
}  // namespace oubli
