// The program itself: what a request gives, and what is said of it.

#include <nlohmann/json.hpp>
#include <set>

#include "oubli/array/npy.h"
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

TEST_F(ForgetCli, FromDataWithNames) {
  const Outcome outcome =
      run("forget --class cat head.npz --class-names names.txt --features f.npy --labels y.npy "
          "-o new.npz --full");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("forgetting 1 of 6 classes: 2 (cat)"));
  EXPECT_THAT(outcome.out, HasSubstr("leak check"));
  EXPECT_EQ(read_text_file(folder_ / "new.npz.class-names.txt"), "ant\nbee\ndog\nelk\nfox\n");
  expect_untouched(before_.size() + 4);
  run_python(folder_, R"(
import numpy as np
a, b = np.load('head.npz'), np.load('new.npz')
f, y = np.load('f.npy').astype('f8'), np.load('y.npy')
W, c = a['W'].astype('f8'), a['b'].astype('f8')
assert a.files == b.files and (a['other'] == b['other']).all()
# The paper's formula, by inverse: [normalization] z = pi a_c - mean(pi a_c) + mean of the R x R block.
A = np.stack([(f[y == j] @ W.T + c).mean(0) for j in range(6)], axis=1)
R = [0, 1, 3, 4, 5]
z = A[R, 2] - A[R, 2].mean() + A[np.ix_(R, R)].mean()
B = A[R].copy(); B[:, 2] = z
F = B @ np.linalg.inv(A)
assert abs(F @ W - b['W']).max() < 1e-5, abs(F @ W - b['W']).max()
assert abs(F @ c - b['b']).max() < 1e-5
)");
}

TEST_F(ForgetCli, MeansThenNoData) {
  ASSERT_EQ(run("means head.npz --data data.npz --class-names names.txt -o m.npz").code, 0);
  ASSERT_EQ(run("forget head.npz --class bee --means m.npz -o a.npz --json").code, 0);
  ASSERT_EQ(run("forget head.npz --class 1 --data data.npz -o b.npz").code, 0);
  EXPECT_EQ(sha256_file(folder_ / "a.npz"), sha256_file(folder_ / "b.npz"));
  // The next request needs nothing but what the first one left; names live in the means.
  const Outcome second = run("forget a.npz --class fox --means a.npz.means.npz -o c.npz --json");
  ASSERT_EQ(second.code, 0) << second.err;
  const auto receipt = nlohmann::json::parse(second.out);
  EXPECT_EQ(receipt["previous_receipt_sha256"], sha256_file(folder_ / "a.npz.receipt.json"));
  EXPECT_EQ(receipt["request"]["forget"], nlohmann::json({4}));
  EXPECT_EQ(receipt["calibration"]["means_files"][0]["sha256"],
            sha256_file(folder_ / "a.npz.means.npz"));
}

TEST_F(ForgetCli, DryRunAndInspectWriteNothing) {
  const Outcome dry = run("forget head.npz --class 2 --data data.npz --dry-run --json");
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_EQ(nlohmann::json::parse(dry.out)["dry_run"], true);
  const Outcome look = run("inspect head.npz --data data.npz --json");
  ASSERT_EQ(look.code, 0) << look.err;
  const auto json = nlohmann::json::parse(look.out);
  EXPECT_EQ(json["head"]["classes"], 6);
  EXPECT_EQ(json["if_forgotten"]["solver"]["chosen"], "paper");
  EXPECT_EQ(run("inspect head.npz").code, 0);
  expect_untouched(before_.size());
}

TEST_F(ForgetCli, SamplesPerClass) {
  for (const std::string more : {"", " --random-samples --seed 4"}) {
    const Outcome outcome =
        run("forget head.npz --class 2 --data data.npz --samples 5 --dry-run --json" + more);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json document = nlohmann::json::parse(outcome.out);
    ASSERT_FALSE(document["classes"].empty());
    for (const auto& entry : document["classes"]) EXPECT_EQ(entry["samples"], 5);
  }
}

TEST_F(ForgetCli, CustomTarget) {
  const Outcome outcome =
      run("forget head.npz --class 2 --logits l.npy --labels y.npy --method custom --target z.npy "
          "-o n.npz");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto zeroing =
      run("forget head.npz --class 2 --logits l.npy --labels y.npy --method zeroing -o o.npz");
  ASSERT_EQ(zeroing.code, 0) << zeroing.err;
  EXPECT_EQ(sha256_file(folder_ / "n.npz"), sha256_file(folder_ / "o.npz"));
}

