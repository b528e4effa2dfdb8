#include "oubli/base/temporary_folder.h"

#include <gtest/gtest.h>

#include <fstream>

namespace oubli {
namespace {

TEST(TemporaryFolder, IsGoneWithAllThatIsInIt) {
  std::filesystem::path path;
  {
    const TemporaryFolder one, other;
    path = one.path();
    EXPECT_NE(one.path(), other.path());
    std::filesystem::create_directory(path / "inner");
    std::ofstream(path / "inner" / "file") << "text";
    EXPECT_TRUE(std::filesystem::is_regular_file(path / "inner" / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace oubli
