#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "oubli/base/largest.h"
#include "oubli/model/residue.h"

namespace oubli {

namespace {

// Places that are looked at together: vector code, without a branch, for places of which nearly all
// are no row.
constexpr std::size_t kPlacesAtOnce = 1024;
constexpr std::size_t kMarksAtOnce = sizeof(std::uint64_t);

// Which of a row's values is the largest, the smallest and a third one, and how far the third is
// from the first, in units of the distance of the first two.
struct ThreeValues {
  explicit ThreeValues(std::span<const double> w)
      : high(place_of_largest(w)),
        low(static_cast<std::size_t>(std::ranges::min_element(w) - w.begin())) {
    while (third == high || third == low) ++third;
    share = static_cast<float>((w[high] - w[third]) / (w[high] - w[low]));
  }
  std::size_t high, low, third = 0;
  float share = 0;
};

// Marks the first `count` places where the three values, so far apart from each other, leave room
// for the row, with numbers of type `Byte`.
template <typename Byte>
void mark_places(const std::byte* bytes, const ThreeValues& values, std::size_t apart,
                 std::size_t count, std::uint8_t* marks) {
  constexpr int kFewestSteps = 32;
  constexpr float kRoom = 1.1F;  // more than what is allowed in the end
  const std::byte* const high = bytes + values.high * apart;
  const std::byte* const low = bytes + values.low * apart;
  const std::byte* const third = bytes + values.third * apart;
  const float share = values.share;
  for (std::size_t i = 0; i < count; ++i) {
    const int first = static_cast<Byte>(high[i]);
    const int steps = first - static_cast<Byte>(low[i]);
    const int taken = first - static_cast<Byte>(third[i]);
    const float beside = std::abs(static_cast<float>(taken) - share * static_cast<float>(steps));
    marks[i] = static_cast<std::uint8_t>(static_cast<unsigned>(steps >= kFewestSteps) &
                                         static_cast<unsigned>(beside <= kRoom));
  }
}

// Calls `look` with each of the first `count` places, in order, that may be those of a row, and
// whether as unsigned numbers and as signed ones.
template <typename Look>
void for_marked_places(const std::byte* bytes, const ThreeValues& values, std::size_t apart,
                       std::size_t count, const Look& look) {
  std::array<std::uint8_t, kPlacesAtOnce> without{}, with{};
  mark_places<std::uint8_t>(bytes, values, apart, count, without.data());
  mark_places<std::int8_t>(bytes, values, apart, count, with.data());
  for (std::size_t i = 0; i < count; i += kMarksAtOnce) {
    std::array<std::uint64_t, 2> some{};
    std::memcpy(&some[0], without.data() + i, kMarksAtOnce);
    std::memcpy(&some[1], with.data() + i, kMarksAtOnce);
    if ((some[0] | some[1]) == 0) continue;
    for (std::size_t at = i; at < i + kMarksAtOnce; ++at)
      if ((without[at] | with[at]) != 0) look(at, without[at] != 0, with[at] != 0);
  }
}

}  // namespace

// b = w / s + z for some s and z, to within one: the largest and the smallest of the values give
// both. 30 others agree by chance once in 10^50.
void RowScan::scan_quantised(std::span<const std::byte> bytes, std::size_t limit,
                             std::vector<RowResidue>& found) const {
  for (const Row& row : rows_) {
    const std::span<const double> w(row.wide);
    if (w.size() < 16) continue;
    const ThreeValues values(w);
    const auto is_row = [&](std::size_t at, std::size_t apart, unsigned sign) {
      const auto value = [&](std::size_t i) {
        return static_cast<double>(std::to_integer<unsigned>(bytes[at + i * apart]) ^ sign);
      };
      const double high = w[values.high];
      const double scale = (value(values.high) - value(values.low)) / (high - w[values.low]);
      const double zero = value(values.high) - high * scale;
      std::size_t same = 0;
      while (same < w.size() && std::abs(value(same) - w[same] * scale - zero) <= 1.01) ++same;
      return same == w.size();
    };
    for (const std::size_t apart : {std::size_t{1}, classes_}) {
      const std::size_t length = (w.size() - 1) * apart + 1;
      const std::size_t places = bytes.size() < length ? 0 : bytes.size() - length + 1;
      for (std::size_t first = 0; first < places && found.size() < limit; first += kPlacesAtOnce)
        for_marked_places(
            bytes.data() + first, values, apart, std::min(kPlacesAtOnce, places - first),
            [&](std::size_t i, bool without, bool with) {
              const std::size_t at = first + i;
              if (found.size() < limit &&
                  ((without && is_row(at, apart, 0)) || (with && is_row(at, apart, 128))))
                found.push_back(
                    {row.class_index, at, DType::i8, apart != 1, RowResidue::Form::quantised});
            });
    }
  }
}

}  // namespace oubli
