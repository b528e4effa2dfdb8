// Options of the program that are wrong, whatever the command: counts, names, outputs over inputs.

#include "oubli/array/npz.h"
#include "oubli/base/digest.h"
#include "oubli/cli/run_program.h"

namespace oubli {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_python;
using testing::TempFolder;

class Options : public ::testing::Test {
 protected:
  void refuses(const std::string& message, const std::string& arguments) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = testing::run_program(folder_, arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(outcome.out, "");
  }

  TempFolder folder_;
};

// Each would train for ever, or with another number than was written, or not at all.
TEST_F(Options, CountsAreDigitsInRange) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> counts{
      {"train mnist -o m.onnx", {"--epochs", "--batch", "--features", "--models", "--jobs"}},
      {"invert mnist", {"--epochs", "--classes", "--images", "--networks", "--steps", "--jobs"}},
      {"reproduce mnist",
       {"--models", "--hidden", "--each-class", "--epochs", "--splits", "--jobs"}},
      {"audit --seen a.npy --unseen b.npy --labels y.npy --class 0",
       {"--images", "--images-retained", "--splits", "--directions", "--bootstrap", "--jobs"}},
      {"forget head.npz --class 1 --data d.npz -o n.npz", {"--samples", "--seed"}}};
  for (const auto& [command, options] : counts)
    for (const std::string& option : options)
      for (const char* const word : {"-1", "010", "2.5", "1e3", "99999999999999999999999"})
        refuses(fmt::format("not {}", word), fmt::format("{} {}={}", command, option, word));
  for (const char* const zero :
       {"train mnist -o m.onnx --epochs 0", "train mnist -o m --models 0",
        "invert mnist --networks 0", "reproduce mnist --hidden 50,0", "reproduce mnist --jobs 0"})
    refuses("not 0", zero);
  refuses("whole number from 1", "reproduce mnist --samples 1,010,all");
  refuses("wanted HEIGHTxWIDTH", "inspect head.npz --size 010x8");
}

TEST_F(Options, NamesHaveTheirNearest) {
  const std::string audit = "audit --seen a.npy --unseen b.npy --labels y.npy --class 0 ";
  refuses("no attack is named 'florest'; did you mean forest?", audit + "--attack florest");
  refuses("no observer is named 'lable'; did you mean label?", audit + "--observer label,lable");
  refuses("no method is named 'zero'; did you mean zeroing?", "inspect head.npz --method zero");
  refuses("no solver is named 'affline'; did you mean affine?",
          "inspect head.npz --solver affline");
}

// --force is for older outputs, never for the file that an array is read from.
TEST_F(Options, OutputsAreNeverTheFilesOfArrays) {
  run_python(folder_, R"(
import numpy as np
rng = np.random.default_rng(0)
np.savez('l.npz', seen=rng.normal(size=(20, 8, 2)), unseen=rng.normal(size=(20, 8, 2)), labels=np.arange(8) % 3)
np.savez('head.npz', W=rng.normal(size=(3, 4)).astype('f4'), b=np.zeros(3, 'f4'))
np.savez('d.npz', features=rng.normal(size=(30, 4)).astype('f4'), labels=np.arange(30) % 3)
np.savez('z.npz', z=np.zeros((1, 2)))
)");
  const std::string arrays = sha256_file(folder_ / "l.npz"),
                    target = sha256_file(folder_ / "z.npz");
  refuses("is the input l.npz",
          "audit --seen l.npz:seen --unseen l.npz:unseen --labels l.npz:labels --class 2 "
          "--csv l.npz --force");
  refuses("is the input z.npz",
          "forget head.npz --class 0 --data d.npz --method custom --target z.npz:z -o z.npz "
          "--force");
  refuses("the same file",
          "audit --seen l.npz:seen --unseen ./l.npz:seen --labels l.npz:labels --class 2");
  EXPECT_EQ(sha256_file(folder_ / "l.npz"), arrays);
  EXPECT_EQ(sha256_file(folder_ / "z.npz"), target);
}

}  // namespace
}  // namespace oubli
