#include "oubli/audit/population.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "oubli/base/error.h"

namespace oubli {
namespace {

// Numbers of a wider type that are infinite as floats only: the file is not to blame.
void require_fit(const TensorView& tensor, std::span<const std::byte> bytes,
                 std::span<const float> row, const std::string& model, std::size_t sample) {
  if (std::ranges::none_of(row, [](float value) { return std::isinf(value); })) return;
  std::vector<double> wide(row.size());
  decode(tensor.dtype, bytes, std::span(wide));
  for (std::size_t j = 0; j < row.size(); ++j)
    if (std::isinf(row[j]) && std::isfinite(wide[j]))
      fail(ErrorCode::bad_input,
           "{}, sample {}, column {} is {}, which does not fit float32, the type audits compute in",
           model, sample, j, wide[j]);
}

// Rows are short: one is copied before a call of memcpy has begun.
void copy_row(const float* row, std::size_t columns, float* out) {
  constexpr std::size_t kWide = 8;
  if (columns < kWide) {
    for (std::size_t c = 0; c < columns; ++c) out[c] = row[c];
    return;
  }
  for (std::size_t c = 0; c + kWide < columns; c += kWide)
    std::memcpy(out + c, row + c, kWide * sizeof(float));
  // The last ones once more where columns are no multiple.
  std::memcpy(out + columns - kWide, row + columns - kWide, kWide * sizeof(float));
}

void copy_rows(const float* rows, std::size_t columns, std::span<const std::uint32_t> samples,
               float* out) {
  for (const std::uint32_t sample : samples) {
    copy_row(rows + sample * columns, columns, out);
    out += columns;
  }
}

// `model()`: what it is called in messages.
template <typename Name>
void read_rows(const TensorView& tensor, const Name& model, std::size_t first_row,
               std::size_t columns, std::span<const std::uint32_t> samples, MatrixView<float> out) {
  const std::size_t row_bytes = columns * size_of(tensor.dtype);
  const std::byte* const rows = tensor.bytes.data() + first_row * row_bytes;
  if (tensor.dtype == DType::f32 && reinterpret_cast<std::uintptr_t>(rows) % alignof(float) == 0) {
    copy_rows(reinterpret_cast<const float*>(rows), columns, samples, out.data());
    return;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto bytes = tensor.bytes.subspan((first_row + samples[i]) * row_bytes, row_bytes);
    decode(tensor.dtype, bytes, out.row(i));
    if (tensor.dtype == DType::f64) require_fit(tensor, bytes, out.row(i), model(), samples[i]);
  }
}

void require_float(const TensorView& tensor) {
  if (!is_float(tensor.dtype))
    fail(ErrorCode::bad_input, "{}: {}, wanted floating-point logits or features", tensor.what,
         describe(tensor));
}

std::string numbered(const std::string& name, std::size_t model) {
  return fmt::format("{}: model {}", name, model);
}

}  // namespace

std::string Population::model_name(std::size_t model) const {
  return files.empty() ? numbered(name, model) : files[model];
}

Population population_of(const TensorView& tensor) {
  require_float(tensor);
  if (tensor.rank() != 3)
    fail(
        ErrorCode::bad_input,
        "{}: {}, wanted models x samples x classes; for one samples x classes array per model name "
        "all the files",
        tensor.what, describe(tensor));
  const std::size_t samples = tensor.shape[1], columns = tensor.shape[2];
  return {.name = tensor.what,
          .models = tensor.shape[0],
          .samples = samples,
          .columns = columns,
          .read = [tensor, samples, columns](std::size_t model, std::span<const std::uint32_t> rows,
                                             MatrixView<float> out) {
            read_rows(
                tensor, [&] { return numbered(tensor.what, model); }, model * samples, columns,
                rows, out);
          }};
}

Population population_of(std::vector<TensorView> tensors, const std::string& name) {
  if (tensors.empty()) fail(ErrorCode::bad_input, "{}: no model, wanted at least two", name);
  std::vector<std::string> files;
  for (const TensorView& tensor : tensors) {
    files.push_back(tensor.what);
    require_float(tensor);
    if (tensor.rank() != 2)
      fail(ErrorCode::bad_input, "{}: {}, wanted samples x classes, one file per model",
           tensor.what, describe(tensor));
    if (tensor.shape != tensors.front().shape)
      fail(ErrorCode::bad_input, "{}: {}, but {} has {}: all models must be given the same samples",
           tensor.what, describe(tensor), tensors.front().what, describe(tensors.front()));
  }
  const std::size_t models = tensors.size();
  const std::size_t samples = tensors.front().shape[0], columns = tensors.front().shape[1];
  return {.name = name,
          .models = models,
          .samples = samples,
          .columns = columns,
          .read =
              [tensors = std::move(tensors), columns](
                  std::size_t model, std::span<const std::uint32_t> rows, MatrixView<float> out) {
                read_rows(
                    tensors[model], [&] { return tensors[model].what; }, 0, columns, rows, out);
              },
          .files = std::move(files)};
}

void fail_column_per_class(const Population& logits, const std::string& evidence) {
  fail(ErrorCode::bad_input,
       "{}: {} columns ({}): one column for every class; the forgotten classes' columns must be "
       "gone: unlearned, or retrained without. An output that was there while others were trained "
       "would give the model away by itself",
       logits.name, logits.columns, evidence);
}

void read_finite(const Population& population, std::size_t model,
                 std::span<const std::uint32_t> samples, MatrixView<float> out) {
  OUBLI_ASSERT(out.rows() == samples.size() && out.cols() == population.columns);
  population.read(model, samples, out);
  unsigned bad = 0;
  for (const float value : std::span(out.data(), out.rows() * out.cols()))
    bad |= std::abs(value) <= kLargestValue ? 0U : 1U;
  if (bad == 0) return;
  for (std::size_t i = 0; i < out.rows(); ++i) {
    const float* row = out.data() + i * out.cols();
    for (std::size_t j = 0; j < out.cols(); ++j) {
      if (std::abs(row[j]) <= kLargestValue) continue;
      fail(ErrorCode::bad_input,
           "{}, sample {}, column {} is {}{}; a model that gives such numbers cannot be audited: "
           "find out why, or leave the model out",
           population.model_name(model), samples[i], j, row[j],
           std::isfinite(row[j])
               ? fmt::format(", beyond {:.0e}, where it hides all other differences", kLargestValue)
               : "");
    }
  }
}

}  // namespace oubli
