#include "oubli/inversion/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "oubli/base/error.h"
#include "oubli/base/random.h"
#include "oubli/inversion/study_output.h"

namespace oubli {
namespace {

// Four classes of 8 x 8 pictures, each a bright quarter, with noise.
ImageSet quarters() {
  ImageSet data;
  data.name = "quarters";
  data.channels = 1;
  data.height = 8;
  data.width = 8;
  data.class_names = {"a", "b", "c", "d"};
  RandomStream random(1, task_id("quarters"));
  for (std::uint32_t i = 0; i < 40; ++i) {
    const std::uint32_t label = i % 4;
    data.labels.push_back(label);
    for (std::uint32_t y = 0; y < 8; ++y)
      for (std::uint32_t x = 0; x < 8; ++x) {
        const bool bright = y / 4 * 2 + x / 4 == label;
        data.pixels.push_back(static_cast<std::uint8_t>((bright ? 160 : 40) + random.below(50)));
      }
  }
  return data;
}

InversionStudy study() {
  InversionStudy out;
  out.spec.name = "small";
  out.spec.height = 8;
  out.spec.width = 8;
  out.spec.classes = 4;
  nn::LayerSpec sigmoid;
  sigmoid.kind = nn::LayerKind::sigmoid;
  out.spec.layers = {nn::dense(20), sigmoid};
  out.training.epochs = 60;
  out.training.batch = 8;
  out.training.seed = 7;
  out.forget = {0, 2};
  out.networks = 2;
  out.start.assign(64, 0.5F);
  out.descent.steps = 50;
  return out;
}

TEST(Inversion, ReconstructsWhatANetworkKnowsAndNotWhatItNeverSaw) {
  const auto summaries = summarise(run_inversion(study(), quarters()));
  const auto of = [&](const char* state, const char* target) {
    return std::ranges::find_if(
        summaries, [&](const auto& s) { return s.state == state && s.target == target; });
  };
  EXPECT_GT(of("before", "every class")->own.mean, 0.7);
  EXPECT_GT(of("naive", "forgotten, guessed logit")->own.mean, 0.5);
  EXPECT_LT(of("retrained", "forgotten, guessed logit")->own.mean, 0.3);
  EXPECT_GT(of("normalization", "retained")->own.mean, 0.7);
  EXPECT_EQ(of("before", "every class")->recognised.mean, 1);
}

TEST(Inversion, DependsOnSeedAndNumberOfTheNetworkAlone) {
  InversionStudy one = study();
  const auto first = run_inversion(one, quarters());
  one.workers = 2;
  const auto second = run_inversion(one, quarters());
  ASSERT_EQ(first.reconstructions.size(), second.reconstructions.size());
  for (std::size_t i = 0; i < first.reconstructions.size(); ++i) {
    EXPECT_EQ(first.reconstructions[i].image, second.reconstructions[i].image);
    EXPECT_EQ(first.reconstructions[i].likeness.ssim, second.reconstructions[i].likeness.ssim);
  }
  // before: 4; per forgotten class: (naive, normalization, retrained) x (4 + ghost); 2 networks.
  EXPECT_EQ(first.reconstructions.size(), 2U * (4 + 2 * 3 * 5));
}

TEST(WithoutClass, NormalizationMovesEveryRetainedLogitBySameAmount) {
  const ImageSet data = quarters();
  const nn::Network network = train(study().spec, data, study().training);
  const nn::Network naive = without_class(network, data, 1, {.method = Method::naive});
  const nn::Network normalized = without_class(network, data, 1, {.method = Method::normalization});
  const Matrix<float> whole = network.logits(data);
  const Matrix<float> a = naive.logits(data);
  const Matrix<float> b = normalized.logits(data);
  ASSERT_EQ(a.cols(), 3U);
  for (std::size_t i = 0; i < a.rows(); ++i) {
    EXPECT_NEAR(a(i, 0), whole(i, 0), 1e-5);
    EXPECT_NEAR(a(i, 1), whole(i, 2), 1e-5);
    for (std::size_t j = 1; j < 3; ++j) EXPECT_NEAR(b(i, j) - a(i, j), b(i, 0) - a(i, 0), 2e-5);
  }
}

TEST(Inversion, RefusesWhatMakesNoSense) {
  InversionStudy wrong = study();
  wrong.forget = {4};
  EXPECT_THROW((void)run_inversion(wrong, quarters()), Error);
  wrong = study();
  wrong.start.resize(10);
  EXPECT_THROW((void)run_inversion(wrong, quarters()), Error);
}

}  // namespace
}  // namespace oubli
