// Runs a fuzz target without libFuzzer: every file of a folder, then COUNT inputs made from them by
// small changes. The same seed gives the same inputs.
//   NAME CORPUS COUNT [SEED]
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "oubli/base/file.h"
#include "oubli/base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using oubli::RandomStream;

void mutate(std::string& bytes, const std::vector<std::string>& corpus, RandomStream& random) {
  const std::uint64_t times = 1 + random.below(4);
  for (std::uint64_t i = 0; i < times; ++i) {
    if (bytes.empty()) bytes.push_back(0);
    const std::size_t at = random.below(bytes.size());
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        bytes[at] =
            static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1U << random.below(8)));
        break;
      case 2:
        bytes.insert(at, 1 + random.below(8), static_cast<char>(random.below(256)));
        break;
      case 3:
        bytes.erase(at, 1 + random.below(16));
        break;
      case 4: {  // a piece of another file
        const std::string& other = corpus[random.below(corpus.size())];
        if (other.empty()) break;
        const std::size_t from = random.below(other.size());
        bytes.insert(at, other.substr(from, random.below(64)));
        break;
      }
      default:
        bytes.resize(at);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " CORPUS COUNT [SEED]\n";
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  const auto run = [](const std::string& bytes) {
    return LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                  bytes.size());
  };
  for (const auto& path : paths) corpus.push_back(oubli::read_text_file(path));
  if (corpus.empty()) {
    std::cerr << argv[1] << ": no files\n";
    return 1;
  }
  for (const std::string& bytes : corpus) run(bytes);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  RandomStream random(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1, oubli::task_id("fuzz"));
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string bytes = corpus[random.below(corpus.size())];
    mutate(bytes, corpus, random);
    run(bytes);
  }
  std::cout << corpus.size() << " files and " << count << " changed ones: clean\n";
  return 0;
}
