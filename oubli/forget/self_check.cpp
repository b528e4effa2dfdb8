#include "oubli/forget/self_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "oubli/array/row_blocks.h"
#include "oubli/base/random.h"
#include "oubli/model/residue.h"

namespace oubli {
namespace {

// Searching is some GB/s; beyond this many bytes it is said to be left out.
constexpr std::uint64_t kSearchLimit = std::uint64_t{16} << 30;

// Two bits of eight: beyond this a new head in whole numbers is no longer like the old one.
constexpr double kCoarsest = 4;

// Random vectors in place of class means that nobody has: the identity holds for any vector.
Tensor probes(std::size_t classes, std::size_t features) {
  Matrix<float> values(classes, features);
  RandomStream random(0, task_id("self-check probes"));
  for (float& value : values.flat()) value = static_cast<float>(random.normal());
  return to_tensor(MatrixView<const float>(values));
}

bool same_bytes(const TensorView& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

// What a file just written will be called.
std::string final_name(const StagedModel& staged, const std::filesystem::path& path) {
  for (const StagedModel::Output& output : staged.outputs())
    if (output.path == path) return output.name;
  return path.filename().string();
}

std::set<std::size_t> rows_in(const RowScan& scan, std::span<const std::byte> bytes) {
  std::set<std::size_t> rows;
  for (const RowResidue& row : scan.scan(bytes, std::numeric_limits<std::size_t>::max()))
    rows.insert(row.class_index);
  return rows;
}

// In the files as they are, and in what they hold compressed; at most `limit` of each.
void for_each_old_row(
    const StagedModel& staged, const RowScan& scan, std::size_t limit,
    const std::function<void(const std::string& where, const RowResidue& row)>& visit) {
  for (const auto& path : staged.written->files())
    for (const RowResidue& row : scan.scan_file(path, limit)) visit(final_name(staged, path), row);
  staged.written->for_each_packed(
      [&](const std::string& where, std::span<const std::byte> content) {
        for (const RowResidue& row : scan.scan(content, limit)) visit(where, row);
        return true;
      });
}

}  // namespace

HeadCheck check_head(const HeadView& old_head, const HeadView& new_head, const FiltrationPlan& plan,
                     const StoredMeans* means) {
  // Visiting the rows also refuses what is not finite, but in the words of bad input.
  try {
    for_each_row_block(new_head.weights, [](std::size_t, MatrixView<const double>) {});
    if (new_head.bias) (void)bias_of(new_head);
  } catch (const Error& error) {
    fail(ErrorCode::self_check, "the new head cannot be stored as {}: {}",
         name_of(new_head.weights.dtype), error.what());
  }
  HeadCheck check;
  check.on_class_means = means != nullptr && means->space == Space::features;
  const Tensor random =
      check.on_class_means ? Tensor{} : probes(old_head.classes(), old_head.features());
  check.identity =
      check_mean_identity(old_head, new_head, plan.filter,
                          check.on_class_means ? TensorView(means->means) : random.view("probes"));
  if (!check.identity.holds())
    fail(ErrorCode::self_check,
         "the new head does not map {} {} as it should: error {:.3g}, {:.3g} times its bound; "
         "nothing "
         "was written",
         check.on_class_means ? "the mean of class" : "test vector", check.identity.worst_class,
         check.identity.largest_error, check.identity.largest_ratio);
  return check;
}

double largest_error(const HeadRounding& rounding, std::span<const double> features) {
  double length = 0, worst = 0;
  for (const double feature : features) length += std::abs(feature);
  for (std::size_t r = 0; r < rounding.weight_steps.size(); ++r)
    worst = std::max(worst, 0.5 * (rounding.weight_steps[r] * length +
                                   (rounding.bias_steps.empty() ? 0 : rounding.bias_steps[r])));
  return worst;
}

RoundingCheck check_rounding(const HeadView& new_head, const HeadView& stored_head,
                             const HeadRounding& rounding, const StoredMeans* means) {
  RoundingCheck check{.weight_step = std::ranges::max(rounding.weight_steps),
                      .coarser = rounding.coarser};
  if (!rounding.bias_steps.empty()) check.bias_step = std::ranges::max(rounding.bias_steps);
  if (!(check.coarser <= kCoarsest))
    fail(ErrorCode::unfilterable,
         "the head is quantised, and the new one needs steps {:.3g} times as large as the old "
         "one's, which would cost more than {} bits; use --float-head or --method naive",
         check.coarser, std::log2(kCoarsest));
  const bool on_means = means != nullptr && means->space == Space::features;
  const Tensor random = on_means ? Tensor{} : probes(new_head.classes(), new_head.features());
  const Matrix<double> vectors =
      to_matrix(on_means ? TensorView(means->means) : random.view("probes"));
  const Matrix<double> exact = logits_of(new_head, vectors);
  const Matrix<double> stored = logits_of(stored_head, vectors);
  const Matrix<double> sizes = magnitudes_of(new_head, vectors);
  for (std::size_t i = 0; i < vectors.rows(); ++i) {
    const double bound = largest_error(rounding, vectors.row(i));
    check.bound = std::max(check.bound, bound);
    for (std::size_t r = 0; r < exact.cols(); ++r) {
      const double error = std::abs(exact(i, r) - stored(i, r));
      check.error = std::max(check.error, error);
      if (!(error <= bound + 4 * unit_roundoff(DType::f32) * sizes(i, r)))
        fail(ErrorCode::self_check,
             "the new head in whole numbers is off by {:.3g}, its steps explain {:.3g}; nothing "
             "was written",
             error, bound);
    }
  }
  return check;
}

WrittenCheck check_staged(const StagedModel& staged, const HeadView& old_head,
                          const NewHead& new_head, const ClassSplit& split) {
  const HeadView& written = staged.written->head();
  if (!same_bytes(written.weights, new_head.weights) ||
      written.bias.has_value() != new_head.bias.has_value() ||
      (written.bias && !same_bytes(*written.bias, *new_head.bias)) ||
      written.transposed != old_head.transposed || written.weight_scale != old_head.weight_scale)
    fail(ErrorCode::self_check,
         "the new model, read back, does not hold the head that was computed; nothing was written");

  WrittenCheck check;
  std::uint64_t bytes = 0;
  for (const auto& path : staged.written->files()) bytes += std::filesystem::file_size(path);
  if (bytes > kSearchLimit) {
    check.not_checked.push_back(
        "whether the new file holds a copy of the forgotten weights: too large a search");
    return check;
  }
  const RowScan scan(old_head, split.forgotten);
  if (!scan.unrecognisable().empty())
    check.not_checked.push_back(fmt::format(
        "whether the new file holds a copy of the weights of class {}: too little in them to be "
        "told apart",
        fmt::join(scan.unrecognisable(), ", ")));
  if (!scan.looks_for_8_bits(bytes))
    check.not_checked.push_back(
        "whether the new file holds the forgotten weights rounded to 8 bits: too large a search");
  // A class that stays may have the same row, or its negative: then it is there by right.
  const std::set<std::size_t> by_right = rows_in(scan, written.weights.bytes);
  std::set<std::size_t> copies;
  constexpr std::size_t kEnough = 16;
  for_each_old_row(staged, scan, kEnough, [&](const std::string& where, const RowResidue& row) {
    if (!staged.old_rows_may_remain && !by_right.contains(row.class_index))
      fail(ErrorCode::self_check,
           "{}: the weights of forgotten class {} are still in it (byte {}, {}); nothing was "
           "written",
           where, row.class_index, row.offset, describe(row));
    copies.insert(row.class_index);
  });
  check.forgotten_rows_absent =
      copies.empty() && scan.unrecognisable().size() < split.forgotten.size();
  if (!copies.empty())
    check.warnings.push_back(fmt::format(
        "the new file still holds the weights of forgotten class {}, in another tensor or "
        "as the row of another class, equal or its negative: look for copies of the head (moving "
        "averages, checkpoints) and remove them",
        fmt::join(copies, ", ")));
  return check;
}

Matrix<float> changed_stretches(const TensorView& old_layer, const TensorView& new_layer) {
  constexpr std::size_t kLongest = 16;
  const Matrix<double> before = to_matrix(old_layer), after = to_matrix(new_layer);
  const std::size_t length = std::min(kLongest, before.cols());
  std::vector<float> stretches;
  for (std::size_t r = 0; r < before.rows(); ++r) {
    double most = 0;
    std::size_t begin = 0;
    for (std::size_t first = 0; first + length <= before.cols(); ++first) {
      double change = 0;
      bool all = true;
      for (std::size_t d = first; all && d < first + length; ++d) {
        all = before(r, d) != after(r, d);
        change += std::abs(before(r, d) - after(r, d));
      }
      if (!all || change <= most) continue;
      most = change;
      begin = first;
    }
    if (most == 0) continue;
    for (std::size_t d = begin; d < begin + length; ++d)
      stretches.push_back(static_cast<float>(before(r, d)));
  }
  Matrix<float> result(length == 0 ? 0 : stretches.size() / length, length);
  std::ranges::copy(stretches, result.flat().begin());
  return result;
}

bool check_old_layer(const StagedModel& staged, const TensorView& old_layer,
                     const TensorView& new_layer, WrittenCheck& check) {
  const Matrix<float> stretches = changed_stretches(old_layer, new_layer);
  if (stretches.rows() < old_layer.shape[0])
    check.not_checked.push_back(fmt::format(
        "whether the new file holds a copy of {} of {} rows of the old layer before the head: "
        "their units hardly moved",
        old_layer.shape[0] - stretches.rows(), old_layer.shape[0]));
  if (stretches.rows() == 0) return false;
  std::vector<std::size_t> rows(stretches.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const RowScan scan(HeadView{.weights = tensor_view<float>(stretches.view(), "the old layer")},
                     rows);
  bool absent = scan.unrecognisable().size() < rows.size();
  constexpr std::size_t kEnough = 1;
  for_each_old_row(staged, scan, kEnough, [&](const std::string& where, const RowResidue& row) {
    if (!staged.old_rows_may_remain)
      fail(ErrorCode::self_check,
           "{}: the old layer before the head is still in it (byte {}, {}); nothing was written",
           where, row.offset, describe(row));
    absent = false;
  });
  return absent;
}

}  // namespace oubli
