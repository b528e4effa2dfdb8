#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "oubli/base/digest.h"
#include "oubli/cli/run_program.h"

// For tests: a folder with a head, its data, and files that are wrong in one way each.
namespace oubli::testing {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

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

}  // namespace oubli::testing
