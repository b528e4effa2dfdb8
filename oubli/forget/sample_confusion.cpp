#include "oubli/forget/sample_confusion.h"

#include <algorithm>
#include <vector>

#include "oubli/base/workers.h"

namespace oubli {
namespace {

// Multiplications for the logits of so many samples take tenths of a second.
constexpr double kSteps = 2e9;
constexpr std::size_t kFewest = 256;

// At most `most` of them, at equal distances.
std::vector<std::size_t> spread(const std::vector<std::size_t>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < most; ++i) chosen.push_back(all[i * all.size() / most]);
  return chosen;
}

}  // namespace

Confusion confusion_of(const HeadView& head, const CalibrationData& data,
                       std::span<const std::size_t> forget) {
  const std::size_t per_sample =
      head.classes() * (data.space == Space::features ? head.features() : std::size_t{1});
  const std::size_t most = std::max<std::size_t>(
      kFewest, static_cast<std::size_t>(kSteps / static_cast<double>(per_sample)));
  std::vector<std::size_t> of_forgotten, others;
  for (std::size_t i = 0; i < data.samples(); ++i)
    (std::ranges::find(forget, data.labels[i]) != forget.end() ? of_forgotten : others)
        .push_back(i);
  std::vector<std::size_t> rows = spread(of_forgotten, most / 2);
  const std::vector<std::size_t> more = spread(others, most - rows.size());
  rows.insert(rows.end(), more.begin(), more.end());
  std::ranges::sort(rows);
  Confusion confusion(head.classes());
  for (std::size_t begin = 0; begin < rows.size(); begin += kFewest) {
    const auto some = std::span(rows).subspan(begin, std::min(kFewest, rows.size() - begin));
    const Matrix<float> values = pick_samples(data.values, some);
    const Matrix<float> logits =
        data.space == Space::logits ? values : logits_of(head, values.view(), available_cores());
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto row = logits.row(i);
      confusion.add(data.labels[some[i]],
                    static_cast<std::uint32_t>(std::ranges::max_element(row) - row.begin()));
    }
  }
  return confusion;
}

}  // namespace oubli
