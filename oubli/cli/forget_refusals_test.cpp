// The program itself: exit codes, messages, and that bad input leaves nothing behind.

#include <fmt/ranges.h>

#include "oubli/array/npz.h"
#include "oubli/cli/forget_cli.h"
#include "tests/test_paths.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using testing::ForgetCli;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_python;

TEST_F(ForgetCli, BadRequests) {
  const std::string data = " --features f.npy --labels y.npy -o new.npz";
  refuses(2, "did you mean bee", "forget head.npz --class bea --class-names names.txt" + data);
  refuses(2, "0 to 5", "forget head.npz --class 6" + data);
  refuses(2, "0 to 5", "forget head.npz --class -1" + data);
  refuses(2, "twice", "forget head.npz --class 1 --class 1" + data);
  refuses(2, "--class", "forget head.npz" + data);
  refuses(4, "at least two",
          "forget head.npz --class 0 --class 1 --class 2 --class 3 --class 4" + data);
  refuses(2, "needs class means", "forget head.npz --class 1 -o new.npz");
  refuses(2, "--labels is missing", "forget head.npz --class 1 --features f.npy -o new.npz");
  refuses(2, "did you mean", "forget head.npz --class 1 --method normalisation" + data);
  refuses(2, "did you mean paper", "forget head.npz --class 1 --solver papr" + data);
  refuses(2, "go together", "forget head.npz --class 1 --method custom" + data);
  refuses(2, "exists already", "forget head.npz --class 1 --data data.npz -o f.npy");
  refuses(2, "is the input", "forget head.npz --class 1 --data data.npz -o head.npz --force");
  refuses(2, "in that order: 0, 5",
          "forget head.npz --class 5 --class 0 --method custom --target z.npy" + data);
  refuses(2, "1 or more", "forget head.npz --class 1 --samples 0" + data);
  refuses(2, "did you mean forget", "forgot head.npz");
  refuses(2, "no such folder", "forget head.npz --class 1 --data nothing.npz -o new.npz");
  refuses(2, "-o NEW is missing", "forget head.npz --class 1 --data data.npz");
  refuses(4, "at least two", "forget head_two.npz --class 1 --method naive -o new.npz");
}

TEST_F(ForgetCli, InputsAreNeverOutputs) {
  ASSERT_EQ(run("means head.npz --data data.npz -o m.npz").code, 0);
  ASSERT_EQ(run("keygen -o key").code, 0);
  fs::copy_file(folder_ / "m.npz", folder_ / "q.npz.means.npz");
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    before_[entry.path().filename().string()] = sha256_file(entry.path());
  const std::string with_means = "forget head.npz --class 1 --force --means ";
  refuses(2, "is the input", with_means + "m.npz --sign key -o key");
  refuses(2, "is the input", with_means + "m.npz -o m.npz");
  refuses(2, "is the input", with_means + "q.npz.means.npz -o q.npz");
  refuses(2, "is the input", with_means + "m.npz -o n.npz --report head.npz");
  refuses(2, "is the input", with_means + "m.npz --sign key -o n.npz --report key");
  refuses(2, "two outputs", with_means + "m.npz -o n.npz --report n.npz");
  refuses(6, "no folder", with_means + "m.npz -o n.npz --report no/r.html");
  const std::string data = " --features f.npy --labels y.npy --force";
  refuses(2, "is the input", "forget head.npz --class 1 -o f.npy" + data);
  refuses(2, "is the input", "forget head.npz --class 1 -o y.npy" + data);
  refuses(2, "is the input", "means head.npz -o head.npz" + data);
  refuses(2, "is the input", "means head.npz -o ./f.npy" + data);
  refuses(2, "is no file", "means head.npz -o /dev/null" + data);
}

TEST_F(ForgetCli, ReceiptsThatAreReadAreNeverOutputs) {
  ASSERT_EQ(run("forget head.npz --class 1 --data data.npz -o a.npz").code, 0);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    before_[entry.path().filename().string()] = sha256_file(entry.path());
  // The previous receipt is read although nobody named it.
  refuses(2, "is the input",
          "forget a.npz --class 1 --means a.npz.means.npz -o b.npz --report a.npz.receipt.json "
          "--force");
  refuses(2, "is the input", "report a.npz.receipt.json -o a.npz.receipt.json --force");
}

