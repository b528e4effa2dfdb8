// An audit by the attackers of today, and what it refuses to be fooled by.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "oubli/audit/audit.h"
#include "oubli/audit/test_populations.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::Case;
using ::testing::HasSubstr;
using testing::Made;
using testing::made_population;
using testing::made_samples;
using testing::quick;
using ::testing::ThrowsMessage;

// Features that know the class and such that do not, in two layers; CKA of a population with itself
// is 1 for equal models.
TEST(AuditAttackers, ProbesEveryLayer) {
  Case s;
  Made features = s.made;
  features.all_columns = true;
  features.per_class = s.made.per_class;
  Made blind = features;
  blind.signal = 0;
  s.input.features = {{"deep", made_population(features, 5), made_population(features, 6)},
                      {"blind", made_population(blind, 7), {}}};
  const AuditResult result = audit(s.input, quick());
  ASSERT_EQ(result.probes.size(), 2U);
  const ProbeFigures& deep = result.probes[0];
  EXPECT_EQ(deep.layer, "deep");
  EXPECT_GT(deep.recall_seen->mean, 0.8);
  EXPECT_GT(deep.recall_unseen->mean, 0.8);
  EXPECT_GT(deep.cka->mean, 0.3);  // the classes are what they have in common
  EXPECT_NEAR(deep.cka->mean, deep.cka_floor->mean, 0.1);
  EXPECT_LT(result.probes[1].recall_seen->mean, 0.5);
  EXPECT_FALSE(result.probes[1].cka);
  EXPECT_THAT(to_text(result), HasSubstr("blind"));
  // All features alike: 1 whatever the number of models.
  s.input.features = {{"", {}, made_population(features, 5)}};
  s.input.features[0].unseen->read = [read = s.input.features[0].unseen->read](
                                         std::size_t, auto rows, auto out) { read(0, rows, out); };
  const AuditResult same = audit(s.input, quick());
  EXPECT_NEAR(same.probes[0].cka_floor->mean, 1, 1e-9);
  EXPECT_NEAR(same.probes[0].cka_floor->std, 0, 1e-6);
  // Each model beside itself: 1 where features have not moved, less where they have.
  s.input.features = {{"stays", made_population(features, 5), {}, made_population(features, 5)},
                      {"moves", made_population(features, 5), {}, made_population(features, 6)}};
  const AuditResult moved = audit(s.input, quick());
  EXPECT_NEAR(moved.probes[0].cka_before->mean, 1, 1e-6);
  EXPECT_LT(moved.probes[1].cka_before->mean, 0.95);
  EXPECT_FALSE(moved.probes[0].cka);
  Made fewer = features;
  fewer.models = 1;
  s.input.features[0].before = made_population(fewer, 5);
  EXPECT_THAT([&] { return audit(s.input, quick()); },
              ThrowsMessage<Error>(HasSubstr("each before and after")));
}

// A single retrained network: what it gives, and what it cannot.
TEST(AuditAttackers, ASingleRetrainedModelGivesLess) {
  Case s;
  Made one = s.made;
  one.models = 1;
  s.input.unseen = made_population(one, 2, "unseen");
  Made before = s.made;
  before.all_columns = true;
  s.input.before = made_population(before, 1, "before");
  const AuditResult result = audit(s.input, quick());
  EXPECT_TRUE(result.leaks.forgotten.empty());
  EXPECT_FALSE(result.verdict.outcome);
  EXPECT_THAT(result.leaks_reason, HasSubstr("a single unseen model"));
  ASSERT_EQ(result.forgetting.size(), 1U);
  EXPECT_TRUE(result.forgetting[0].interpolated.value);
  EXPECT_FALSE(result.forgetting[0].interpolated_floor.value);
  EXPECT_TRUE(result.forgetting[0].readout_seen);
  EXPECT_THAT(to_text(result), HasSubstr("Not given: a single unseen model"));
  s.input.seen.models = s.input.before->models = 1;
  EXPECT_TRUE(audit(s.input, quick()).forgetting[0].interpolated.value);
}

// Each image has answers of its own, and only the attacker who knows the image finds the seen
// networks: pooled attacks see the same mixture in both populations.
TEST(AuditAttackers, AttacksPerImageFindWhatPooledOnesCannot) {
  Case s;
  s.made.models = 40;
  s.input.unseen = made_population(s.made, 2, "unseen");
  s.input.seen = made_population(s.made, 1, "seen");
  s.input.seen.read = [read = s.input.seen.read](std::size_t model, auto rows, auto out) {
    read(model, rows, out);
    for (std::size_t i = 0; i < rows.size(); ++i) out(i, 0) += rows[i] / 4 % 2 == 0 ? 1.5F : -1.5F;
  };
  const AuditResult result = audit(s.input, quick());
  const ObserverLeak& logits = result.leaks.forgotten[0];
  const double pooled = *find(&logits, Attack::logistic)->advantage.value;
  const double single = *find(&logits, Attack::per_image)->advantage.value;
  const double ten = *find(&logits, Attack::per_image, 10)->advantage.value;
  EXPECT_LT(pooled, 0.2);
  EXPECT_GT(single, 0.4);  // 2 Phi(0.75) - 1 = 0.55 at best
  EXPECT_GT(ten, 0.9);
  EXPECT_THAT(find(&logits, Attack::per_image, 100)->advantage.reason,
              HasSubstr("20 images of the class, fewer than 100 answers"));
  EXPECT_EQ(result.verdict.outcome, Outcome::told_apart);
  EXPECT_EQ(result.verdict.parts.size(), 2U);
  EXPECT_THAT(to_text(result), HasSubstr("From ten answers an attacker with 28 networks of each"));
}

TEST(AuditAttackers, IsNotFooledByNumbersWithoutDigits) {
  const auto expect = [](const Case& s, const char* message) {
    EXPECT_THAT([&] { (void)audit(s.input, quick()); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  Case far;
  far.input.seen.read = [read = far.input.seen.read](std::size_t model, auto rows, auto out) {
    read(model, rows, out);
    for (float& value : out.flat()) value += 1e8F;
  };
  expect(far, "cannot tell them apart. Subtract a common number");
  Case rounded;
  rounded.input.seen.read = [read = rounded.input.unseen.read](std::size_t model, auto rows,
                                                               auto out) {
    read((model + 1) % 10, rows, out);
    for (float& value : out.flat()) value = std::round(value * 2048) / 2048;
  };
  expect(rounded, "hold the same logits up to rounding");
  Case permuted;
  std::ranges::rotate(permuted.labels, permuted.labels.begin() + 1);
  permuted.input.samples = made_samples(permuted.made, permuted.labels);
  EXPECT_THAT(to_text(audit(permuted.input, quick())),
              HasSubstr("are labels and logits in the same order?"));
}

}  // namespace
}  // namespace oubli