TEST_F(ForgetCli, SignedReceiptsVerifyUntilSomethingChanges) {
  ASSERT_EQ(run("keygen -o key").code, 0);
  ASSERT_EQ(run("means head.npz --data data.npz -o m.npz").code, 0);
  ASSERT_EQ(run("forget head.npz --class 2 --means m.npz --sign key -o new.npz").code, 0);
  const std::string verify = "verify new.npz.receipt.json --model new.npz --pubkey key.pub";
  EXPECT_EQ(run(verify).code, 0);
  const Outcome full = run(verify + " --original head.npz --means m.npz --json");
  EXPECT_EQ(full.code, 0) << full.err;
  EXPECT_THAT(full.out, HasSubstr("bit for bit"));
  // The same from the data instead of its means.
  EXPECT_EQ(run(verify + " --original head.npz --data data.npz").code, 0);
  EXPECT_EQ(run("verify new.npz.receipt.json --model head.npz").code, 5);
  EXPECT_EQ(run(verify + " --original new.npz").code, 5);
  ASSERT_EQ(run("keygen -o other").code, 0);
  EXPECT_EQ(run("verify new.npz.receipt.json --model new.npz --pubkey other.pub").code, 5);
  std::string text = read_text_file(folder_ / "new.npz.receipt.json");
  text.replace(text.find("normalization"), 13, "naive");
  write_file(folder_ / "forged.json", text);
  const Outcome forged = run("verify forged.json --model new.npz --pubkey key.pub");
  EXPECT_EQ(forged.code, 5);
  EXPECT_THAT(forged.out, HasSubstr("changed or forged"));
  EXPECT_EQ(run("verify head.npz --model new.npz").code, 3);
  // Steps that can be made are shown although another cannot; samples are the receipt's business.
  const Outcome unfit = run(verify + " --original head.npz --features f_nan.npy --labels y.npy");
  EXPECT_EQ(unfit.code, 5);
  EXPECT_THAT(unfit.out, HasSubstr("passed    signature"));
  EXPECT_THAT(unfit.out, HasSubstr("FAILED    the new head, computed anew: cannot be done: f_nan"));
  EXPECT_EQ(run(verify + " --samples 5").code, 2);
  EXPECT_EQ(run(verify + " --original head.npz --features f.npy").code, 2);
  EXPECT_EQ(run("forget head.npz --class 2 --means m.npz --sign key.pub -o n2.npz").code, 3);
  EXPECT_FALSE(fs::exists(folder_ / "n2.npz"));
}

TEST_F(ForgetCli, VerifySaysWhatItWasGivenInsteadOfAReceipt) {
  ASSERT_EQ(run("forget head.npz --class 2 --method naive -o new.npz").code, 0);
  const Outcome missing = run("verify nothing.receipt.json");
  EXPECT_EQ(missing.code, 6);
  EXPECT_THAT(missing.err, HasSubstr("nothing.receipt.json: cannot open"));
  const Outcome model = run("verify new.npz");
  EXPECT_EQ(model.code, 2);
  EXPECT_THAT(model.err, HasSubstr("oubli verify new.npz.receipt.json"));
  EXPECT_EQ(run("verify new.npz.receipt.json").code, 0);
}

TEST_F(ForgetCli, NamesThatAreNotUtf8) {
  fs::copy_file(folder_ / "head.npz", folder_ / "h\xE9.npz");
  EXPECT_EQ(run("keygen --json -o k\xE9").code, 0);
  const Outcome odd = run("forget h\xE9.npz --class 2 --data data.npz --sign k\xE9 -o n\xE9.npz");
  EXPECT_EQ(odd.code, 0) << odd.err;
  const Outcome verified =
      run("verify n\xE9.npz.receipt.json --model n\xE9.npz --pubkey k\xE9.pub --original h\xE9.npz "
          "--data data.npz --json");
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_EQ(nlohmann::json::parse(verified.out)["receipt"], "n\uFFFD.npz.receipt.json");
  const Outcome note = run("forget head.npz --class 2 --data data.npz -o n.npz --note '\xFF'");
  EXPECT_EQ(note.code, 2) << note.err;
  EXPECT_FALSE(fs::exists(folder_ / "n.npz"));
}

