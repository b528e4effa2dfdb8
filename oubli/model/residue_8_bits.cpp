#include <algorithm>
#include <array>
#include <cmath>

#include "oubli/model/residue.h"

namespace oubli {

namespace {

// Whether the bytes of a row, with those of its largest and its smallest value, leave room for a
// third of its values: by the distance of the first two, between what bounds its distance from the
// first. A look into a table, without a branch, for places of which nearly all are no row.
class ThirdValue {
 public:
  ThirdValue(std::span<const double> w, std::size_t high, std::size_t low) {
    while (at_ == high || at_ == low) ++at_;
    for (int steps = kFewestSteps; steps <= 255; ++steps) {
      const double wanted = (w[high] - w[at_]) / (w[high] - w[low]) * steps;
      bounds_[static_cast<std::size_t>(steps + 255)] = {
          static_cast<std::int16_t>(std::ceil(wanted - kRoom)),
          static_cast<std::int16_t>(std::floor(wanted + kRoom))};
    }
  }
  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] bool fits(int high, int low, int third) const {
    const auto& [least, most] = bounds_[static_cast<std::size_t>(high - low + 255)];
    return (static_cast<int>(high - third >= least) & static_cast<int>(high - third <= most)) != 0;
  }

  static constexpr int kFewestSteps = 32;

 private:
  static constexpr double kRoom = 1.1;  // more than what is allowed in the end
  struct Bounds {
    std::int16_t least = 1, most = 0;  // nothing
  };
  std::size_t at_ = 0;
  std::array<Bounds, 511> bounds_{};
};

}  // namespace

// b = w / s + z for some s and z, to within one: the largest and the smallest of the values give
// both. 30 others agree by chance once in 10^50.
void RowScan::scan_quantised(std::span<const std::byte> bytes, std::size_t limit,
                             std::vector<RowResidue>& found) const {
  for (const Row& row : rows_) {
    const std::span<const double> w(row.wide);
    if (w.size() < 16) continue;
    const auto high = static_cast<std::size_t>(std::ranges::max_element(w) - w.begin());
    const auto low = static_cast<std::size_t>(std::ranges::min_element(w) - w.begin());
    const ThirdValue third(w, high, low);
    const auto is_row = [&](std::size_t at, std::size_t apart, unsigned sign) {
      const auto value = [&](std::size_t i) {
        return static_cast<double>(std::to_integer<unsigned>(bytes[at + i * apart]) ^ sign);
      };
      const double scale = (value(high) - value(low)) / (w[high] - w[low]);
      const double zero = value(high) - w[high] * scale;
      std::size_t same = 0;
      while (same < w.size() && std::abs(value(same) - w[same] * scale - zero) <= 1.01) ++same;
      return same == w.size();
    };
    for (const std::size_t apart : {std::size_t{1}, classes_}) {
      const std::size_t length = (w.size() - 1) * apart + 1;
      for (std::size_t at = 0; at + length <= bytes.size() && found.size() < limit; ++at) {
        const auto fits = [&](int sign) {  // 128: signed ones
          const auto value = [&](std::size_t i) {
            return std::to_integer<int>(bytes[at + i * apart]) ^ sign;
          };
          return third.fits(value(high), value(low), value(third.at()));
        };
        const bool without = fits(0), with = fits(128);
        if ((static_cast<int>(without) | static_cast<int>(with)) == 0) continue;
        if ((without && is_row(at, apart, 0)) || (with && is_row(at, apart, 128)))
          found.push_back(
              {row.class_index, at, DType::i8, apart != 1, RowResidue::Form::quantised});
      }
    }
  }
}

}  // namespace oubli
