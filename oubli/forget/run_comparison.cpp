#include "oubli/forget/run_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "oubli/array/labels.h"
#include "oubli/base/error.h"
#include "oubli/base/largest.h"
#include "oubli/forget/self_check.h"
#include "oubli/runtime/model_runner.h"
#include "oubli/runtime/rows.h"

namespace oubli {

namespace {

// Equal numbers in equal graphs: an engine may still choose another way to add them up.
constexpr double kRoundings = 32;

double magnitude(std::span<const double> row) {
  double most = 0;
  for (const double value : row) most = std::max(most, std::abs(value));
  return most;
}

void centre(std::span<double> row) {
  const double mean =
      std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
  for (double& value : row) value -= mean;
}

bool shifts_all_alike(const HeadFilter& filter) {
  for (std::size_t term = 0; term < filter.d.rows(); ++term) {
    const auto row = filter.d.row(term);
    if (std::ranges::any_of(row, [&](double value) { return value != row.front(); })) return false;
  }
  return true;
}

// What a graph often makes of logits z, entry by entry.
struct Function {
  std::string_view name;
  void (*apply)(std::span<double> z);
};

double log_sum_exp(std::span<const double> z) {
  const double most = std::ranges::max(z);
  double sum = 0;
  for (const double value : z) sum += std::exp(value - most);
  return most + std::log(sum);
}

constexpr std::array<Function, 4> kFunctions{{
    {"the logits", [](std::span<double>) {}},
    {"softmax of the logits",
     [](std::span<double> z) {
       const double total = log_sum_exp(z);
       for (double& value : z) value = std::exp(value - total);
     }},
    {"log-softmax of the logits",
     [](std::span<double> z) {
       const double total = log_sum_exp(z);
       for (double& value : z) value -= total;
     }},
    {"sigmoid of the logits",
     [](std::span<double> z) {
       for (double& value : z) value = 1 / (1 + std::exp(-value));
     }},
}};
constexpr unsigned kArgmax = 1U << kFunctions.size();
constexpr unsigned kAny = 2 * kArgmax - 1;

// How far the logits of a model are from W f + b for being rounded to 8 bits; where they are held
// down to what these can say, nothing is explained.
double steps_of(const OnnxModel& model) {
  const OnnxRoundings& rounding = model.onnx_head().rounding;
  return rounding.product.step + rounding.logits.step;
}

std::string name_of_function(unsigned functions) {
  for (std::size_t f = 0; f < kFunctions.size(); ++f)
    if ((functions >> f & 1U) != 0) return std::string(kFunctions[f].name);
  return "the class of the largest logit";
}

std::vector<double> numbers_of(const Tensor& tensor) {
  std::vector<double> values(tensor.bytes.size() / size_of(tensor.dtype));
  decode(tensor.dtype, tensor.bytes, std::span<double>(values));
  return values;
}

// One number in each row, of a tensor of so many that are in the order of the answers.
RowPlaces in_order(std::size_t count) {
  RowPlaces places;
  places.starts.resize(count);
  std::iota(places.starts.begin(), places.starts.end(), std::size_t{0});
  return places;
}

// An output, the answers that it may be made of, and where it has what it made of each.
struct Made {
  const Tensor& output;
  const Matrix<float>& logits;
  RowPlaces per_class;  // rows with a number for each class; too few where there are none
  RowPlaces single;     // or with a single one
  std::span<const std::int64_t> labels;  // of classes, if the output has these, not their numbers
};

// Which of `candidates` the output can be of the logits, to within rounding.
unsigned functions_of(unsigned candidates, const Made& made, double rounding) {
  const std::vector<double> found = numbers_of(made.output);
  const std::size_t answers = made.logits.rows(), classes = made.logits.cols();
  const bool per_class = made.per_class.starts.size() >= answers;
  const bool single = !is_float(made.output.dtype) && made.single.starts.size() >= answers;
  for (std::size_t i = 0; i < answers; ++i) {
    const auto row = made.logits.row(i);
    const std::vector<double> z(row.begin(), row.end());
    const double slack =
        kRoundings * rounding * (magnitude(z) + std::log(static_cast<double>(classes)) + 1);
    for (std::size_t f = 0; f < kFunctions.size(); ++f) {
      if ((candidates >> f & 1U) == 0) continue;
      std::vector<double> wanted = z;
      kFunctions[f].apply(wanted);
      bool same = per_class;
      for (std::size_t j = 0; same && j < classes; ++j) {
        const std::size_t at = made.per_class.starts[i] + j * made.per_class.stride;
        same = std::abs(found[at] - wanted[j]) <= slack;
      }
      if (!same) candidates &= ~(1U << f);
    }
    // One whole number per answer, whose logit no other exceeds by more than rounding explains.
    const double enough = std::ranges::max(z) - slack;
    bool largest_named = false;
    for (std::size_t j = 0; single && j < classes; ++j) {
      const auto name = made.labels.empty() ? static_cast<std::int64_t>(j) : made.labels[j];
      largest_named = largest_named ||
                      (found[made.single.starts[i]] == static_cast<double>(name) && z[j] >= enough);
    }
    if (!largest_named) candidates &= ~kArgmax;
  }
  return candidates;
}

// By the axes that count classes and samples, as far as they are known.
void find_rows(Made& made, std::optional<std::size_t> class_axis,
               std::optional<std::size_t> samples) {
  const std::vector<std::size_t>& shape = made.output.shape;
  const std::size_t classes = made.logits.cols();
  if (class_axis) {
    const std::size_t first = samples.value_or(*class_axis == 0 ? 1 : 0);
    if (*class_axis < shape.size() && first < shape.size() && shape[*class_axis] == classes)
      made.per_class = rows_in(shape, class_axis, first);
    else if (shape.size() == 1 && shape[0] == classes)
      made.per_class = rows_in(shape, 0, std::nullopt);
    return;
  }
  const std::size_t count = element_count(shape, "an output");
  const bool in_a_row =
      std::ranges::count_if(shape, [](std::size_t extent) { return extent > 1; }) <= 1;
  if (samples && *samples < shape.size())
    made.single = rows_in(shape, std::nullopt, samples);
  else if (in_a_row || count == made.logits.rows())
    made.single = in_order(count);
}

}  // namespace

RunComparison::RunComparison(const OnnxModel& old_model, const OnnxModel& new_model,
                             const HeadFilter& filter, const HeadRounding& rounding)
    : old_model_(old_model),
      new_model_(new_model),
      filter_(filter),
      stored_rounding_(rounding),
      rounding_(
          std::max(unit_roundoff(old_model.head().weights.dtype), unit_roundoff(DType::f32))) {
  check_.compared_with_naive = shifts_all_alike(filter);
  const OnnxTail& tail = old_model.onnx_head().tail;
  for (const OnnxTail::Value& value : tail.values)
    axes_.emplace(value.name, Axes{value.class_axis, std::nullopt});
  for (const auto& [name, axis] : tail.samples_axes) axes_[name].samples = axis;
  for (const std::string& output : tail.other_outputs) other_outputs_.emplace(output, 0);
}

void RunComparison::add(const ModelOutputs& before, const ModelOutputs& after,
                        std::span<const std::uint32_t> labels) {
  if (before.positions != after.positions || before.logits.rows() != after.logits.rows())
    fail(ErrorCode::self_check,
         "the new model has other answers than the old one: {} and {}; "
         "nothing was written",
         after.logits.rows(), before.logits.rows());
  check_.samples += before.logits.rows() / std::max<std::size_t>(1, before.answers_per_sample());
  compare_features(before, after);
  compare_logits(before, after);
  if (!labels.empty()) count_right(before, after, labels);
  compare_outputs(before, after);
}

void RunComparison::compare_features(const ModelOutputs& before, const ModelOutputs& after) {
  for (std::size_t i = 0; i < before.features.rows(); ++i) {
    double size = 0, difference = 0;
    for (std::size_t j = 0; j < before.features.cols(); ++j) {
      const auto a = static_cast<double>(before.features(i, j));
      const auto b = static_cast<double>(after.features(i, j));
      size = std::max(size, std::abs(a));
      if (!(a == b)) difference = std::max(difference, std::abs(a - b));
      if (std::isnan(a) != std::isnan(b)) difference = HUGE_VAL;
    }
    const double bound = kRoundings * rounding_ * size + 1e-30;
    check_.features_over_bound = std::max(check_.features_over_bound, difference / bound);
  }
}

void RunComparison::compare_logits(const ModelOutputs& before, const ModelOutputs& after) {
  const HeadView& old_head = old_model_.head();
  const HeadView& new_head = new_model_.head();
  // The old model's features: whatever the new file made of its own is compared with these.
  ModelOutputs wanted{before.features, after.logits};
  check_.head_mismatch = std::max(check_.head_mismatch,
                                  head_mismatch(new_head, wanted, new_model_.onnx_head().rounding));
  Matrix<double> features(before.features.rows(), before.features.cols());
  std::ranges::copy(before.features.flat(), features.flat().begin());
  const Matrix<double> old_bounds = magnitudes_of(old_head, features);
  const Matrix<double> new_bounds = magnitudes_of(new_head, features);
  const double factor = unit_roundoff(old_head.weights.dtype) +
                        rounding_ * (std::sqrt(static_cast<double>(old_head.features())) + 8);
  const double steps = steps_of(old_model_) + steps_of(new_model_);
  for (std::size_t i = 0; check_.compared_with_naive && i < before.logits.rows(); ++i) {
    std::vector<double> naive;
    for (const std::size_t j : filter_.split.retained)
      naive.push_back(static_cast<double>(before.logits(i, j)));
    std::vector<double> found(after.logits.row(i).begin(), after.logits.row(i).end());
    if (place_of_largest(naive) != place_of_largest(found)) ++check_.label_flips;
    centre(naive);
    centre(found);
    const double bound =
        2 * factor * (std::ranges::max(new_bounds.row(i)) + std::ranges::max(old_bounds.row(i))) +
        2 * largest_error(stored_rounding_, features.row(i)) + steps + 1e-30;
    for (std::size_t j = 0; j < naive.size(); ++j) {
      const double difference = std::abs(naive[j] - found[j]);
      check_.largest_difference = std::max(check_.largest_difference, difference);
      check_.largest_ratio = std::max(check_.largest_ratio, difference / bound);
    }
  }
}

void RunComparison::count_right(const ModelOutputs& before, const ModelOutputs& after,
                                std::span<const std::uint32_t> labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kNoLabel) continue;
    const auto place = filter_.split.new_index(labels[i]);
    if (!place) continue;
    ++kept_;
    if (place_of_largest(before.logits.row(i)) == labels[i]) ++right_before_;
    if (place_of_largest(after.logits.row(i)) == *place) ++right_after_;
  }
}