TEST_F(ForgetCli, WordsThatNobodyReadsAreAnError) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  for (const std::string words : {"inspect head.npz --json", "forget --help",
                                  "forget head.npz --class 1 --method naive --dry-run"}) {
    const std::string command =
        fmt::format("cd {} && {}/oubli {} >/dev/full 2>.err", folder_.path().string(),
                    testing::build_folder(), words);
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 6) << words;
    EXPECT_THAT(read_text_file(folder_ / ".err"), HasSubstr("No space left")) << words;
  }
}

TEST_F(ForgetCli, ClassesWithoutSamples) {
  // Naive deletion needs no means, but what it leaves must not pretend to have them.
  const Outcome naive =
      run("forget head.npz --class 1 --method naive --features f.npy --labels y_missing.npy "
          "-o n.npz");
  ASSERT_EQ(naive.code, 0) << naive.err;
  EXPECT_THAT(naive.err, HasSubstr("no means file follows"));
  EXPECT_FALSE(fs::exists(folder_ / "n.npz.means.npz"));
  ASSERT_EQ(run("means head.npz --data data.npz -o m.npz").code, 0);
  run_python(folder_, R"(
import numpy as np, zipfile, io
def change(name, **new):
    with zipfile.ZipFile('m.npz') as a, zipfile.ZipFile(name, 'w') as b:
        for entry in a.namelist():
            raw = a.read(entry)
            if entry[:-4] in new:
                array = np.load(io.BytesIO(raw)); array[tuple(new[entry[:-4]][0])] = new[entry[:-4]][1]
                out = io.BytesIO(); np.save(out, array); raw = out.getvalue()
            b.writestr(entry, raw)
change('m_empty.npz', counts=([3], 0)); change('m_nan.npz', means=([3, 2], np.nan)); change('m_scatter.npz', scatter=([3], -1))
)");
  for (const char* const name : {"m_empty.npz", "m_nan.npz", "m_scatter.npz"}) {
    const Outcome bad = run(fmt::format("forget head.npz --class 1 --means {} -o bad.npz", name));
    EXPECT_EQ(bad.code, 3) << name;
    EXPECT_THAT(bad.err, HasSubstr(name));
    EXPECT_FALSE(fs::exists(folder_ / "bad.npz"));
  }
}

TEST_F(ForgetCli, NoOptionIsIgnored) {
  ASSERT_EQ(run("means head.npz --data data.npz -o means.npz").code, 0);
  const Outcome samples =
      run("forget head.npz --class 1 --means means.npz --data data.npz --samples 3 -o new.npz");
  EXPECT_EQ(samples.code, 2);
  EXPECT_THAT(samples.err, HasSubstr("--samples"));
  for (const std::string command : {"forget head.npz --class 1 --data data.npz --dry-run",
                                    "train fashion-mnist -o t.onnx", "reproduce mnist"}) {
    const Outcome seed = run(command + " --seed -1");
    EXPECT_EQ(seed.code, 2) << command;
    EXPECT_THAT(seed.err, HasSubstr("wanted a whole number, 0 or more, not -1"));
  }
}

TEST_F(ForgetCli, DataIsGivenOnce) {
  const std::string request = "forget head.npz --class 1 --data data.npz -o new.npz ";
  refuses(2, "leave out --features", request + "--features f.npy --labels y.npy");
  refuses(2, "leave out --features", request + "--logits l.npy");
  refuses(2, "leave out --labels", request + "--labels y.npy");
  // Labels that the file does not have may be elsewhere.
  run_python(folder_, "import numpy as np; np.savez('unlabelled.npz', features=np.load('f.npy'))");
  EXPECT_EQ(run("means head.npz --data unlabelled.npz --labels y.npy -o m.npz").code, 0);
}

