#include "oubli/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace oubli::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Page, WithoutDataHasNoEmptySections) {
  ReportData data;
  data.title = "nothing";
  const std::string text = page(data);
  EXPECT_THAT(text, HasSubstr("Nothing was measured"));
  EXPECT_THAT(text, Not(HasSubstr("<table")));
  EXPECT_THAT(text, Not(HasSubstr("<svg")));
  EXPECT_THAT(text, HasSubstr("default-src 'none'"));
}

}  // namespace
}  // namespace oubli::report
