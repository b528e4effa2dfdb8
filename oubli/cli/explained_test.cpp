// Method explained through the program: what it computes, what its receipt says, what verify finds.

#include <nlohmann/json.hpp>

#include "oubli/base/digest.h"
#include "oubli/cli/run_program.h"

namespace oubli {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::run_python;
using testing::TempFolder;

// The formulas of docs/method.md, section 8, by inverses.
constexpr char kOracle[] = R"(
import json, numpy as np
f, y = np.load('f.npy').astype('f8'), np.load('y.npy')
def expected(C, rho, S, head):
    W, b = head['W'].astype('f8'), head['b'].astype('f8')
    k, p = W.shape
    R = [j for j in range(k) if j not in C]
    M = np.stack([f[y == j].mean(0) for j in range(k)], axis=1)
    mR = M[:, R].mean(1)
    P = S @ np.linalg.inv(S + rho * np.trace(S) / p * np.eye(p))
    A = W @ M + b[:, None]
    B = A[R].copy()
    for c in C:
        t = (W @ (P @ (M[:, c] - mR) + mR) + b)[R]
        B[:, c] = t - t.mean() + A[np.ix_(R, R)].mean()
    F = B @ np.linalg.inv(A)
    return F @ W, F @ b
def full(C):
    kept = f[~np.isin(y, C)]
    mR = np.mean([f[y == j].mean(0) for j in range(6) if j not in C], axis=0)
    return (kept - mR).T @ (kept - mR) / len(kept)
def from_means(C):
    R = [j for j in range(6) if j not in C]
    means = np.array([f[y == j].mean(0) for j in R])
    within = sum(((f[y == j] - f[y == j].mean(0)) ** 2).sum(0) for j in R)
    n = np.array([(y == j).sum() for j in R])
    d = (means - means.mean(0)) * np.sqrt(n / n.sum())[:, None]
    return d.T @ d + np.diag(within / n.sum())
def check(name, C, rho, S):
    W, b = expected(C, rho, S, np.load('head.npz'))
    new = np.load(name)
    scale = abs(W).max()
    assert abs(new['W'] - W).max() < 2e-6 * scale, abs(new['W'] - W).max() / scale
    assert abs(new['b'] - b).max() < 2e-6 * scale
)";

class ExplainedCli : public ::testing::Test {
 protected:
  ExplainedCli() {
    run_python(folder_, R"(
import numpy as np
rng = np.random.default_rng(3)
W, b = rng.normal(size=(6, 8)).astype('f4'), rng.normal(size=6).astype('f4')
y = np.repeat(np.arange(6), 60)[rng.permutation(360)]
f = (W[y] + rng.normal(size=(360, 8)) * np.geomspace(1, .05, 8)).astype('f4')
np.savez('head.npz', W=W, b=b)
np.save('f.npy', f); np.save('y.npy', y); np.save('l.npy', f @ W.T + b)
few = np.sort(np.concatenate([np.flatnonzero(y == j)[:3] for j in range(6)]))
np.save('f3.npy', f[few]); np.save('y3.npy', y[few])
)");
  }
  Outcome run(const std::string& arguments) { return testing::run_program(folder_, arguments); }
  nlohmann::json receipt(const std::string& arguments) {
    const Outcome outcome = run(arguments + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  }
  void python(const std::string& program) { run_python(folder_, kOracle + program); }

  TempFolder folder_;
  const std::string data_ = " --features f.npy --labels y.npy";
  const std::string explained_ = "forget head.npz --solver paper --method explained";
};

TEST_F(ExplainedCli, FromDataIsTheFormulaAndVerifiesBitForBit) {
  const auto made = receipt(explained_ + " --class 2 --explain 0.1 -o new.npz" + data_);
  python("check('new.npz', [2], .1, full([2]))");
  EXPECT_EQ(made["request"]["method"], "explained");
  EXPECT_EQ(made["request"]["explain"], 0.1);
  EXPECT_EQ(made["explained"]["carried_out"], true);
  EXPECT_EQ(made["explained"]["spread_from"], "samples");
  EXPECT_EQ(made["explained"]["rows"], 300);
  EXPECT_EQ(made["leak_check"]["retained_samples"], 300);
  const Outcome shown = run("inspect head.npz --class 2 --method explained --full" + data_);
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("method explained, rho 0.07: 300 retained samples explain 0."));
  EXPECT_THAT(run("inspect head.npz --class 2 --method explained --explain 100" + data_).out,
              HasSubstr("Top labels changed, against cutting off: "));
  const std::string verify = "verify new.npz.receipt.json --model new.npz --original head.npz";
  const Outcome full = run(verify + data_);
  EXPECT_EQ(full.code, 0) << full.out;
  EXPECT_THAT(full.out, HasSubstr("bit for bit"));
  // Means do not hold S; what cannot be done is said, not failed.
  ASSERT_EQ(run("means head.npz -o m.npz" + data_).code, 0);
  const Outcome means = run(verify + " --means m.npz");
  EXPECT_EQ(means.code, 0) << means.out;
  EXPECT_THAT(means.out, HasSubstr("made from data, which must be given again"));
}

TEST_F(ExplainedCli, SeveralClasses) {
  ASSERT_EQ(run(explained_ + " --class 4 --class 1 --explain 0.15 -o new.npz" + data_).code, 0);
  python("check('new.npz', [1, 4], .15, full([1, 4]))");
}