TEST_F(ForgetCli, WordsAreCheckedWhereverTheyStand) {
  refuses(2, "did you mean", "inspect head.npz --method bogus");
  refuses(2, "did you mean", "inspect head.npz --solver bogus");
  refuses(2, "go together", "inspect head.npz --target none.npy");
  refuses(2, "--class is missing", "inspect head.npz --method custom --target none.npy");
  refuses(2, "HEIGHTxWIDTH", "inspect head.npz --size bogus");
  refuses(2, "contradict", "inspect head.npz --grey --colour");
  refuses(2, "--sign needs a receipt",
          "forget head.npz --class 1 --data data.npz --dry-run --sign none");
}

TEST_F(ForgetCli, BadData) {
  const auto with = [](const std::string& f, const std::string& y) {
    return "forget head.npz --class 1 -o new.npz --features " + f + " --labels " + y;
  };
  refuses(3, "no sample of 1 of 6 classes: 3", with("f.npy", "y_missing.npy"));
  refuses(3, "y_range.npy: label 6 at position 120", with("f.npy", "y_range.npy"));
  refuses(3, "y_float.npy: float32", with("f.npy", "y_float.npy"));
  refuses(3, "239 labels for the 240 samples", with("f.npy", "y_short.npy"));
  refuses(3, "f_nan.npy", with("f_nan.npy", "y.npy"));
  refuses(3, "f_inf.npy", with("f_inf.npy", "y.npy"));
  refuses(3, "f_int.npy: int32", with("f_int.npy", "y.npy"));
  refuses(3, "7 columns, but the model has 8", with("f_narrow.npy", "y.npy"));
  refuses(3, "f_flat.npy", with("f_flat.npy", "y.npy"));
  refuses(3, "f_cut.npy", with("f_cut.npy", "y.npy"));
  refuses(3, "f_lie.npy: the header promises", with("f_lie.npy", "y.npy"));
  refuses(3, "f_huge.npy", with("f_huge.npy", "y.npy"));
  refuses(3, "names.txt", with("names.txt", "y.npy"));
  refuses(6, "none.npy: cannot open", with("none.npy", "y.npy"));
  refuses(
      3, "z_wrong.npy",
      "forget head.npz --class 1 --data data.npz --method custom --target z_wrong.npy -o n.npz");
  refuses(3, "not a means file", "forget head.npz --class 1 --means data.npz -o new.npz");
  refuses(3, "f.npy: ", "forget head.npz --class 1 --class-names f.npy --data data.npz -o new.npz");
}

TEST_F(ForgetCli, BadModels) {
  const std::string request = " --class 1 --method naive -o new.npz";
  refuses(3, "head_nan.npz:W", "forget head_nan.npz" + request);
  refuses(3, "head_nan.npz:W", "inspect head_nan.npz");
  refuses(3, "head_nan.npz:W", "means head_nan.npz --data data.npz -o m.npz");
  refuses(3, "head_cut.npz", "forget head_cut.npz" + request);
  refuses(4, "no float matrix", "forget head_int.npz" + request);
  refuses(3, "data_offsets [0, 192] outside", "forget head_lie.safetensors" + request);
  refuses(3, "no array named 'V'", "forget head.npz --weights V" + request);
  refuses(6, "cannot open", "forget nowhere.npz" + request);
  refuses(3, ".: a folder; wanted a model", "forget ." + request);
  for (const char* const command : {"forget", "inspect"}) {
    const std::string rest = command == std::string("forget") ? request : std::string();
    refuses(3, "git -C . lfs pull", command + (" pointer.onnx" + rest));
    refuses(4, "LightGBM", command + (" trees.pkl" + rest));
  }
  refuses(3, "a Git LFS pointer to 5 bytes", "means pointer.onnx --data data.npz -o m.npz");
  refuses(3, "a Git LFS pointer to 5 bytes", "forget head.npz --data pointer.onnx" + request);
}

TEST_F(ForgetCli, PlacesThatCannotBeWritten) {
  refuses(6, "cannot create",
          "forget head.npz --class 1 --data data.npz -o no/such/folder/new.npz");
  if (::access("/dev/full", W_OK) == 0 && ::access("/proc", F_OK) == 0)
    refuses(6, "cannot create", "forget head.npz --class 1 --data data.npz -o /proc/new.npz");
}

}  // namespace
}  // namespace oubli
