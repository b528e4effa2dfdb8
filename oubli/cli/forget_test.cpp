// The program itself: exit codes, messages, and that bad input leaves nothing behind.

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "oubli/array/npy.h"
#include "oubli/array/npz.h"
#include "oubli/base/digest.h"
#include "oubli/cli/run_program.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_python;
using testing::TempFolder;

class ForgetCli : public ::testing::Test {
 protected:
  // A head of 6 classes x 8 features and 40 samples of each class, as people would save them.
  ForgetCli() {
    run_python(folder_, R"(
import numpy as np
rng = np.random.default_rng(0)
W, b = rng.normal(size=(6, 8)).astype('f4'), rng.normal(size=6).astype('f4')
y = np.repeat(np.arange(6), 40)
f = (W[y] + .5 * rng.normal(size=(240, 8))).astype('f4')
np.savez('head.npz', W=W, b=b, other=np.arange(3.0))
np.savez_compressed('data.npz', features=f, labels=y)
np.save('f.npy', f); np.save('y.npy', y); np.save('l.npy', f @ W.T + b)
open('names.txt', 'w').write('ant\nbee\ncat\ndog\nelk\nfox\n')
def bad(name, **arrays): np.savez(name, **arrays)
np.save('y_missing.npy', np.where(y == 3, 2, y))
np.save('y_range.npy', np.where(y == 3, 6, y))
np.save('y_float.npy', y.astype('f4'))
np.save('y_short.npy', y[:-1])
g = f.copy(); g[17, 3] = np.nan; np.save('f_nan.npy', g)
g[17, 3] = np.inf; np.save('f_inf.npy', g)
np.save('f_int.npy', f.astype('i4')); np.save('f_narrow.npy', f[:, :7]); np.save('f_flat.npy', f.ravel())
np.save('z.npy', np.zeros((1, 5))); np.save('z_wrong.npy', np.zeros((1, 6)))
V = W.copy(); V[2, 2] = np.nan; bad('head_nan.npz', W=V, b=b)
bad('head_two.npz', W=W[:2], b=b[:2]); bad('head_int.npz', W=(W * 9).astype('i4'))
bad('head_square.npz', W=W[:, :6], b=b)
raw = open('head.npz', 'rb').read()
open('head_cut.npz', 'wb').write(raw[:-30])
raw = open('f.npy', 'rb').read()
open('f_cut.npy', 'wb').write(raw[:-5])
open('f_lie.npy', 'wb').write(raw.replace(b'(240, 8)', b'(999, 8)'))
open('f_huge.npy', 'wb').write(raw.replace(b"(240, 8), }     ", b"(1844674407370, 99999999999999), }")[:len(raw)])
open('head_lie.safetensors', 'wb').write((60).to_bytes(8, 'little') + b'{"W":{"dtype":"F32","shape":[6,8],"data_offsets":[0,192]}}  ' + bytes(100))
open('pointer.onnx', 'w').write('version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n')
open('trees.pkl', 'w').write('tree\nversion=v3\n')
)");
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      before_[entry.path().filename().string()] = sha256_file(entry.path());
  }

  Outcome run(const std::string& arguments) { return testing::run_program(folder_, arguments); }
  // The exit code and a part of the message are as said, and the folder is as it was.
  void refuses(int code, const std::string& message, const std::string& arguments) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(outcome.out, "");
    expect_untouched(before_.size());
  }
  void expect_untouched(std::size_t files) {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      ++count;
      const auto known = before_.find(entry.path().filename().string());
      if (known != before_.end()) {
        EXPECT_EQ(sha256_file(entry.path()), known->second) << entry.path();
      }
    }
    EXPECT_EQ(count, files);
  }

  TempFolder folder_;
  std::map<std::string, std::string> before_;
};

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
    const std::string command = fmt::format("cd {} && {}/oubli {} >/dev/full 2>.err",
                                            folder_.path().string(), OUBLI_BINARY_DIR, words);
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
  EXPECT_EQ(run("forget number.npz --weights W --no-bias --method naive --class 2 -o y.npz").code,
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
