#include "oubli/inversion/study_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace oubli {
namespace {

using ::testing::HasSubstr;

ImageSet three_classes() {
  ImageSet data;
  data.name = "toy";
  data.channels = 1;
  data.height = 1;
  data.width = 2;
  data.class_names = {"a", "b", "c"};
  return data;
}

// Two networks; class b is forgotten by naive deletion. Image k of network 0 is (k, 0).
InversionResult example() {
  InversionResult result;
  result.first_images = {{0, 1}, {0, 1}, {0, 1}};
  for (std::size_t network = 0; network < 2; ++network) {
    float number = 1;
    const auto add = [&](const char* state, std::optional<std::uint32_t> forgotten,
                         std::uint32_t target, bool ghost, double correlation) {
      Reconstruction r{.network = network,
                       .state = state,
                       .forgotten = forgotten,
                       .target = target,
                       .ghost = ghost,
                       .image = {},
                       .likeness = {}};
      r.likeness.correlation = correlation + static_cast<double>(network);
      r.likeness.recognised = network == 0;
      if (network == 0) r.image = {number++, 0};
      result.reconstructions.push_back(r);
    };
    for (std::uint32_t c = 0; c < 3; ++c) add("before", {}, c, false, 0.1 * c);
    for (std::uint32_t c = 0; c < 3; ++c) add("naive", 1, c, false, 0.3 * c);
    add("naive", 1, 1, true, 0.7);
  }
  return result;
}

TEST(Summarise, MeansOverClassesThenSpreadOverNetworks) {
  const auto all = summarise(example());
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].state, "before");
  EXPECT_EQ(all[0].target, "every class");
  EXPECT_EQ(all[0].networks, 2U);
  EXPECT_NEAR(all[0].correlation.mean, 0.6, 1e-12);  // 0.1 and 1.1
  EXPECT_NEAR(all[0].correlation.std, std::sqrt(0.5), 1e-12);
  EXPECT_EQ(all[1].target, "retained");
  EXPECT_NEAR(all[1].correlation.mean, 0.8, 1e-12);  // (0 + 0.6) / 2 and one more
  EXPECT_EQ(all[2].target, "forgotten, guessed logit");
  EXPECT_NEAR(all[2].correlation.mean, 0.8, 1e-12);
  EXPECT_EQ(all[3].target, "forgotten, ghost logit");
  EXPECT_NEAR(all[3].correlation.mean, 1.2, 1e-12);
  EXPECT_NEAR(all[3].recognised.mean, 0.5, 1e-12);
  EXPECT_THAT(to_table(all).text(), HasSubstr("forgotten, ghost logit"));
  EXPECT_THAT(to_table(all).text(), HasSubstr("1.20 ± 0.71"));
}

TEST(Summarise, OneNetworkHasNoSpread) {
  InversionResult one = example();
  std::erase_if(one.reconstructions, [](const Reconstruction& r) { return r.network != 0; });
  const std::string text = to_table(summarise(one)).text();
  EXPECT_THAT(text, HasSubstr("0.70"));
  EXPECT_EQ(text.find("±"), std::string::npos);
}

TEST(Sheets, AreThePapersFigures) {
  const ImageSet data = three_classes();
  const Sheet figure = figure_sheet(example(), data, 1);
  EXPECT_THAT(figure.row_titles, ::testing::ElementsAre("training image", "before", "naive"));
  EXPECT_THAT(figure.column_titles, ::testing::ElementsAre("a", "b", "c"));
  EXPECT_FALSE(figure.rows[2][0].framed);
  EXPECT_TRUE(figure.rows[2][1].framed);
  EXPECT_FALSE(figure.rows[1][1].framed);
  const Sheet full = full_sheet(example(), data);
  EXPECT_THAT(full.row_titles, ::testing::ElementsAre("training image", "before", "without b"));
  const Sheet ghost = ghost_sheet(example(), data);
  EXPECT_THAT(ghost.column_titles, ::testing::ElementsAre("b"));
  EXPECT_THAT(ghost.rows.at(1).at(0).pixels, ::testing::ElementsAre(1, 0));  // stretched
}

TEST(ToJson, NamesFormatAndFigures) {
  const InversionStudy study;
  const auto json =
      to_json(study, three_classes(), example(), summarise(example()), {{"sheet.png", "t", "d"}});
  EXPECT_EQ(json.at("format"), "oubli-inversion");
  // speaks of retrained networks only where there are some
  EXPECT_EQ(json.at("caption").get<std::string>().find("retrained"), std::string::npos);
  InversionResult with = example();
  with.reconstructions.back().state = "retrained";
  EXPECT_THAT(
      to_json(study, three_classes(), with, summarise(with), {}).at("caption").get<std::string>(),
      HasSubstr("'retrained' is a network that never saw the class"));
  EXPECT_EQ(json.at("likeness").size(), 4U);
  EXPECT_NEAR(json.at("likeness")[3].at("correlation").at("mean").get<double>(), 1.2, 1e-12);
  EXPECT_EQ(json.at("tables")[0].at("rows").size(), 4U);
  for (const auto& row : json.at("tables")[0].at("rows"))
    EXPECT_EQ(row.size(), json.at("tables")[0].at("columns").size());
}

}  // namespace
}  // namespace oubli