TEST_F(ForgetCli, ABiasIsNotOverlooked) {
  run_python(folder_, R"(
import numpy as np
a = np.load('head.npz')
np.savez('keras.npz', **{'dense_1/kernel:0': a['W'].T, 'dense_1/bias:0': a['b']})
np.savez('numbered.npz', W1=np.zeros((8, 3), 'f4'), b1=np.zeros(8, 'f4'), W2=a['W'], b2=a['b'])
np.savez('odd.npz', W=a['W'], offsets=a['b'], other=np.zeros((2, 2)))
np.savez('scalar.npz', W=a['W'], s=np.float32(1), other=np.zeros((2, 2)))
for name, b in dict(short=a['b'][:5], long=np.zeros(7, 'f4'), whole=np.arange(6, dtype='i4'), swapped=a['b'].astype('>f4'),
                    complex=a['b'].astype('c8'), matrix=np.zeros((2, 3), 'f4'), number=np.float32(0)).items():
    np.savez(name + '.npz', W=a['W'], b=b)
np.savez('row.npz', W=a['W'], b=a['b'][None]); np.savez('odd_row.npz', W=a['W'], offsets=a['b'][None], other=np.zeros((2, 2)))
)");
  const std::string request = " --class 2 --features f.npy --labels y.npy -o ";
  ASSERT_EQ(run("forget head.npz" + request + "plain.npz").code, 0);
  const Outcome keras = run("forget keras.npz --weights dense_1/kernel:0" + request + "k.npz");
  ASSERT_EQ(keras.code, 0) << keras.err;
  const Outcome numbered = run("forget numbered.npz --weights W2" + request + "n.npz");
  ASSERT_EQ(numbered.code, 0) << numbered.err;
  run_python(folder_, R"(
import numpy as np
plain, k, n = (np.load(f) for f in ('plain.npz', 'k.npz', 'n.npz'))
assert (k['dense_1/kernel:0'] == plain['W'].T).all() and (k['dense_1/bias:0'] == plain['b']).all() and len(k.files) == 2
assert (n['W2'] == plain['W']).all() and (n['b2'] == plain['b']).all() and n['b1'].shape == (8,)
)");
  const Outcome odd = run("forget odd.npz --weights W" + request + "o.npz");
  EXPECT_EQ(odd.code, 2);
  EXPECT_THAT(odd.err, HasSubstr("--bias offsets, or --no-bias"));
  EXPECT_EQ(run("forget odd.npz --weights W --bias offsets" + request + "o.npz").code, 0);
  EXPECT_EQ(run("inspect scalar.npz --weights W --bias s").code, 3);
  EXPECT_EQ(run("forget odd_row.npz --weights W" + request + "o2.npz").code, 2);
  ASSERT_EQ(run("forget row.npz --weights W" + request + "r.npz").code, 0);
  run_python(folder_, R"(
import numpy as np
plain, r = np.load('plain.npz'), np.load('r.npz')
assert (r['W'] == plain['W']).all() and r['b'].shape == (1, 5) and (r['b'][0] == plain['b']).all()
)");
  for (const std::string name :
       {"short", "long", "whole", "swapped", "complex", "matrix", "number"}) {
    const Outcome bad =
        run("forget " + name + ".npz --weights W --method naive --class 2 -o x.npz");
    EXPECT_EQ(bad.code, 3) << name;
    EXPECT_THAT(bad.err, HasSubstr("named like the bias of W"));
    EXPECT_FALSE(fs::exists(folder_ / "x.npz"));
  }
  EXPECT_EQ(
      run("forget number.npz --weights W --no-bias --rows-are-classes --method naive --class 2 "
          "-o y.npz")
          .code,
      0);
}

TEST_F(ForgetCli, TellsWhatStaysAndWhatWasRead) {
  const Outcome told =
      run("forget head.npz --class cat --class-names names.txt --data data.npz -o told.npz --full");
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("names: ant, bee, cat, dog, elk, fox\n"));
  EXPECT_THAT(told.out, HasSubstr("2 (cat) (40 samples)"));
  EXPECT_THAT(told.out, HasSubstr("1 bee (40), 3 -> 2 dog (40)"));
  for (const char* const name : {"head.npz", "told.npz", "told.npz.means.npz"})
    EXPECT_THAT(told.out, HasSubstr(fmt::format("{}: {}\n", name, sha256_file(folder_ / name))));
}

