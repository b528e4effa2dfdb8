#include "oubli/forget/stored_means.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "oubli/array/npz.h"
#include "oubli/base/random.h"
#include "oubli/forget/calibration.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;

ClassMeans some_means() {
  ClassMeans means(3, 2);
  const Matrix<double> rows(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
  means.add(rows.view(), std::vector<std::uint32_t>{0, 1, 2, 2});
  return means;
}

void write(const std::filesystem::path& path, const StoredMeans& means) {
  AtomicFile out(path);
  write_means(out, means);
  out.commit();
}

TEST(StoredMeans, RoundTripAndReadByNumPy) {
  const TempFolder folder;
  const StoredMeans means = store_means(Space::features, some_means(), {"a", "b", "c"}, "abc");
  write(folder / "means.npz", means);
  const StoredMeans back = read_means(folder / "means.npz");
  EXPECT_EQ(to_matrix(back.means), to_matrix(means.means));
  EXPECT_EQ(back.counts, (std::vector<std::uint64_t>{1, 1, 2}));
  EXPECT_EQ(back.scatter, means.scatter);
  EXPECT_EQ(back.class_names, means.class_names);
  EXPECT_EQ(back.head_sha256, "abc");
  EXPECT_DOUBLE_EQ(back.within_variance(), some_means().within_variance());
  run_python(folder, R"(
import numpy as np, json
a = np.load('means.npz')
assert (a['means'] == [[1, 2], [3, 4], [6, 7]]).all() and (a['counts'] == [1, 1, 2]).all()
assert json.loads(a['about.json'])['format'] == 'oubli-means'
)");
}

TEST(StoredMeans, WhatIsNotAMeansFileIsRefused) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& about) {
    const Matrix<double> matrix(2, 2);
    AtomicFile out(folder / "x.npz");
    NpzWriter writer(out);
    writer.add("means", to_tensor(matrix.view()).view(""));
    if (!about.empty()) writer.add_text("about.json", about);
    writer.finish();
    out.commit();
    const Error error = error_of([&] { (void)read_means(folder / "x.npz"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return std::string(error.what());
  };
  EXPECT_THAT(refusal(""), HasSubstr("not a means file"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("not a means file"));
  EXPECT_THAT(refusal(R"({"format":"oubli-means","version":3})"), HasSubstr("version 3"));
  EXPECT_THAT(refusal(R"({"format":"oubli-means","version":1})"), HasSubstr("damaged"));
  EXPECT_THAT(refusal(R"({"format":"oubli-means","version":1,"space":"x","head_sha256":"",
                          "class_names":[]})"),
              HasSubstr("'x'"));
  EXPECT_THAT(refusal(R"({"format":"oubli-means","version":1,"space":"features","head_sha256":"",
                          "class_names":[]})"),
              HasSubstr("counts"));
}

TEST(ChooseSamples, FirstOnesOrSeeded) {
  const std::vector<std::uint32_t> labels{1, 0, 1, 0, 1, 0, 1};
  EXPECT_EQ(choose_samples(labels, 2, {}).size(), 7U);
  EXPECT_EQ(choose_samples(labels, 2, {.per_class = 2, .random = false, .seed = 0}),
            (std::vector<std::size_t>{0, 1, 2, 3}));
  const SampleChoice seeded{.per_class = 2, .random = true, .seed = 5};
  EXPECT_EQ(choose_samples(labels, 2, seeded), choose_samples(labels, 2, seeded));
  std::size_t different = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    different += choose_samples(labels, 2, {.per_class = 2, .random = true, .seed = seed}) !=
                 choose_samples(labels, 2, seeded);
  EXPECT_GT(different, 5U);  // 18 choices: 20 alike have odds of 18^-15 or so
}

TEST(GatherMeans, EqualsTheMeanOfTheChosenRows) {
  Matrix<float> values(50, 3);
  RandomStream random(1, 0);
  for (float& value : values.flat()) value = static_cast<float>(random.normal());
  CalibrationData data;
  data.values = share(to_tensor(MatrixView<const float>(values)), "x.npy");
  for (std::size_t i = 0; i < 50; ++i) data.labels.push_back(static_cast<std::uint32_t>(i * i % 4));
  const std::vector<std::size_t> chosen{0, 1, 2, 5, 7, 8, 9, 30, 49};
  const ClassMeans means = gather_means(data, 4, chosen, false, {});
  for (std::uint32_t j = 0; j < 4; ++j)
    for (std::size_t d = 0; d < 3; ++d) {
      double sum = 0;
      double count = 0;
      for (const std::size_t i : chosen)
        if (data.labels[i] == j) {
          sum += static_cast<double>(values(i, d));
          ++count;
        }
      if (count > 0) {
        EXPECT_NEAR(means.means()(j, d), sum / count, 1e-14);
      }
    }
  const Error missing = error_of([&] { (void)gather_means(data, 4, chosen, true, {}); });
  EXPECT_EQ(missing.code(), ErrorCode::bad_input);
  EXPECT_THAT(missing.what(), HasSubstr("no sample of"));
}

}  // namespace
}  // namespace oubli
