#include "oubli/forget/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "oubli/array/npz.h"
#include "oubli/base/random.h"
#include "oubli/evidence/keys.h"
#include "oubli/forget/receipt.h"
#include "oubli/forget/signature.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using State = VerifyStep::State;
using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;

const HeadChoice kRows{.transposed = false};  // nothing in these files says so

// A signed deletion, done once for all tests: old.npz, old-means.npz, new.npz with its receipt,
// key.
class Verify : public ::testing::Test {
 protected:
  Verify() {
    RandomStream random(3, 0);
    Matrix<float> weights(5, 7);
    for (float& w : weights.flat()) w = static_cast<float>(random.normal());
    Matrix<double> rows(50, 7);
    std::vector<std::uint32_t> labels;
    for (std::size_t i = 0; i < rows.rows(); ++i) {
      labels.push_back(static_cast<std::uint32_t>(i % 5));
      for (std::size_t d = 0; d < 7; ++d)
        rows(i, d) = static_cast<double>(weights(i % 5, d)) + 0.3 * random.normal();
    }
    {
      AtomicFile out(folder_ / "old.npz");
      NpzWriter writer(out);
      writer.add("W", to_tensor(MatrixView<const float>(weights)).view(""));
      writer.finish();
      out.commit();
    }
    old_ = ModelFile::open(folder_ / "old.npz", kRows);
    ClassMeans means(5, 7);
    means.add(rows.view(), labels);
    {
      AtomicFile out(folder_ / "means.npz");
      write_means(out, store_means(Space::features, means, {}, head_digest(old_->head())));
      out.commit();
    }
    public_key_ = generate_keys(folder_ / "key", false).hex();
    original_.model = old_.get();
    original_.means = read_means(folder_ / "means.npz");
    original_.means_files = {digest_of("means", folder_ / "means.npz")};
    forget(original_, folder_ / "new.npz", std::nullopt);
    new_ = ModelFile::open(folder_ / "new.npz", kRows);
    receipt_ = parse_receipt(read_text_file(receipt_path(folder_ / "new.npz")), "receipt");
  }

  void forget(const ForgetInputs& inputs, const fs::path& out, std::optional<fs::path> previous) {
    ForgetRequest request;
    request.forget = {1};
    request.ignore_accuracy = inputs.data.has_value();  // the only samples here are noise
    const ForgetPlan plan = plan_forget(inputs, request);
    (void)carry_out(
        inputs, request, plan,
        {.model = out, .previous_receipt = std::move(previous), .signing_key = folder_ / "key"});
  }
  [[nodiscard]] VerifyInputs everything() const {
    VerifyInputs inputs;
    inputs.model = new_.get();
    inputs.public_key = public_key_;
    inputs.original = &original_;
    return inputs;
  }
  static State state_of(std::span<const VerifyStep> steps, const std::string& what) {
    for (const VerifyStep& step : steps)
      if (step.what == what) return step.state;
    ADD_FAILURE() << "no step " << what;
    return State::not_made;
  }

  TempFolder folder_;
  std::unique_ptr<ModelFile> old_;
  std::unique_ptr<ModelFile> new_;
  ForgetInputs original_;
  std::string public_key_;
  nlohmann::ordered_json receipt_;
};

TEST_F(Verify, AnHonestReceiptPassesEveryStep) {
  const auto steps = verify_receipt(receipt_, everything());
  for (const char* const what : {"signature", "the new model", "the new model's head",
                                 "the list of classes", "the new means", "the original",
                                 "the original's head", "its means", "the new head, computed anew"})
    EXPECT_EQ(state_of(steps, what), State::passed) << what;
  EXPECT_EQ(state_of(steps, "earlier receipt"), State::not_made);
  for (const VerifyStep& step : steps)
    if (step.what == "the new head, computed anew") {
      EXPECT_EQ(step.detail, "is the same bit for bit");
    }
}

