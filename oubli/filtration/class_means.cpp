#include "oubli/filtration/class_means.h"

#include <array>
#include <cmath>
#include <utility>

#include "oubli/array/tensor.h"

namespace oubli {

ClassMeans::ClassMeans(std::size_t classes, std::size_t dimensions, bool per_dimension)
    : means_(classes, dimensions),
      counts_(classes),
      scatter_(classes),
      feature_scatter_(per_dimension ? classes : 0, per_dimension ? dimensions : 0) {}

ClassMeans ClassMeans::restored(Matrix<double> means, std::vector<std::uint64_t> counts,
                                std::vector<double> scatter, Matrix<float> feature_scatter) {
  OUBLI_ASSERT(counts.size() == means.rows() && scatter.size() == means.rows());
  OUBLI_ASSERT(feature_scatter.empty() ||
               (feature_scatter.rows() == means.rows() && feature_scatter.cols() == means.cols()));
  ClassMeans gathered(0, 0);
  gathered.means_ = std::move(means);
  gathered.counts_ = std::move(counts);
  gathered.scatter_ = std::move(scatter);
  gathered.feature_scatter_ = std::move(feature_scatter);
  return gathered;
}

// Welford's update: one pass, no cancellation.
template <typename T>
void ClassMeans::add_rows(MatrixView<const T> rows, std::span<const std::uint32_t> labels) {
  OUBLI_ASSERT(rows.rows() == labels.size() && rows.cols() == dimensions());
  require_finite(rows, "class means");
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    const std::size_t j = labels[i];
    OUBLI_ASSERT(j < classes());
    const std::span<const T> x = rows.row(i);
    const std::span<double> mean = means_.row(j);
    const auto n = static_cast<double>(++counts_[j]);
    constexpr std::size_t kLanes = 16;  // sums of their own, for vector code
    std::array<double, kLanes> scatter{};
    const auto update = [&](std::size_t d, std::size_t lane) {
      const double before = static_cast<double>(x[d]) - mean[d];
      mean[d] += before / n;
      const double square = before * (static_cast<double>(x[d]) - mean[d]);
      scatter[lane] += square;
      return square;
    };
    const auto update_all = [&](const auto& keep) {
      std::size_t d = 0;
      for (; d + kLanes <= x.size(); d += kLanes)
        for (std::size_t lane = 0; lane < kLanes; ++lane) keep(d + lane, update(d + lane, lane));
      for (; d < x.size(); ++d) keep(d, update(d, 0));
    };
    if (feature_scatter_.empty()) {
      update_all([](std::size_t, double) {});
    } else {
      const std::span<float> squares = feature_scatter_.row(j);
      update_all([&](std::size_t d, double square) {
        squares[d] = static_cast<float>(static_cast<double>(squares[d]) + square);
      });
    }
    for (const double part : scatter) scatter_[j] += part;
  }
}

void ClassMeans::add(MatrixView<const float> rows, std::span<const std::uint32_t> labels) {
  add_rows(rows, labels);
}
void ClassMeans::add(MatrixView<const double> rows, std::span<const std::uint32_t> labels) {
  add_rows(rows, labels);
}

// Chan, Golub and LeVeque's formula for two parts.
void ClassMeans::merge(const ClassMeans& other) {
  OUBLI_ASSERT(classes() == other.classes() && dimensions() == other.dimensions() &&
               feature_scatter_.rows() == other.feature_scatter_.rows());
  for (std::size_t j = 0; j < classes(); ++j) {
    if (other.counts_[j] == 0) continue;
    const auto n = static_cast<double>(counts_[j]), m = static_cast<double>(other.counts_[j]);
    double squared_distance = 0;
    for (std::size_t d = 0; d < dimensions(); ++d) {
      const double difference = other.means_(j, d) - means_(j, d);
      means_(j, d) += difference * (m / (n + m));
      squared_distance += difference * difference;
      if (feature_scatter_.empty()) continue;
      const double both = static_cast<double>(feature_scatter_(j, d)) +
                          static_cast<double>(other.feature_scatter_(j, d));
      feature_scatter_(j, d) =
          static_cast<float>(both + difference * difference * (n * m / (n + m)));
    }
    scatter_[j] += other.scatter_[j] + squared_distance * (n * m / (n + m));
    counts_[j] += other.counts_[j];
  }
}

double ClassMeans::standard_error(std::size_t j) const {
  const auto n = static_cast<double>(counts_[j]);
  if (n < 2) return std::nan("");
  return std::sqrt(scatter_[j] / (n - 1) / n / static_cast<double>(dimensions()));
}

double ClassMeans::within_variance() const {
  double scatter = 0, degrees = 0;
  for (std::size_t j = 0; j < classes(); ++j) {
    if (counts_[j] < 2) continue;
    scatter += scatter_[j];
    degrees += static_cast<double>(counts_[j] - 1);
  }
  return degrees > 0 ? scatter / degrees / static_cast<double>(dimensions()) : std::nan("");
}

}  // namespace oubli