TEST_F(ForgetCli, InspectNeedsNoClass) {
  run_python(folder_, R"(
import numpy as np
a, d = np.load('head.npz'), np.load('data.npz')
open('digits.txt', 'w').write('1\n0\n5\n4\n2\n3\n')
keep = d['labels'] < 2
np.savez('pair.npz', W=a['W'][:2], b=a['b'][:2]); np.savez('pair_data.npz', features=d['features'][keep], labels=d['labels'][keep])
)");
  // A name that is another class's index is nothing that was asked for.
  const Outcome digits = run("inspect head.npz --data data.npz --class-names digits.txt");
  EXPECT_EQ(digits.code, 0) << digits.err;
  EXPECT_THAT(digits.out, HasSubstr("Would forget class 0 (1)"));
  const Outcome pair = run("inspect pair.npz --data pair_data.npz");
  EXPECT_EQ(pair.code, 0) << pair.err;
  EXPECT_THAT(pair.out, HasSubstr("at least two must be left"));
}

TEST_F(ForgetCli, NothingIsSaidAboutInputsThatAreNotRun) {
  const std::string with_data = "forget head.npz --class 1 --data data.npz -o new.npz ";
  for (const std::string words : {"--scale 1", "--mean 0.5", "--std 2", "--layout nhwc",
                                  "--size 8x8", "--grey", "--colour", "--runtime none.so"}) {
    const std::string option = words.substr(0, words.find(' '));
    refuses(2, option + " is for inputs", with_data + words);
    refuses(2, option + " is for inputs", "inspect head.npz " + words);
    refuses(2, option + " is for inputs",
            "means head.npz --features f.npy --labels y.npy -o m.npz " + words);
  }
}

TEST_F(ForgetCli, ReceiptsTakeWhatTheyAreAbout) {
  ASSERT_EQ(run("forget head.npz --class 2 --data data.npz -o new.npz").code, 0);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    before_[entry.path().filename().string()] = sha256_file(entry.path());
  const std::string verify = "verify new.npz.receipt.json --model new.npz ";
  refuses(2, "which takes none", verify + "--original head.npz --data data.npz --target z.npy");
  refuses(2, "--target without --original", verify + "--target z.npy");
  refuses(2, "--scale without --original", verify + "--scale 1");
  refuses(2, "nothing here was audited", "report new.npz.receipt.json --method naive -o r.html");
}

TEST_F(ForgetCli, MeansOfFewSamplesAreWarnedOf) {
  const Outcome few = run("means head.npz --data data.npz --samples 50 -o m.npz");
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_THAT(few.err, HasSubstr("warning: class 0 has 40 samples only, fewer than --samples 50"));
  EXPECT_EQ(run("means head.npz --data data.npz --samples 40 -o n.npz").err.find("warning"),
            std::string::npos);
}

TEST_F(ForgetCli, TheListOfTablesCanBeJson) {
  const Outcome list = run("reproduce --list --json");
  ASSERT_EQ(list.code, 0) << list.err;
  EXPECT_FALSE(nlohmann::json::parse(list.out)["tables"].empty());
}

TEST_F(ForgetCli, NamesAreReportedWhereTheyCannotBeCut) {
  run_python(folder_, R"(
import numpy as np
a = np.load('head.npz')
np.savez('named.npz', W=a['W'], b=a['b'], labels=np.array(['ant', 'bee', 'cat', 'dog', 'elk', 'fox']), **{'proto.cat': np.zeros(3)})
)");
  const Outcome outcome =
      run("forget named.npz --weights W --class cat --class-names names.txt --samples 50 "
          "--data data.npz -o new.npz --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto receipt = nlohmann::json::parse(outcome.out);
  std::string findings = receipt["findings"].dump();
  EXPECT_THAT(findings, HasSubstr("labels.npy"));
  EXPECT_THAT(findings, HasSubstr("tensor proto."));
  EXPECT_EQ(outcome.out.find("cat"), std::string::npos) << "the receipt says the name";
  EXPECT_THAT(receipt["warnings"].dump(), HasSubstr("samples only"));
}

}  // namespace
}  // namespace oubli