// auto measures its gain where there is data, and estimates it where there are means alone.
TEST_F(Verify, AChoiceMadeOnDataIsVerifiedFromMeansAndTheOtherWayRound) {
  // Samples that scatter far more within classes than the means file knows of.
  RandomStream random(4, 0);
  auto values = std::make_shared<Matrix<float>>(200, 7);
  CalibrationData data;
  for (std::size_t i = 0; i < 200; ++i) {
    data.labels.push_back(static_cast<std::uint32_t>(i % 5));
    for (float& value : values->row(i)) value = static_cast<float>(20 * random.normal());
  }
  data.values = {tensor_view(MatrixView<const float>(*values), "data"), values};
  {
    AtomicFile out(folder_ / "data.bin");
    out.write(std::as_bytes(values->flat()));
    out.commit();
  }
  data.files = {digest_of("data", folder_ / "data.bin")};
  ForgetInputs with_data = original_;
  with_data.data = data;
  forget(with_data, folder_ / "by-data.npz", std::nullopt);
  const auto receipt =
      parse_receipt(read_text_file(receipt_path(folder_ / "by-data.npz")), "receipt");
  ASSERT_NE(receipt["solver"]["chosen"], receipt_["solver"]["chosen"]);
  const auto by_data = ModelFile::open(folder_ / "by-data.npz", kRows);

  VerifyInputs inputs = everything();
  inputs.model = by_data.get();
  EXPECT_EQ(state_of(verify_receipt(receipt, inputs), "the new head, computed anew"),
            State::passed);
  inputs = everything();
  inputs.original = &with_data;
  EXPECT_EQ(state_of(verify_receipt(receipt_, inputs), "the new head, computed anew"),
            State::passed);
  // Data that was named is compared, even where there are means.
  inputs.model = by_data.get();
  EXPECT_EQ(state_of(verify_receipt(receipt, inputs), "its data"), State::passed);
  with_data.data->files[0].sha256 = std::string(64, '0');
  EXPECT_EQ(state_of(verify_receipt(receipt, inputs), "its data"), State::failed);
  // Receipts of before data sets known by name had digests say nothing of them.
  auto silent = receipt;
  silent["calibration"]["data_files"][0]["sha256"] = "";
  EXPECT_EQ(state_of(verify_receipt(silent, inputs), "its data"), State::not_made);
  // What was chosen cannot be another one than was asked for.
  auto lie = receipt;
  lie["request"]["solver"] = "paper";
  lie["solver"]["chosen"] = "ridge";
  const Error refused = error_of([&] { (void)verify_receipt(lie, inputs); });
  EXPECT_EQ(refused.code(), ErrorCode::bad_input);
  EXPECT_THAT(refused.what(), HasSubstr("chosen"));
}

TEST_F(Verify, EveryChangeOfTheReceiptBreaksTheSignature) {
  // Each value of the receipt in turn, however deep, is replaced.
  const auto flat = receipt_.flatten();
  std::size_t changed = 0;
  for (const auto& [pointer, value] : flat.items()) {
    if (pointer.starts_with("/signature")) continue;
    auto forged = receipt_;
    forged[nlohmann::ordered_json::json_pointer(pointer)] = "forged";
    if (forged == receipt_) continue;
    EXPECT_EQ(check_signature(forged, public_key_), SignatureState::invalid) << pointer;
    ++changed;
  }
  EXPECT_GT(changed, 50U);
  auto more = receipt_;
  more["extra"] = 1;
  EXPECT_EQ(check_signature(more, public_key_), SignatureState::invalid);
  auto less = receipt_;
  less.erase("limits");
  EXPECT_EQ(check_signature(less, public_key_), SignatureState::invalid);
  for (const char* const member : {"algorithm", "public_key", "value"}) {
    auto torn = receipt_;
    torn["signature"].erase(member);
    EXPECT_NE(check_signature(torn, public_key_), SignatureState::valid) << member;
  }
  auto noted = receipt_;  // the signature does not sign itself
  noted["signature"]["note"] = "Class 5 was forgotten as well";
  EXPECT_EQ(check_signature(noted, public_key_), SignatureState::invalid);
  auto bare = receipt_;
  bare.erase("signature");
  EXPECT_EQ(check_signature(bare, public_key_), SignatureState::unsigned_receipt);
  EXPECT_EQ(check_signature(receipt_, std::string(64, '0')), SignatureState::other_key);
}

