#include "oubli/data/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>

#include "oubli/base/error.h"
#include "oubli/base/file.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class LoadTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) {
    fs::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, bytes);
    return folder_ / name;
  }

  fs::path folder_;
};

std::string idx(std::initializer_list<unsigned> sizes, const std::string& bytes) {
  std::string text("\0\0\x08", 3);
  text += static_cast<char>(sizes.size());
  for (const unsigned size : sizes) {
    text += std::string(3, '\0');
    text += static_cast<char>(size);
  }
  return text + bytes;
}

void expect_error(ErrorCode code, const std::string& words, const auto& action) {
  try {
    action();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

TEST_F(LoadTest, ReadsIdxPlainAndCompressed) {
  const auto images = write("i", idx({2, 2, 3}, "abcdefghijkl"));
  const auto labels = write("l", idx({2}, std::string("\x03\x00", 2)));
  const ImageSet set = load_idx(images, labels);
  EXPECT_EQ(set.size(), 2U);
  EXPECT_EQ(set.height, 2U);
  EXPECT_EQ(set.width, 3U);
  EXPECT_THAT(set.labels, ElementsAre(3, 0));
  EXPECT_EQ(set.classes(), 4U);
  EXPECT_THAT(set.image(1), ElementsAre('g', 'h', 'i', 'j', 'k', 'l'));

  const std::string raw = idx({2, 2, 3}, "abcdefghijkl");
  const fs::path zipped = folder_ / "i.gz";
  gzFile file = gzopen(zipped.c_str(), "wb");
  gzwrite(file, raw.data(), static_cast<unsigned>(raw.size()));
  gzclose(file);
  EXPECT_EQ(load_idx(zipped, labels).pixels, set.pixels);
  fs::resize_file(zipped, fs::file_size(zipped) - 9);
  expect_error(ErrorCode::bad_input, "i.gz", [&] { (void)load_idx(zipped, labels); });
}

TEST_F(LoadTest, RefusesDamagedIdx) {
  const auto labels = write("l", idx({2}, "ab"));
  for (const std::string& bad :
       {idx({2, 2, 3}, "abc"), idx({2, 2, 3}, "abcdefghijklm"), idx({12}, "abcdefghijkl"),
        std::string("\0\0", 2), idx({3, 2, 2}, "abcdefghijkl")}) {
    const auto images = write("i", bad);
    expect_error(ErrorCode::bad_input, "", [&] { (void)load_idx(images, labels); });
  }
  // sizes whose product overflows 64 bits
  const auto images = write("i", std::string("\0\0\x08\x03", 4) + std::string(12, '\xff'));
  expect_error(ErrorCode::bad_input, "claims more", [&] { (void)load_idx(images, labels); });
}

TEST_F(LoadTest, ReadsCifarBatches) {
  std::string bytes;
  for (int i = 0; i < 3; ++i) {
    bytes += static_cast<char>(i + 4);
    bytes += std::string(3072, static_cast<char>(i));
  }
  const std::vector<fs::path> batches = {write("a", bytes), write("b", bytes)};
  const ImageSet set = load_cifar(batches);
  EXPECT_THAT(set.labels, ElementsAre(4, 5, 6, 4, 5, 6));
  EXPECT_EQ(set.image(5)[3071], 2);
  const std::vector<fs::path> shortened = {write("c", bytes.substr(1))};
  expect_error(ErrorCode::bad_input, "9218 bytes", [&] { (void)load_cifar(shortened); });
  bytes[0] = 10;
  const std::vector<fs::path> wrong = {write("d", bytes)};
  expect_error(ErrorCode::bad_input, "label 10", [&] { (void)load_cifar(wrong); });
}

TEST_F(LoadTest, ReadsPgmFoldersInNaturalOrder) {
  for (int person = 1; person <= 10; ++person)
    write("faces/s" + std::to_string(person) + "/1.pgm",
          "P5\n# a comment\n2 1\n255\n" + std::string(2, static_cast<char>('a' + person)));
  write("faces/README", "not an image");
  const ImageSet set = load_pgm_folder(folder_ / "faces");
  EXPECT_EQ(set.size(), 10U);
  EXPECT_EQ(set.class_names[1], "s2");
  EXPECT_EQ(set.class_names[9], "s10");
  EXPECT_EQ(set.image(9)[0], 'a' + 10);
  write("faces/s3/2.pgm", "P5 1 2 255\nab");
  expect_error(ErrorCode::bad_input, "1 x 2", [&] { (void)load_pgm_folder(folder_ / "faces"); });
  for (const std::string bad : {"P2 2 1 255\nab", "P5 2 1 255\nabc", "P5 2 1 65535\nabcd", "P5 2 1",
                                "P5 99999999999999999999 1 255\n"}) {
    write("faces/s3/2.pgm", bad);
    expect_error(ErrorCode::bad_input, "2.pgm", [&] { (void)load_pgm_folder(folder_ / "faces"); });
  }
}

TEST(NaturalLess, ComparesNumbersAsNumbers) {
  EXPECT_TRUE(natural_less("s2", "s10"));
  EXPECT_FALSE(natural_less("s10", "s2"));
  EXPECT_TRUE(natural_less("a", "b"));
  EXPECT_TRUE(natural_less("s2", "s2a"));
  EXPECT_TRUE(natural_less("2", "02") != natural_less("02", "2"));
  EXPECT_FALSE(natural_less("s2", "s2"));
}

TEST(LoadDataSet, SaysHowToGetWhatIsMissing) {
  expect_error(ErrorCode::usage, "fashion-mnist",
               [] { (void)load_data_set("emnist", Split::test); });
  ::setenv("OUBLI_DATA", "/nonexistent", 1);
  expect_error(ErrorCode::missing, "oubli get-data mnist",
               [] { (void)load_data_set("mnist", Split::test); });
  ::unsetenv("OUBLI_DATA");
}

// Facts about the real sets, for those that tools/get-data fetched.
TEST(LoadDataSet, RealSetsHaveTheirKnownShape) {
  struct Fact {
    std::string name;
    Split split;
    std::size_t size, channels, height, width, classes, per_class;
  };
  bool any = false;
  for (const Fact& fact : {Fact{"fashion-mnist", Split::train, 60000, 1, 28, 28, 10, 6000},
                           Fact{"fashion-mnist", Split::test, 10000, 1, 28, 28, 10, 1000},
                           Fact{"mnist", Split::train, 60000, 1, 28, 28, 10, 0},
                           Fact{"mnist", Split::test, 10000, 1, 28, 28, 10, 0},
                           Fact{"cifar10", Split::train, 50000, 3, 32, 32, 10, 5000},
                           Fact{"cifar10", Split::test, 10000, 3, 32, 32, 10, 1000},
                           Fact{"faces", Split::train, 400, 1, 112, 92, 40, 10}}) {
    if (!fs::is_directory(data_folder() / fact.name)) continue;
    any = true;
    const ImageSet set = load_data_set(fact.name, fact.split);
    EXPECT_EQ(set.size(), fact.size) << fact.name;
    EXPECT_EQ(set.pixels.size(), fact.size * fact.channels * fact.height * fact.width);
    EXPECT_EQ(set.height, fact.height);
    EXPECT_EQ(set.width, fact.width);
    EXPECT_EQ(set.classes(), fact.classes);
    for (std::uint32_t c = 0; fact.per_class > 0 && c < fact.classes; ++c)
      EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(set.labels, c)), fact.per_class);
  }
  if (!any) GTEST_SKIP() << "no data set in " << data_folder() << "; see tools/get-data";
}

}  // namespace
}  // namespace oubli
