#include "oubli/forget/stored_means.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "oubli/array/npz.h"
#include "oubli/base/digest.h"
#include "oubli/base/json.h"
#include "oubli/base/names.h"
#include "oubli/base/version.h"
#include "oubli/forget/calibration.h"

namespace oubli {
namespace {

constexpr char kFormat[] = "oubli-means";
constexpr int kVersionOfFormat = 2;  // 2: feature_scatter

template <typename T>
Tensor vector_tensor(DType type, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {type, {values.size()}, {bytes.begin(), bytes.end()}};
}

template <typename T>
std::vector<T> read_vector(const SharedTensor& tensor, DType type, std::size_t count) {
  if (tensor.dtype != type || tensor.shape != std::vector{count})
    fail(ErrorCode::bad_input, "{}: {}, wanted {} [{}]", tensor.what, describe(tensor),
         oubli::name_of(type), count);
  std::vector<T> values(count);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

nlohmann::json read_about(const NpzFile& file, const std::string& path) {
  const auto text = file.read_text("about.json");
  if (!text) fail(ErrorCode::bad_input, "{}: not a means file; 'oubli means' writes one", path);
  nlohmann::json about = parse_json(*text, path + ":about.json");
  if (!about.is_object() || about.value("format", nlohmann::json()) != kFormat)
    fail(ErrorCode::bad_input, "{}: not a means file; 'oubli means' writes one", path);
  const auto version = about.value("version", nlohmann::json());
  if (!version.is_number_integer() || version > kVersionOfFormat || version < 1)
    fail(ErrorCode::bad_input, "{}: means file of version {}, this program reads {}", path,
         version.dump(), kVersionOfFormat);
  return about;
}

}  // namespace

double StoredMeans::within_variance() const {
  double sum = 0;
  double degrees = 0;
  for (std::size_t j = 0; j < counts.size(); ++j) {
    if (counts[j] < 2) continue;
    sum += scatter[j];
    degrees += static_cast<double>(counts[j] - 1);
  }
  return degrees > 0 ? sum / degrees / static_cast<double>(means.shape[1]) : std::nan("");
}

std::string head_digest(const HeadView& head) {
  Sha256 digest;
  digest.update(as_bytes(fmt::format("{}, transposed {}, scale {}", describe(head.weights),
                                     head.transposed, head.weight_scale)));
  digest.update(head.weights.bytes);
  if (head.bias) {
    digest.update(as_bytes(
        fmt::format("bias {}, scale {}", oubli::name_of(head.bias->dtype), head.bias_scale)));
    digest.update(head.bias->bytes);
  }
  return digest.hex();
}

StoredMeans store_means(Space space, ClassMeans gathered, std::vector<std::string> class_names,
                        std::string head_sha256) {
  const auto owner = std::make_shared<const ClassMeans>(std::move(gathered));
  StoredMeans stored;
  stored.space = space;
  stored.means = {{DType::f64,
                   {owner->classes(), owner->dimensions()},
                   std::as_bytes(owner->means().flat()),
                   "class means"},
                  owner};
  stored.counts.assign(owner->counts().begin(), owner->counts().end());
  stored.scatter.assign(owner->scatter().begin(), owner->scatter().end());
  if (!owner->feature_scatter().empty())
    stored.feature_scatter = {
        tensor_view<float>(owner->feature_scatter().view(), "scatter of features"), owner};
  stored.class_names = std::move(class_names);
  stored.head_sha256 = std::move(head_sha256);
  return stored;
}

StoredMeans read_means(const std::filesystem::path& path) {
  const std::string where = path.string();
  const NpzFile file(path);
  const nlohmann::json about = read_about(file, where);
  StoredMeans stored;
  try {
    const auto word = about.at("space").get<std::string>();
    const auto space = find_named<Space>(word);
    if (!space)
      fail(ErrorCode::bad_input, "{}: means of '{}', wanted features or logits", where, word);
    stored.space = *space;
    stored.head_sha256 = about.at("head_sha256").get<std::string>();
    stored.class_names = about.at("class_names").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::bad_input, "{}: damaged about.json: {}", where, error.what());
  }
  stored.means = file.read("means");
  if (stored.means.dtype != DType::f64 || stored.means.rank() != 2)
    fail(ErrorCode::bad_input, "{}: {}, wanted a float64 matrix", stored.means.what,
         describe(stored.means));
  const std::size_t classes = stored.means.shape[0];
  stored.counts = read_vector<std::uint64_t>(file.read("counts"), DType::u64, classes);
  stored.scatter = read_vector<double>(file.read("scatter"), DType::f64, classes);
  // NaN: not known.
  if (std::ranges::any_of(stored.scatter, [](double v) { return v < 0 || std::isinf(v); }))
    fail(ErrorCode::bad_input, "{}: a scatter that is negative or infinite", where);
  if (std::ranges::find(file.tensors(), "feature_scatter", &TensorInfo::name) !=
      file.tensors().end()) {
    stored.feature_scatter = file.read("feature_scatter");
    if (stored.feature_scatter.dtype != DType::f32 ||
        stored.feature_scatter.shape != stored.means.shape || stored.space == Space::logits)
      fail(ErrorCode::bad_input, "{}: {}, wanted float32 beside the means of features {}",
           stored.feature_scatter.what, describe(stored.feature_scatter), describe(stored.means));
  }
  if (!stored.class_names.empty())
    stored.class_names =
        parse_class_names(fmt::format("{}", fmt::join(stored.class_names, "\n")), classes, where);
  if (stored.space == Space::logits && stored.means.shape[1] != classes)
    fail(ErrorCode::bad_input, "{}: {}, wanted as many logits as classes", stored.means.what,
         describe(stored.means));
  return stored;
}

void write_means(AtomicFile& out, const StoredMeans& means) {
  const nlohmann::ordered_json about{{"format", kFormat},
                                     {"version", kVersionOfFormat},
                                     {"written_by", fmt::format("oubli {}", kVersion)},
                                     {"space", name_of(means.space)},
                                     {"head_sha256", means.head_sha256},
                                     {"class_names", means.class_names}};
  NpzWriter writer(out);
  writer.add_text("about.json", to_text(about, 1) + "\n");
  writer.add("means", means.means);
  writer.add("counts",
             vector_tensor(DType::u64, std::span<const std::uint64_t>(means.counts)).view(""));
  writer.add("scatter", vector_tensor(DType::f64, std::span<const double>(means.scatter)).view(""));
  if (means.feature_scatter.rank() == 2) writer.add("feature_scatter", means.feature_scatter);
  writer.finish();
}

StoredMeans shrink_means(const StoredMeans& means, const FiltrationPlan& plan,
                         std::string new_head_sha256) {
  const auto& retained = plan.filter.split.retained;
  const std::size_t dimensions = means.means.shape[1];
  auto kept = Matrix<double>::for_overwrite(retained.size(), dimensions);
  const std::size_t row_bytes = dimensions * sizeof(double);
  OUBLI_ASSERT(means.means.dtype == DType::f64);
  StoredMeans shrunk;
  for (std::size_t i = 0; i < retained.size(); ++i) {
    std::memcpy(kept.row(i).data(), means.means.bytes.data() + retained[i] * row_bytes, row_bytes);
    shrunk.counts.push_back(means.counts[retained[i]]);
    // How far filtered logits scatter cannot be told from how far the old ones did.
    shrunk.scatter.push_back(means.space == Space::features ? means.scatter[retained[i]]
                                                            : std::nan(""));
    if (!means.class_names.empty()) shrunk.class_names.push_back(means.class_names[retained[i]]);
  }
  if (means.feature_scatter.rank() == 2) {
    const auto scatter =
        std::make_shared<const Matrix<float>>(pick_samples(means.feature_scatter, retained));
    shrunk.feature_scatter = {tensor_view<float>(scatter->view(), means.feature_scatter.what),
                              scatter};
  }
  if (means.space == Space::logits) {
    if (!plan.on_logits)
      fail(ErrorCode::unfilterable,
           "a filter of features cannot be applied to stored means of logits");
    kept = plan.on_logits->apply(kept);
  }
  const auto owner = std::make_shared<const Matrix<double>>(std::move(kept));
  shrunk.space = means.space;
  shrunk.means = {
      {DType::f64, {owner->rows(), owner->cols()}, std::as_bytes(owner->flat()), "class means"},
      owner};
  shrunk.head_sha256 = std::move(new_head_sha256);
  return shrunk;
}

}  // namespace oubli