TEST_F(Verify, LayoutOfTheJsonDoesNotMatter) {
  const auto again = nlohmann::ordered_json::parse(nlohmann::json(receipt_).dump(7));
  EXPECT_EQ(check_signature(again, public_key_), SignatureState::valid);
}

TEST_F(Verify, AnotherImplementationAgrees) {
  // OpenSSL's own program checks the signature over the canonical form that Python makes.
  write_file(folder_ / "receipt.json", receipt_.dump());
  run_python(folder_, R"(
import json, subprocess
receipt = json.load(open('receipt.json'))
signature = bytes.fromhex(receipt.pop('signature')['value'])
open('message', 'w').write(json.dumps(receipt, sort_keys=True, separators=(',', ':'), ensure_ascii=False))
open('signature', 'wb').write(signature)
subprocess.run(['openssl', 'pkeyutl', '-verify', '-pubin', '-inkey', 'key.pub', '-rawin', '-in', 'message',
                '-sigfile', 'signature'], check=True, stdout=subprocess.DEVNULL)
)");
}

TEST_F(Verify, AnotherModelMeansOrOriginalIsNoticed) {
  VerifyInputs inputs = everything();
  inputs.model = old_.get();
  EXPECT_EQ(state_of(verify_receipt(receipt_, inputs), "the new model"), State::failed);
  EXPECT_EQ(state_of(verify_receipt(receipt_, inputs), "the new head, computed anew"),
            State::failed);
  ForgetInputs other = original_;
  other.means_files[0].sha256 = std::string(64, 'a');
  inputs = everything();
  inputs.original = &other;
  EXPECT_EQ(state_of(verify_receipt(receipt_, inputs), "its means"), State::failed);
  auto damaged = receipt_;
  damaged.erase("output");
  EXPECT_EQ(error_of([&] { (void)verify_receipt(damaged, everything()); }).code(),
            ErrorCode::bad_input);
}

TEST_F(Verify, DamageIsNamedByItsPlace) {
  using Json = nlohmann::ordered_json;
  const auto refusal = [&](const std::string& pointer, const Json& value) {
    Json damaged = receipt_;
    damaged[Json::json_pointer(pointer)] = value;
    const Error error = error_of([&] { (void)verify_receipt(damaged, everything()); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input) << pointer;
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("exception")));
    return std::string(error.what());
  };
  EXPECT_THAT(refusal("/request/forget/0", 99999999999),
              HasSubstr("request.forget[0] is 99999999999, wanted one of 5 classes"));
  EXPECT_THAT(refusal("/request/forget", Json::array()),
              HasSubstr("is [], wanted at least one class"));
  EXPECT_THAT(refusal("/request/forget", {2, 1}), HasSubstr("ascending"));
  EXPECT_THAT(refusal("/request/forget/0", -1), HasSubstr("wanted a whole number"));
  EXPECT_THAT(refusal("/output/files/0/sha256", 7),
              HasSubstr("output.files[0].sha256 is 7, wanted a text"));
  EXPECT_THAT(refusal("/request/method", "magic"), HasSubstr("request.method is \"magic\""));
  EXPECT_THAT(refusal("/input", Json()), HasSubstr("input is null, wanted an object"));
  // Whatever is missing, nothing but our own error comes out, or a failed signature.
  const Json flat = receipt_.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    Json damaged = receipt_;
    const Json::json_pointer place(pointer);
    Json& parent = damaged[place.parent_pointer()];
    if (parent.is_object())
      parent.erase(place.back());
    else
      parent = Json::object();
    try {
      (void)verify_receipt(damaged, everything());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input) << pointer;
      EXPECT_THAT(error.what(), HasSubstr("the receipt is damaged: "));
    }
  }
  Json damaged = receipt_;
  damaged["output"].erase("files");
  EXPECT_THAT(error_of([&] { (void)verify_receipt(damaged, everything()); }).what(),
              HasSubstr("no output.files"));
}

