#include "oubli/cli/result_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "oubli/array/npz.h"
#include "oubli/cli/run_program.h"

namespace oubli::cli {
namespace {

using oubli::testing::TempFolder;
using ::testing::HasSubstr;

class Answers : public ::testing::Test {
 protected:
  Answers() {
    AtomicFile file(folder_ / "head.npz", false);
    NpzWriter writer(file);
    const Matrix<double> weights(3, 2, {1, 0, 0, 1, 1, 1});
    writer.add("fc.weight", tensor_view(weights.view(), "fc.weight"));
    writer.finish();
    file.commit();
  }

  TempFolder folder_;
};

TEST_F(Answers, AreWhatTheProgramPrints) {
  const auto expected = oubli::testing::run_program(folder_, "inspect head.npz --json");
  ASSERT_EQ(expected.code, 0) << expected.err;
  const std::string model = (folder_ / "head.npz").string();
  const std::vector<std::string> words{"inspect", model, "--json"};
  std::string here, there;
  std::thread other([&] { there = answer_to(words); });
  here = answer_to(words);
  other.join();
  EXPECT_EQ(here, expected.out);
  EXPECT_EQ(there, expected.out);
}

TEST_F(Answers, FailAsTheProgramDoes) {
  const auto code_of = [](const std::vector<std::string>& words) {
    try {
      static_cast<void>(answer_to(words));
    } catch (const Error& error) {
      return error.exit_code();
    }
    return 0;
  };
  EXPECT_EQ(code_of({"inspect", "head.npz", "--nonsense"}), 2);
  EXPECT_EQ(code_of({"no-such-command"}), 2);
  EXPECT_EQ(code_of({}), 2);
  EXPECT_EQ(code_of({"inspect", (folder_ / "not-there").string()}), 6);
}

TEST_F(Answers, KeepWhatWasPrintedBeforeAFailure) {
  std::string printed;
  EXPECT_THROW(static_cast<void>(answer_to(
                   {"inspect", (folder_ / "head.npz").string(), "--class", "7"}, &printed)),
               Error);
  EXPECT_THAT(printed, HasSubstr("3 classes"));
}

}  // namespace
}  // namespace oubli::cli
