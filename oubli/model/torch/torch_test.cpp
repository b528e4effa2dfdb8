#include <algorithm>

#include "oubli/model/torch/model.h"
#include "tests/test_support.h"

namespace oubli::torch {
namespace {

using oubli::testing::run_python;
using oubli::testing::TempFolder;

TEST(Torch, NamesWithoutWhatIsAroundThem) {
  EXPECT_EQ(bare_name("fc.weight"), "fc.weight");
  EXPECT_EQ(bare_name("state_dict.module.fc.weight"), "fc.weight");
  EXPECT_EQ(bare_name("model_ema._orig_mod.head.fc.bias"), "head.fc.bias");
  EXPECT_EQ(bare_name("model"), "model");
  EXPECT_EQ(bare_name("base_model.model.classifier.original_module.weight"), "classifier.weight");
  EXPECT_EQ(bare_name("schema.weight"), "schema.weight");
}

TEST(Torch, SerializationIdFoldsCheckSums) {
  // 0 ^ (1 + 0x9e3779b9), then with 2: by hand.
  const std::uint64_t once = 0x9e3779baU;
  const std::uint64_t twice = once ^ (2 + 0x9e3779b9U + (once << 6) + (once >> 2));
  const std::vector<std::uint32_t> sums{1, 2};
  EXPECT_EQ(serialization_id(std::string(20, '7') + std::string(20, '3'), sums),
            std::string(20, '7') + fmt::format("{:020}", twice));
}

// A file that is written without a change is the file, byte for byte, in both formats.
TEST(Torch, WritesWhatItRead) {
  const TempFolder folder;
  run_python(folder, R"(
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(7, 300), torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 11))
torch.save(net.state_dict(), 'new.pth')
torch.save({'net': net, 'empty': torch.zeros(0), 'half': torch.ones(3).half()}, 'whole.pt')
torch.save(net.state_dict(), 'old.pth', _use_new_zipfile_serialization=False)
)");
  for (const std::string name : {"new.pth", "whole.pt", "old.pth"}) {
    const auto archive = Archive::open(folder / name);
    EXPECT_GE(find_tensors(*archive).size(), 8U);
    const auto copy = folder / ("copy-" + name);
    AtomicFile out(copy);
    archive->write(out, pickle::Edits(archive->pickle()), {});
    out.commit();
    EXPECT_TRUE(std::ranges::equal(archive->file().bytes(), MappedFile(copy).bytes())) << name;
  }
}

}  // namespace
}  // namespace oubli::torch