TEST_F(Verify, WhatTheReceiptSaysOfHeadsClassesAndFilesBesideIsChecked) {
  const auto with = [&](const std::string& pointer, const nlohmann::ordered_json& value) {
    auto changed = receipt_;
    changed[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return verify_receipt(changed, everything());
  };
  const std::string other(64, 'a');
  EXPECT_EQ(state_of(with("/output/head/sha256", other), "the new model's head"), State::failed);
  EXPECT_EQ(state_of(with("/input/head/sha256", other), "the original's head"), State::failed);
  EXPECT_EQ(state_of(with("/classes/1/new", 1), "the list of classes"), State::failed);
  EXPECT_EQ(state_of(with("/classes/2/new", nullptr), "the list of classes"), State::failed);
  ASSERT_EQ(receipt_["output"]["files"][1]["role"], "means");
  EXPECT_EQ(state_of(with("/output/files/1/sha256", other), "the new means"), State::failed);
  // Receipts may leave names out: what is named after the model is looked at first.
  EXPECT_EQ(state_of(with("/output/files/1/name", "moved.npz"), "the new means"), State::passed);
  for (const char* const name : {"../means.npz", "/etc/passwd", "..", ".", ""})
    EXPECT_EQ(state_of(with("/output/files/1/name", name), "the new means"), State::failed) << name;
}

TEST_F(Verify, OneStepThatCannotBeFinishedLeavesTheOthers) {
  VerifyInputs inputs = everything();
  ForgetInputs unfit = original_;
  unfit.model = new_.get();  // four classes, where the means are of five
  inputs.original = &unfit;
  auto steps = verify_receipt(receipt_, inputs);
  EXPECT_EQ(state_of(steps, "signature"), State::passed);
  EXPECT_EQ(state_of(steps, "the original"), State::failed);
  EXPECT_EQ(state_of(steps, "the new head, computed anew"), State::failed);
  inputs = everything();
  inputs.problem = Error(ErrorCode::missing, "needs ONNX Runtime");
  steps = verify_receipt(receipt_, inputs);
  EXPECT_EQ(state_of(steps, "the original"), State::passed);
  EXPECT_EQ(state_of(steps, "the new head, computed anew"), State::not_made);
  inputs.problem = Error(ErrorCode::bad_input, "damaged data");
  inputs.original = nullptr;
  steps = verify_receipt(receipt_, inputs);
  EXPECT_EQ(state_of(steps, "signature"), State::passed);
  EXPECT_EQ(state_of(steps, "the original"), State::failed);
}

TEST_F(Verify, ALaterReceiptNamesTheEarlierOne) {
  ForgetInputs next;
  next.model = new_.get();
  next.means = read_means(means_path(folder_ / "new.npz"));
  const fs::path first = receipt_path(folder_ / "new.npz");
  forget(next, folder_ / "newer.npz", first);
  const auto newer = ModelFile::open(folder_ / "newer.npz", kRows);
  const auto receipt = parse_receipt(read_text_file(receipt_path(folder_ / "newer.npz")), "");
  VerifyInputs inputs;
  inputs.model = newer.get();
  inputs.previous = first;
  EXPECT_EQ(state_of(verify_receipt(receipt, inputs), "earlier receipt"), State::passed);
  inputs.previous = receipt_path(folder_ / "newer.npz");
  EXPECT_EQ(state_of(verify_receipt(receipt, inputs), "earlier receipt"), State::failed);
}

TEST_F(Verify, KeysAreSecretAndChecked) {
  EXPECT_EQ(fs::status(folder_ / "key").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(PublicKey::read(folder_ / "key.pub").hex(), public_key_);
  EXPECT_EQ(error_of([&] { (void)PublicKey::read(folder_ / "means.npz"); }).code(),
            ErrorCode::bad_input);
  EXPECT_EQ(error_of([&] { generate_keys(folder_ / "key", false); }).code(), ErrorCode::usage);
  auto receipt = receipt_;
  EXPECT_EQ(error_of([&] { sign_receipt(receipt, folder_ / "key.pub"); }).code(),
            ErrorCode::bad_input);
}

TEST_F(Verify, KeysAreReplacedTogetherOrNotAtAll) {
  fs::create_directory(folder_ / "pair");
  write_file(folder_ / "pair.pub", "old");
  EXPECT_EQ(error_of([&] { generate_keys(folder_ / "pair", true); }).code(), ErrorCode::usage);
  EXPECT_EQ(read_text_file(folder_ / "pair.pub"), "old");
  fs::create_directory(folder_ / "open.pub");
  write_file(folder_ / "open", "old");
  EXPECT_EQ(error_of([&] { generate_keys(folder_ / "open", true); }).code(), ErrorCode::usage);
  EXPECT_EQ(read_text_file(folder_ / "open"), "old");
  EXPECT_EQ(error_of([&] { generate_keys("", true); }).code(), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { generate_keys(folder_ / "new" / "", true); }).code(), ErrorCode::usage);
  EXPECT_FALSE(fs::exists(folder_ / ".pub"));
  // One that cannot be written keeps the other away, too.
  write_file(folder_ / "half.pub", "old");
  EXPECT_EQ(error_of([&] { generate_keys(folder_ / "half", false); }).code(), ErrorCode::usage);
  EXPECT_FALSE(fs::exists(folder_ / "half"));
}

TEST_F(Verify, StopsWhenAskedTo) {
  std::stop_source source;
  source.request_stop();
  VerifyInputs inputs = everything();
  inputs.stop = source.get_token();
  EXPECT_EQ(error_of([&] { (void)verify_receipt(receipt_, inputs); }).code(),
            ErrorCode::interrupted);
}

TEST_F(Verify, NamesThatAreNotUtf8AreReplacedAndNotesRefused) {
  const fs::path odd = folder_ / "n\xE9w.npz";
  forget(original_, odd, std::nullopt);
  const auto model = ModelFile::open(odd, kRows);
  const auto receipt = parse_receipt(read_text_file(receipt_path(odd)), "");
  EXPECT_EQ(receipt["output"]["files"][0]["name"], "n\uFFFDw.npz");
  VerifyInputs inputs = everything();
  inputs.model = model.get();
  EXPECT_EQ(state_of(verify_receipt(receipt, inputs), "signature"), State::passed);
  ForgetRequest request;
  request.forget = {1};
  request.note = "\xFF";
  const ForgetPlan plan = plan_forget(original_, request);
  EXPECT_EQ(error_of([&] {
              (void)carry_out(original_, request, plan, {.model = folder_ / "n.npz"});
            }).code(),
            ErrorCode::usage);
  EXPECT_FALSE(fs::exists(folder_ / "n.npz"));
}

TEST(UnitsApart, CountsNeighbours) {
  const auto apart = [](float a, float b) {
    return *units_apart({DType::f32, {1}, std::as_bytes(std::span(&a, 1)), ""},
                        {DType::f32, {1}, std::as_bytes(std::span(&b, 1)), ""});
  };
  EXPECT_EQ(apart(1, 1), 0U);
  EXPECT_EQ(apart(0.F, -0.F), 0U);
  EXPECT_EQ(apart(1, std::nextafter(1.F, 2.F)), 1U);
  EXPECT_EQ(apart(1, std::nextafter(1.F, 0.F)), 1U);
  EXPECT_EQ(apart(-1, std::nextafter(-1.F, 0.F)), 1U);
  EXPECT_EQ(apart(std::nextafter(0.F, 1.F), std::nextafter(0.F, -1.F)), 2U);
  const Tensor half{DType::f16, {1}, std::vector<std::byte>(2)};
  const Tensor brain{DType::bf16, {1}, std::vector<std::byte>(2)};
  EXPECT_FALSE(units_apart(half.view(""), brain.view("")));
}

TEST(RelativeDifference, IsMeasuredInTheLargestNumberOfTheRow) {
  const Tensor first = to_tensor(MatrixView<const float>(Matrix<float>(2, 2, {4, 0, 1, 1})));
  const Tensor second = to_tensor(MatrixView<const float>(Matrix<float>(2, 2, {4, 0.5, 1, 1.25})));
  const HeadView a{.weights = first.view("")};
  const HeadView b{.weights = second.view("")};
  EXPECT_DOUBLE_EQ(relative_difference(a, b), 0.2);
  const HeadView c{.weights = first.view(""), .transposed = true};
  const HeadView d{.weights = second.view(""), .transposed = true};
  EXPECT_DOUBLE_EQ(relative_difference(c, d), 0.5 / 1.25);
  EXPECT_EQ(relative_difference(a, a), 0);
}

}  // namespace
}  // namespace oubli
