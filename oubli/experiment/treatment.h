#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>

#include "oubli/experiment/run_config.h"
#include "oubli/filtration/methods.h"

namespace oubli {

// What was done to the networks that an audit compares with retrained ones.
struct Explained {  // method explained with this rho
  double rho = kExplain;
  friend bool operator==(const Explained&, const Explained&) = default;
};
struct Refit {  // a fresh head on frozen features
  friend bool operator==(const Refit&, const Refit&) = default;
};
struct Floor {  // nothing: they are a second batch of retrained networks
  friend bool operator==(const Floor&, const Floor&) = default;
};
using Treatment = std::variant<Method, Explained, Refit, Floor>;

// "naive", "normalization", ..., "explained-0.07", "refit", "floor"
[[nodiscard]] std::string name_of(const Treatment& treatment);
// Error{usage} if there is none of that name.
[[nodiscard]] Treatment treatment_of(const std::string& name);

// Whose predictions the class means of a filtration are means of, and whose features S of method
// explained is made of.
enum class MeansSource { test, train };
inline constexpr std::array kMeansSources = {MeansSource::test, MeansSource::train};
struct MeansOf {
  SampleCount samples;
  MeansSource source = MeansSource::test;
  friend bool operator==(const MeansOf&, const MeansOf&) = default;
};
[[nodiscard]] std::string name_of(MeansSource source);
// Error{usage} if it is neither "test" nor "train".
[[nodiscard]] MeansSource means_source_of(const std::string& name);

}  // namespace oubli