void RunComparison::compare_outputs(const ModelOutputs& before, const ModelOutputs& after) {
  for (const auto& [key, old_output] : before.values) {
    const std::string& name = key;  // for the lambda below: clang 14 captures no binding
    const auto found = after.values.find(name);
    if (found == after.values.end())
      fail(ErrorCode::self_check, "the new model has no output '{}'; nothing was written", name);
    const Tensor& new_output = found->second;
    ran_outputs_.insert(name);
    const auto other = other_outputs_.find(name);
    if (other == other_outputs_.end()) {
      const auto known = axes_.find(name);
      const Axes axes = known == axes_.end() ? Axes{} : known->second;
      Seen& seen = seen_.emplace(name, Seen{kAny, kAny}).first->second;
      const auto compare = [&](unsigned& functions, const OnnxModel& model, const Tensor& output,
                               const Matrix<float>& logits) {
        const auto& all = model.onnx_head().tail.label_outputs;
        const auto labels = all.find(name);
        Made made{output, logits, {}, {}, {}};
        if (labels != all.end()) made.labels = labels->second;
        find_rows(made, axes.classes, axes.samples);
        functions = functions_of(functions, made, rounding_);
      };
      compare(seen.before, old_model_, old_output, before.logits);
      compare(seen.after, new_model_, new_output, after.logits);
      continue;
    }
    double& worst = other->second;
    const std::vector<double> a = numbers_of(old_output), b = numbers_of(new_output);
    const double bound = kRoundings * rounding_ * magnitude(a) + 1e-30;
    if (old_output.shape != new_output.shape) worst = HUGE_VAL;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      const double ratio = std::abs(a[i] - b[i]) / bound;
      worst = std::isnan(ratio) ? HUGE_VAL : std::max(worst, ratio);
    }
  }
}

