#include "oubli/audit/jackknife.h"

#include <algorithm>
#include <cmath>

#include "oubli/audit/bootstrap.h"
#include "oubli/audit/figure.h"
#include "oubli/base/error.h"

namespace oubli {

std::size_t jackknife_groups(std::size_t models) { return std::min(models, kJackknifeGroups); }

RowRange rows_of_group(std::size_t rows, std::size_t models, std::size_t group) {
  const std::size_t groups = jackknife_groups(models), per_model = rows / models;
  OUBLI_ASSERT(per_model * models == rows && group < groups);
  return {group * models / groups * per_model, (group + 1) * models / groups * per_model};
}

bool jackknife_possible(const LeftOut& left_out) {
  return left_out[0].size() >= 3 && left_out[1].size() >= 3;
}

double jackknife_half_width(const LeftOut& left_out) {
  OUBLI_ASSERT(jackknife_possible(left_out));
  std::array<double, 2> variances{};
  for (std::size_t side = 0; side < 2; ++side) {
    const auto groups = static_cast<double>(left_out[side].size());
    const double deviation = mean_std(left_out[side]).std;  // squares over groups - 1
    variances[side] = (groups - 1) * (groups - 1) / groups * deviation * deviation;
  }
  const std::size_t n1 = left_out[0].size(), n2 = left_out[1].size();
  const double degrees = std::min(n1, n2) < kFewModels
                             ? welch_degrees(variances[0], n1, variances[1], n2)
                             : static_cast<double>(n1 + n2 - 2);
  return student_t_975(degrees) * std::sqrt(variances[0] + variances[1]);
}

}  // namespace oubli
