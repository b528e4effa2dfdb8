#include "oubli/cli/audit_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "oubli/base/text_table.h"

namespace oubli::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// An audit in which the forest's advantage is `logits`, and a tenth of it for the label.
AuditResult audit_with(double logits) {
  AuditResult audit;
  for (const auto& [observer, value] :
       {std::pair(Observer::logits, logits), std::pair(Observer::label, logits / 10)}) {
    ObserverLeak leak;
    leak.observer = observer;
    leak.attacks.emplace_back();
    leak.attacks.back().attack = Attack::forest;
    leak.attacks.back().advantage = {value, value - 0.02, value + 0.02, ""};
    audit.leaks.forgotten.push_back(std::move(leak));
  }
  for (const char* const population : {"seen", "unseen"})
    audit.quality.push_back({population, MeanStd{0.971, 0.01}, {}, {}});
  return audit;
}

Results example() {
  Results results;
  results.experiment = "mnist";
  results.class_names = {"zero", "one"};
  PartResult part{.hidden = 50, .forgotten = {0}, .seen = 9, .unseen = 8};
  const MeansOf all{sample_count_of("all"), MeansSource::test};
  const MeansOf ten{sample_count_of("10"), MeansSource::test};
  part.treatments.push_back({treatment_of("naive"), {}, {}, {}, audit_with(0.5)});
  part.treatments.push_back({treatment_of("normalization"), ten, {}, {}, audit_with(0.7)});
  part.treatments.push_back({treatment_of("normalization"), all, {}, {}, audit_with(0.3)});
  part.treatments.push_back({treatment_of("zeroing"), all, {}, "not measured", {}});
  part.floor = audit_with(0.02);
  results.parts.push_back(std::move(part));
  return results;
}

TEST(AuditSummary, OneLinePerMethodAsRightAnswersInHundred) {
  const std::string text = summary_of(example());
  EXPECT_THAT(text, HasSubstr("mnist: class 0 (zero) forgotten; 9 networks that saw it and 8 that "
                              "never did, 50 features."));
  // Advantage a is 50 (1 + a) right answers in 100.
  EXPECT_THAT(text, HasSubstr("  naive              75              -     52    97.1 %"));
  EXPECT_THAT(text, HasSubstr("  normalization      65              -     52    97.1 %"));
  EXPECT_THAT(text, HasSubstr("  (retrained)        51              -     50    97.1 %"));
  EXPECT_THAT(text, Not(HasSubstr("85")));       // fewer samples for the means: --full has them
  EXPECT_THAT(text, Not(HasSubstr("zeroing")));  // was not audited
}

TEST(AuditSummary, TablesFitATerminal) {
  std::istringstream lines(summary_of(example()));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ")) {
      EXPECT_LE(display_width(line), 80U) << line;
    }
}

}  // namespace
}  // namespace oubli::cli