TEST_F(ExplainedCli, FromAMeansFileAndTheNextRequestToo) {
  ASSERT_EQ(run("means head.npz -o m.npz" + data_).code, 0);
  const auto made = receipt(explained_ + " --class 2 --means m.npz -o new.npz");
  python(R"(
check('new.npz', [2], .07, from_means([2]))
# Nothing of the forgotten class is in what stays.
old, new = np.load('m.npz'), np.load('new.npz.means.npz')
R = [0, 1, 3, 4, 5]
assert json.loads(old['about.json'])['version'] == 2
for name in ('means', 'counts', 'scatter', 'feature_scatter'):
    assert (new[name] == old[name][R]).all() and old[name].dtype == new[name].dtype, name
squares = np.stack([((f[y == j] - f[y == j].mean(0)) ** 2).sum(0) for j in range(6)])
assert abs(old['feature_scatter'] / squares - 1).max() < 60 * 6e-8
)");
  EXPECT_EQ(made["explained"]["spread_from"], "means");
  EXPECT_EQ(made["explained"]["rows"], 5);
  // From the means, or from the data that they come from.
  for (const std::string& source : {std::string(" --means m.npz"), data_}) {
    const Outcome verified =
        run("verify new.npz.receipt.json --model new.npz --original head.npz" + source);
    EXPECT_EQ(verified.code, 0) << verified.out;
    EXPECT_THAT(verified.out, HasSubstr("bit for bit"));
  }
  EXPECT_EQ(receipt("forget new.npz --class 0 --method explained --means new.npz.means.npz -o "
                    "next.npz")["explained"]["carried_out"],
            true);
}

TEST_F(ExplainedCli, WithTooLittleNormalizationIsUsedAndEverybodySaysSo) {
  const std::string few = " --features f3.npy --labels y3.npy";
  const auto made = receipt(explained_ + " --class 2 -o new.npz" + few);
  EXPECT_EQ(made["explained"]["carried_out"], false);
  EXPECT_THAT(run(explained_ + " --class 2 --dry-run" + few).out, HasSubstr("By normalization"));
  EXPECT_THAT(made["warnings"].dump(), HasSubstr("method normalization was used, not explained"));
  ASSERT_EQ(run("forget head.npz --solver paper --class 2 -o same.npz" + few).code, 0);
  EXPECT_EQ(sha256_file(folder_ / "new.npz"), sha256_file(folder_ / "same.npz"));
  EXPECT_THAT(run("verify new.npz.receipt.json --model new.npz --original head.npz" + few).out,
              HasSubstr("bit for bit"));
  // Means files of version 1 are read, but do not tell enough.
  ASSERT_EQ(run("means head.npz -o m.npz" + data_).code, 0);
  run_python(folder_, R"(
import io, json, zipfile
old = zipfile.ZipFile('m.npz')
with zipfile.ZipFile('m1.npz', 'w') as new:
    for name in old.namelist():
        if name == 'about.json':
            new.writestr(name, json.dumps({**json.loads(old.read(name)), 'version': 1}))
        elif name != 'feature_scatter.npy':
            new.writestr(name, old.read(name))
)");
  const auto old = receipt(explained_ + " --class 2 --means m1.npz -o old.npz");
  EXPECT_EQ(old["explained"]["carried_out"], false);
  EXPECT_THAT(old["warnings"].dump(), HasSubstr("variances of single features"));
  // With the data more could be done, but that was not what the receipt is about.
  EXPECT_THAT(run("verify old.npz.receipt.json --model old.npz --original head.npz" + data_).out,
              HasSubstr("bit for bit"));
}

TEST_F(ExplainedCli, Refusals) {
  const auto refuses = [&](int code, const std::string& message, const std::string& arguments) {
    SCOPED_TRACE(arguments);
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code);
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "no.npz"));
  };
  refuses(2, "--explain and --method explained go together",
          "forget head.npz --class 2 --explain 0.1 -o no.npz" + data_);
  refuses(2, "wanted a number from 0.001 to 1000",
          explained_ + " --class 2 --explain 0 -o no.npz" + data_);
  refuses(2, "needs features", explained_ + " --class 2 --logits l.npy --labels y.npy -o no.npz");
  ASSERT_EQ(run("means head.npz -o m.npz" + data_).code, 0);
  run_python(folder_, R"(
import zipfile, numpy as np
old = np.load('m.npz')
def damaged(name, scatter):
    parts = {k: old[k] for k in ('means', 'counts', 'scatter')}
    np.savez(name, **parts, feature_scatter=scatter)
    with zipfile.ZipFile(name, 'a') as z: z.writestr('about.json', old['about.json'])
s = old['feature_scatter']
t = s.copy(); t[1, 1] = -1; damaged('negative.npz', t)
t = s.copy(); t[1, 1] = np.nan; damaged('nan.npz', t)
damaged('shape.npz', s[:, :5]); damaged('type.npz', s.astype('f8'))
)");
  refuses(3, "wanted sums of squares", explained_ + " --class 2 --means negative.npz -o no.npz");
  refuses(3, "feature_scatter", explained_ + " --class 2 --means nan.npz -o no.npz");
  refuses(3, "wanted float32", explained_ + " --class 2 --means shape.npz -o no.npz");
  refuses(3, "wanted float32", explained_ + " --class 2 --means type.npz -o no.npz");
}

}  // namespace
}  // namespace oubli
