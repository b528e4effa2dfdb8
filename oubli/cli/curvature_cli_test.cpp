// Method curvature through the program: what it says, what is refused, what may follow it.

#include <nlohmann/json.hpp>

#include "oubli/base/digest.h"
#include "oubli/cli/run_program.h"
#include "oubli/nn/network_file.h"
#include "oubli/rivals/test_request.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::TempFolder;

class CurvatureCli : public ::testing::Test {
 protected:
  CurvatureCli() {
    const TestRequest& trained = test_request();
    nn::save_network(trained.network, trained.train.class_names, folder_ / "old.onnx");
    save_images(trained.train, folder_ / "images.npz");
  }
  Outcome run(const std::string& arguments) { return testing::run_program(folder_, arguments); }
  void refuses(int code, const std::string& message, const std::string& arguments) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(folder_ / "new.onnx"));
  }

  TempFolder folder_;
  const std::string forget_ = "forget old.onnx --class sw --method curvature ";
  const std::string all_ = forget_ + "--data images.npz -o new.onnx ";
};

TEST_F(CurvatureCli, ForgetsAndVerifies) {
  const Outcome dry = run(forget_ + "--data images.npz --dry-run");
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("Would forget class 2 (sw)"));
  EXPECT_FALSE(fs::exists(folder_ / "new.onnx"));
  const Outcome outcome = run(all_);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("By curvature (experimental)"));
  EXPECT_THAT(outcome.out, HasSubstr("head.weight, head.bias"));
  EXPECT_THAT(outcome.err, HasSubstr("class means gathered before say nothing"));
  EXPECT_TRUE(fs::exists(folder_ / "new.onnx.receipt.json"));
  EXPECT_FALSE(fs::exists(folder_ / "new.onnx.means.npz"));
  const std::string verify = "verify new.onnx.receipt.json --original old.onnx ";
  EXPECT_THAT(run(verify).out, HasSubstr("the images were not given (--data)"));
  const Outcome verified = run(verify + "--data images.npz --recompute");
  EXPECT_EQ(verified.code, 0) << verified.out;
  EXPECT_THAT(verified.out, HasSubstr("the same bit for bit"));
  EXPECT_THAT(run(verify + "--target z.npy").err, HasSubstr("about method curvature"));
  // Nothing of it depends on when it is made, or by how many.
  const std::string digest = sha256_file(folder_ / "new.onnx.receipt.json");
  EXPECT_EQ(run(all_ + "--force").code, 0);
  EXPECT_EQ(sha256_file(folder_ / "new.onnx.receipt.json"), digest);
}

// Of what came out, by a filtration and by another step; and a report about either.
TEST_F(CurvatureCli, TheNextRequestIsChained) {
  ASSERT_EQ(run(all_).code, 0);
  const std::vector<std::size_t> gone{2};
  save_images(without_classes(test_request().train, gone), folder_ / "kept.npz");
  const std::string next_ = "forget new.onnx --class ne --data kept.npz --json ";
  for (const std::string method : {"normalization", "curvature"}) {
    const Outcome next = run(next_ + "--method " + method + " -o " + method + ".onnx");
    ASSERT_EQ(next.code, 0) << next.err;
    const auto receipt = nlohmann::json::parse(next.out);
    EXPECT_EQ(receipt["request"]["method"], method);
    EXPECT_EQ(receipt["previous_receipt_sha256"], sha256_file(folder_ / "new.onnx.receipt.json"));
    const Outcome verified = run("verify " + method +
                                 ".onnx.receipt.json --original new.onnx --data kept.npz "
                                 "--previous new.onnx.receipt.json");
    EXPECT_EQ(verified.code, 0) << verified.out;
    EXPECT_THAT(verified.out, HasSubstr("its output was this request's input"));
  }
  EXPECT_EQ(run("report new.onnx.receipt.json -o page.html").code, 0);
  const std::string page = read_text_file(folder_ / "page.html");
  EXPECT_THAT(page, HasSubstr("tensors changed"));
  EXPECT_THAT(page, Not(HasSubstr("passed on 0 vectors")));
}

// Signed, and as a statement that other programs can check.
TEST_F(CurvatureCli, IsSignedLikeAnyOther) {
  ASSERT_EQ(run("keygen -o receipts.key").code, 0);
  ASSERT_EQ(run(all_ + "--sign receipts.key").code, 0);
  for (const char* const evidence : {"receipt.json", "intoto.jsonl"}) {
    const Outcome verified =
        run(std::string("verify new.onnx.") + evidence + " --key receipts.key.pub");
    EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  }
}

TEST_F(CurvatureCli, WhatIsNotForItIsRefused) {
  refuses(2, "needs the images", forget_ + "-o new.onnx");
  refuses(2, "--solver: not with --method curvature", all_ + "--solver ridge");
  refuses(2, "--explain: not with", all_ + "--explain 0.1");
  refuses(2, "--samples: not with", all_ + "--samples 10");
  refuses(2, "--report", all_ + "--report page.html");
  refuses(2, "as bytes over 255", all_ + "--scale 1 --ignore-accuracy");
  refuses(2, "'oubli forget' alone", "inspect old.onnx --class sw --method curvature");
  // A graph that says the same, without the layers in its metadata: any exporter's.
  std::string bare = read_text_file(folder_ / "old.onnx");
  const std::size_t at = bare.find("oubli.network");
  ASSERT_NE(at, std::string::npos);
  bare.replace(at, 5, "other");
  write_file(folder_ / "old.onnx", bare);
  refuses(4, "for networks that 'oubli train' wrote: this file is none", all_);
}

}  // namespace
}  // namespace oubli
