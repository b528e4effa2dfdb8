#include "oubli/evidence/keys.h"

#include <gtest/gtest.h>

#include "oubli/base/file.h"
#include "oubli/evidence/base64.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;

// d of the example in DSSE's protocol.md, as PKCS#8 with its public half.
constexpr char kProtocolKey[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg1z7EN/1jRuNhnF6/\n"
    "3/8PaRaASVWtMqyaxJKw7eH2/7ehRANCAARnzTkPd6o1nLCMIjX2UicEk6ntgysK\n"
    "vMAfcJVMA5DSOAx4K9VOJpElpE9EM6/xQyzpThK8pzqmesgM6hJgjd90\n"
    "-----END PRIVATE KEY-----\n";

// r and s, 32 bytes each, as DER, by the plainest rules: no leading zeros but one before a high
// bit.
std::string der_of(std::string_view raw) {
  std::string body;
  for (const std::size_t begin : {0U, 32U}) {
    std::string_view number = raw.substr(begin, 32);
    while (number.size() > 1 && number.front() == 0) number.remove_prefix(1);
    const bool high = (static_cast<unsigned char>(number.front()) & 0x80U) != 0;
    body += '\x02';
    body += static_cast<char>(number.size() + (high ? 1 : 0));
    if (high) body += '\0';
    body += number;
  }
  return std::string("\x30") + static_cast<char>(body.size()) + body;
}

TEST(Base64, IsThatOfTheRfc) {  // RFC 4648, section 10
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  EXPECT_EQ(from_base64("-_-_Pj8="), from_base64("+/+/Pj8="));
  EXPECT_EQ(from_base64("-_-_Pj8="), "\xfb\xff\xbf\x3e\x3f");
}

TEST(Base64, BytesHaveOneTextPerAlphabet) {
  for (const char* const text :
       {"Zg",      "Zg=",  "Zg===", "Zh==",     "Zm9=",  "Zm8",       "Z",
        "=",       "==",   "====",  "Zg==Zg==", "Zm 9v", "Zm9v\n",    " Zm9v",
        "Zm9\xff", "+-+-", "_/_/",  "Zm=v",     "A===",  "Zm9vYg==\n"})
    EXPECT_FALSE(from_base64(text)) << text;
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
}

TEST(Keys, EveryTypeSignsAndIsVerifiedByItsOwnKeyAlone) {
  const testing::TempFolder folder;
  for (const KeyType type : kAllKeyTypes) {
    const auto path = folder / std::string(name_of(type));
    const PublicKey made = generate_keys(path, false, type);
    const PublicKey open = PublicKey::read(public_key_path(path));
    EXPECT_TRUE(open == made);
    EXPECT_EQ(open.type(), type);
    EXPECT_EQ(key_type_named(name_of(type)), type);
    EXPECT_TRUE(PublicKey::from_hex(open.hex()) == open);
    EXPECT_EQ(open.pem(), read_text_file(public_key_path(path)));
    const PrivateKey key = PrivateKey::read(path);
    const std::string signature = key.sign("what is said");
    EXPECT_TRUE(open.verifies("what is said", signature));
    EXPECT_EQ(key.sign("what is said"), signature) << "the same request must give the same bytes";
    EXPECT_NE(key.sign("what is sane"), signature);
    EXPECT_FALSE(open.verifies("what is sane", signature));
    EXPECT_FALSE(open.verifies("what is said", signature + '\0'));
    EXPECT_FALSE(open.verifies("what is said", signature.substr(1)));
    EXPECT_FALSE(open.verifies("what is said", ""));
    for (std::size_t i = 0; i < signature.size(); ++i) {
      std::string changed = signature;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      EXPECT_FALSE(open.verifies("what is said", changed)) << i;
    }
    for (const KeyType other : kAllKeyTypes) {
      const PublicKey stranger = PrivateKey::generate(other).public_key();
      EXPECT_FALSE(stranger.verifies("what is said", signature));
      EXPECT_FALSE(stranger == open);
    }
    EXPECT_EQ(error_of([&] { (void)PrivateKey::read(public_key_path(path)); }).code(),
              ErrorCode::bad_input);
    EXPECT_EQ(error_of([&] { (void)PublicKey::read(path); }).code(), ErrorCode::bad_input);
  }
}

TEST(Keys, EcdsaIsThatOfThePublishedExample) {
  // DSSE, protocol.md: P-256, SHA-256, deterministic by RFC 6979; signature as r and s.
  const testing::TempFolder folder;
  write_file(folder / "key", std::string_view(kProtocolKey), true, 0600);
  const PrivateKey key = PrivateKey::read(folder / "key");
  const std::string signature = key.sign("DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(signature, der_of(*from_base64(
                           "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIA"
                           "riEGAHTVeCUjW2JIZA==")));
}

TEST(Keys, OtherKindsAreRefused) {
  const testing::TempFolder folder;
  const std::pair<const char*, const char*> commands[] = {
      {"rsa", "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 -out "},
      {"p384", "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out "},
      {"k256", "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1 -out "},
      {"x25519", "openssl genpkey -algorithm X25519 -out "},
      {"ed448", "openssl genpkey -algorithm ED448 -out "},
      {"explicit",
       "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt "
       "ec_param_enc:explicit -out "}};
  for (const auto& [name, command] : commands) {
    const std::string path = (folder / name).string();
    ASSERT_EQ(std::system((command + path + " 2>/dev/null").c_str()), 0) << name;
    ASSERT_EQ(std::system(("openssl pkey -pubout -in " + path + " -out " + path + ".pub").c_str()),
              0);
    EXPECT_EQ(error_of([&] { (void)PrivateKey::read(path); }).code(), ErrorCode::bad_input) << name;
    EXPECT_EQ(error_of([&] { (void)PublicKey::read(path + ".pub"); }).code(), ErrorCode::bad_input)
        << name;
  }
  for (const char* const hex : {"", "00", "zz", "3059301306072a8648ce3d020106082a8648ce3d030107"})
    EXPECT_FALSE(PublicKey::from_hex(hex)) << hex;
}

TEST(Keys, APointIsOneKeyHoweverItIsWritten) {
  const testing::TempFolder folder;
  const PublicKey key = generate_keys(folder / "key", false, KeyType::p256);
  const std::string path = (folder / "key").string();
  ASSERT_EQ(std::system(("openssl ec -conv_form compressed -pubout -in " + path + " -out " + path +
                         ".compressed 2>/dev/null")
                            .c_str()),
            0);
  const PublicKey compressed = PublicKey::read(path + ".compressed");
  EXPECT_TRUE(compressed == key);
  EXPECT_TRUE(compressed.verifies("a", PrivateKey::read(folder / "key").sign("a")));
}

}  // namespace
}  // namespace oubli
