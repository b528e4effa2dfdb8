#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace oubli {

// How samples lean between the name of a class to be forgotten and that of another: by the
// difference of the two logits. A network that hardly ever says a name leans to it more on samples
// of that class than on those of another all the same, so that a weak one, too, shows whether the
// two labels are exchanged.
class Leaning {
 public:
  Leaning(std::uint32_t forgotten, std::size_t classes)
      : forgotten_(forgotten), own_(classes), others_(classes) {}

  // A sample and the logits of all classes.
  template <typename T>
  void add(std::uint32_t label, std::span<const T> logits) {
    const auto over = [&](std::size_t other) {
      return static_cast<double>(logits[forgotten_]) - static_cast<double>(logits[other]);
    };
    if (label != forgotten_) return add_other(label, over(label));
    for (std::size_t other = 0; other < own_.size(); ++other)
      if (other != forgotten_) own_[other].add(over(other));
  }
  // A sample of another class: the logit of the forgotten one minus that of its own.
  void add_other(std::uint32_t label, double difference) { others_[label].add(difference); }

  [[nodiscard]] std::uint32_t forgotten() const { return forgotten_; }

  // How much more the samples of the forgotten class lean to its name than those of another do, in
  // standard deviations of that difference of two means (Student's t, one variance for both): below
  // 0 they would fit better exchanged. Two single samples have no deviation: then it is infinite,
  // or 0.
  struct Pair {
    std::uint32_t other = 0;
    double deviations = 0;
  };
  // The least of all classes with samples; none if there are no such, or none of the forgotten one.
  [[nodiscard]] std::optional<Pair> least() const;

 private:
  struct Moments {  // by Welford's update
    std::size_t count = 0;
    double mean = 0, squares = 0;
    void add(double value) {
      const double before = value - mean;
      mean += before / static_cast<double>(++count);
      squares += before * (value - mean);
    }
  };
  static double deviations(const Moments& a, const Moments& b);

  std::uint32_t forgotten_;
  std::vector<Moments> own_;     // of its samples, by the other name
  std::vector<Moments> others_;  // of the samples of another class
};

}  // namespace oubli