RunCheck RunComparison::finish() const {
  RunCheck result = check_;
  if (kept_ != 0) {
    result.kept_accuracy_before = static_cast<double>(right_before_) / static_cast<double>(kept_);
    result.kept_accuracy_after = static_cast<double>(right_after_) / static_cast<double>(kept_);
  }
  if (!(result.features_over_bound <= 1))
    fail(
        ErrorCode::self_check,
        "the new model's last layer reads other features than the old one's: they differ by {:.3g} "
        "times what rounding explains, so that something before the layer was changed; nothing "
        "was written",
        result.features_over_bound);
  if (!(result.head_mismatch <= 1))
    fail(ErrorCode::self_check,
         "the new model does not compute what its new layer says (W f + b differs by {:.3g} times "
         "its bound); nothing was written",
         result.head_mismatch);
  if (!(result.largest_ratio <= 1))
    fail(ErrorCode::self_check,
         "the new model's softmax is not that of the old one without the forgotten classes: "
         "centred logits differ by {:.3g}, {:.3g} times what rounding explains; nothing was "
         "written",
         result.largest_difference, result.largest_ratio);
  for (const auto& [name, seen] : seen_) {
    if (seen.before == 0) {
      result.outputs_not_compared.push_back(name);
    } else if ((seen.before & seen.after) == 0) {
      fail(ErrorCode::self_check,
           "output '{}' is {} in the old model, and is not in the new one; nothing was written",
           name, name_of_function(seen.before));
    } else {
      result.outputs.emplace(name, name_of_function(seen.before & seen.after));
    }
  }
  for (const auto& [name, ratio] : other_outputs_) {
    if (!(ratio <= 1))
      fail(
          ErrorCode::self_check,
          "output '{}' does not come from the logits and yet differs by {:.3g} times what rounding "
          "explains; nothing was written",
          name, ratio);
    if (ran_outputs_.contains(name)) result.outputs.emplace(name, "unchanged");
  }
  return result;
}

}  // namespace oubli
