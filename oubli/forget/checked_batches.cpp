#include "oubli/forget/checked_batches.h"

#include <algorithm>
#include <vector>

namespace oubli {

namespace {

constexpr std::size_t kPart = 16;
constexpr std::size_t kFewestSamples = 32, kMostSamples = 96;
constexpr std::size_t kFewestBatches = 3;

// Classes that were met; labels that are no class are never new.
class Met {
 public:
  explicit Met(std::size_t classes) : counted_(classes, kNever) {}

  [[nodiscard]] std::size_t count_new(std::span<const std::uint32_t> labels) {
    ++round_;
    std::size_t count = 0;
    for (const std::uint32_t label : labels) {
      if (label >= counted_.size() || counted_[label] == kMet || counted_[label] == round_)
        continue;
      counted_[label] = round_;
      ++count;
    }
    return count;
  }
  void meet(std::span<const std::uint32_t> labels) {
    for (const std::uint32_t label : labels)
      if (label < counted_.size()) counted_[label] = kMet;
  }

 private:
  static constexpr std::size_t kNever = 0, kMet = 1;
  std::size_t round_ = kMet;
  std::vector<std::size_t> counted_;
};

}  // namespace

std::set<std::size_t> checked_batches(std::span<const std::uint32_t> labels,
                                      const DataShape& data) {
  const std::size_t batches = (data.samples + data.batch - 1) / data.batch;
  const std::size_t wanted = std::clamp(data.samples / kPart, kFewestSamples, kMostSamples);
  const std::size_t fitting =
      kCheckedBytes / std::max<std::size_t>(1, data.kept_bytes) / data.batch;
  const std::size_t enough = std::max(kFewestBatches, (wanted + data.batch - 1) / data.batch);
  const std::size_t count = std::min({batches, std::max<std::size_t>(1, fitting), enough});
  const std::size_t each = labels.size() / data.samples * data.batch;
  const auto labels_of = [&](std::size_t number) {
    return labels.subspan(number * each, std::min(each, labels.size() - number * each));
  };
  Met met(data.classes);
  std::set<std::size_t> first;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t chosen = i * batches / count, most = 0;
    for (std::size_t number = chosen; number < (i + 1) * batches / count; ++number) {
      const std::size_t fresh = met.count_new(labels_of(number));
      if (fresh <= most) continue;
      most = fresh;
      chosen = number;
    }
    met.meet(labels_of(chosen));
    first.insert(chosen * data.batch);
  }
  return first;
}

}  // namespace oubli
