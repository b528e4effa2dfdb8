#include "oubli/forget/forget.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "oubli/array/npz.h"
#include "oubli/base/digest.h"
#include "oubli/base/random.h"
#include "oubli/forget/receipt.h"
#include "tests/test_safetensors.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempFolder;

// Classes around random centres, and a head that tells them apart: rows are the centres.
struct World {
  std::size_t classes;
  std::size_t features;
  Matrix<float> weights;
  std::vector<double> bias;
  Matrix<float> x;
  std::vector<std::uint32_t> labels;

  World(std::size_t k, std::size_t p, std::size_t per_class) : classes(k), features(p) {
    RandomStream random(7, task_id("world", {k, p}));
    weights = Matrix<float>(k, p);
    for (float& w : weights.flat()) w = static_cast<float>(random.normal());
    for (std::size_t j = 0; j < k; ++j) bias.push_back(0.1 * random.normal());
    x = Matrix<float>(k * per_class, p);
    for (std::size_t i = 0; i < x.rows(); ++i) {
      labels.push_back(static_cast<std::uint32_t>(i % k));
      for (std::size_t d = 0; d < p; ++d)
        x(i, d) = weights(i % k, d) + 0.5F * static_cast<float>(random.normal());
    }
  }

  // A file with an untouched layer, the head, and metadata.
  void save(const fs::path& path, DType type = DType::f32, bool with_bias = true) const {
    std::vector<double> values(weights.flat().begin(), weights.flat().end());
    Tensor w = to_tensor(values, type);
    w.shape = {classes, features};
    const Tensor b = to_tensor(bias, type);
    const Tensor other = to_tensor(std::vector<double>{3, 1, 4}, DType::f64);
    AtomicFile out(path);
    if (path.extension() == ".npz") {
      NpzWriter writer(out);
      writer.add("conv", other.view(""));
      writer.add("W", w.view(""));
      if (with_bias) writer.add("b", b.view(""));
      writer.finish();
    } else {
      std::vector<std::pair<std::string, TensorView>> tensors{{"conv", other.view("")},
                                                              {"fc.weight", w.view("")}};
      if (with_bias) tensors.push_back({"fc.bias", b.view("")});
      testing::write_safetensors(out, tensors);
    }
    out.commit();
  }

  [[nodiscard]] CalibrationData data(Space space, const ModelFile& model) const {
    CalibrationData data;
    data.space = space;
    data.labels = labels;
    Tensor tensor;
    if (space == Space::features) {
      tensor = to_tensor(MatrixView<const float>(x));
    } else {
      Matrix<double> features_in_double(x.rows(), x.cols());
      std::ranges::copy(x.flat(), features_in_double.flat().begin());
      const Matrix<double> logits = logits_of(model.head(), features_in_double);
      tensor = to_tensor(MatrixView<const double>(logits));
    }
    data.values = share(std::move(tensor), "data");
    return data;
  }
};

Matrix<double> logits(const ModelFile& model, const Matrix<float>& x) {
  Matrix<double> features(x.rows(), x.cols());
  std::ranges::copy(x.flat(), features.flat().begin());
  return logits_of(model.head(), features);
}

TEST(Forget, WritesModelReceiptAndMeansAndLeavesTheInputAlone) {
  const TempFolder folder;
  const World world(6, 10, 40);
  for (const std::string extension : {".npz", ".safetensors"})
    for (const Space space : {Space::features, Space::logits}) {
      const fs::path in = folder / ("in" + extension);
      const fs::path out = folder / ("out" + extension);
      world.save(in);
      const std::string before = sha256_file(in);
      const auto model = ModelFile::open(in);
      ForgetInputs inputs{.model = model.get(), .data = world.data(space, *model)};
      ForgetRequest request;
      request.forget = {2, 4};
      request.class_names = {"a", "b", "forgotten-one", "d", "other-forgotten", "f"};
      const ForgetPlan plan = plan_forget(inputs, request);
      const std::string text =
          carry_out(inputs, request, plan, {.model = out, .replace = true}).receipt;
      EXPECT_EQ(sha256_file(in), before);

      // The theorem: normalization moves all retained logits of an input alike.
      const auto after = ModelFile::open(out);
      ASSERT_EQ(after->head().classes(), 4U);
      const Matrix<double> old_logits = logits(*model, world.x);
      const Matrix<double> new_logits = logits(*after, world.x);
      const std::vector<std::size_t> retained{0, 1, 3, 5};
      for (std::size_t i = 0; i < world.x.rows(); ++i) {
        const double shift = new_logits(i, 0) - old_logits(i, 0);
        for (std::size_t j = 1; j < 4; ++j)
          EXPECT_NEAR(new_logits(i, j) - old_logits(i, retained[j]), shift, 2e-5);
      }
      // The receipt: what it holds, and what it must not hold.
      EXPECT_EQ(text, read_text_file(receipt_path(out)));
      const auto receipt = parse_receipt(text, "receipt");
      EXPECT_EQ(receipt["input"]["files"][0]["sha256"], before);
      EXPECT_EQ(receipt["output"]["files"][0]["sha256"], sha256_file(out));
      EXPECT_EQ(receipt["classes"][3]["new"], 2);
      EXPECT_TRUE(receipt["classes"][4]["new"].is_null());
      EXPECT_THAT(text, Not(HasSubstr("forgotten-one")));
      EXPECT_THAT(text, Not(HasSubstr("other-forgotten")));
      EXPECT_EQ(receipt["leak_check"]["rows"].size(), 6U);
      EXPECT_EQ(receipt["leak_check"]["label_flips_against_naive"], 0);
      EXPECT_EQ(receipt["self_check"]["forgotten_rows_absent"], true);
      // Means: shrunken, and equal to those of the data under the new head.
      const StoredMeans means = read_means(means_path(out));
      EXPECT_EQ(means.classes(), 4U);
      EXPECT_EQ(means.head_sha256, head_digest(after->head()));
      EXPECT_EQ(means.class_names, (std::vector<std::string>{"a", "b", "d", "f"}));
      if (space == Space::logits) {
        const Matrix<double> shrunken = to_matrix(means.means);
        for (std::size_t j = 0; j < 4; ++j) {
          double sum = 0;
          double count = 0;
          for (std::size_t i = 0; i < world.x.rows(); ++i)
            if (world.labels[i] == retained[j]) {
              sum += new_logits(i, 1);
              ++count;
            }
          EXPECT_NEAR(shrunken(j, 1), sum / count, 2e-5);
        }
      }
      for (const fs::path& path : {out, receipt_path(out), means_path(out)}) fs::remove(path);
    }
}

// Three deletions in a row from stored means give the bytes that redoing each step from data gives.
TEST(Forget, AChainFromMeansEqualsRedoingItFromData) {
  const TempFolder folder;
  const World world(7, 9, 30);
  world.save(folder / "d0.npz");
  world.save(folder / "m0.npz");
  std::vector<std::uint32_t> current(world.classes);
  for (std::uint32_t j = 0; j < world.classes; ++j) current[j] = j;
  for (std::size_t step = 1; step <= 3; ++step) {
    const std::size_t victim = step;  // in the current numbering
    const auto name = [&](char kind, std::size_t n) {
      return folder / (std::string(1, kind) + std::to_string(n) + ".npz");
    };
    ForgetRequest request;
    request.forget = {victim};
    // From data: samples of retained classes only, renumbered.
    const auto from_data = ModelFile::open(name('d', step - 1));
    CalibrationData data = world.data(Space::features, *from_data);
    std::vector<float> kept;
    std::vector<std::uint32_t> labels;
    for (std::size_t i = 0; i < world.labels.size(); ++i) {
      const auto found = std::ranges::find(current, world.labels[i]);
      if (found == current.end()) continue;
      labels.push_back(static_cast<std::uint32_t>(found - current.begin()));
      kept.insert(kept.end(), world.x.row(i).begin(), world.x.row(i).end());
    }
    const Matrix<float> rows(labels.size(), world.features, kept);
    data.values = share(to_tensor(MatrixView<const float>(rows)), "kept");
    data.labels = labels;
    ForgetInputs inputs{.model = from_data.get(), .data = data};
    const ForgetPlan plan = plan_forget(inputs, request);
    (void)carry_out(inputs, request, plan, {.model = name('d', step)});
    // From means: the file written by the step before.
    const auto from_means = ModelFile::open(name('m', step - 1));
    ForgetInputs stored{.model = from_means.get()};
    stored.means = read_means(means_path(step == 1 ? name('d', 1) : name('m', step - 1)));
    if (step == 1) {
      // The first means are those of the data.
      stored.means = plan.means;
    }
    const ForgetPlan again = plan_forget(stored, request);
    (void)carry_out(stored, request, again, {.model = name('m', step)});
    EXPECT_EQ(sha256_file(name('d', step)), sha256_file(name('m', step))) << step;
    current.erase(current.begin() + static_cast<std::ptrdiff_t>(victim));
  }
}

TEST(Forget, TheSameRequestGivesTheSameBytes) {
  const TempFolder folder;
  const World world(5, 8, 30);
  world.save(folder / "in.npz");
  for (const char* const out : {"a.npz", "b.npz"}) {
    const auto model = ModelFile::open(folder / "in.npz");
    ForgetInputs inputs{.model = model.get(),

                        .data = world.data(Space::features, *model)};
    ForgetRequest request;
    request.forget = {1};
    request.method = Method::randomization;
    request.seed = 3;
    const ForgetPlan plan = plan_forget(inputs, request);
    (void)carry_out(inputs, request, plan, {.model = folder / out});
  }
  EXPECT_EQ(sha256_file(folder / "a.npz"), sha256_file(folder / "b.npz"));
  EXPECT_EQ(sha256_file(folder / "a.npz.means.npz"), sha256_file(folder / "b.npz.means.npz"));
}

TEST(Forget, EveryFloatTypeAndABiasFreeHead) {
  const TempFolder folder;
  const World world(5, 8, 40);
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    world.save(folder / "in.safetensors", type, false);
    const auto model = ModelFile::open(folder / "in.safetensors");
    ForgetInputs inputs{.model = model.get(),

                        .data = world.data(Space::features, *model)};
    ForgetRequest request;
    request.forget = {0};
    for (const Solver solver : {Solver::paper, Solver::affine}) {
      request.solver = solver;
      const ForgetPlan plan = plan_forget(inputs, request);
      (void)carry_out(inputs, request, plan,
                      {.model = folder / "out.safetensors", .replace = true});
      const auto after = ModelFile::open(folder / "out.safetensors");
      EXPECT_EQ(after->head().weights.dtype, type);
      EXPECT_EQ(after->head().bias.has_value(), solver == Solver::affine);
    }
  }
}

TEST(Forget, OverflowOfTheStoredTypeIsASelfCheckFailureAndWritesNothing) {
  const TempFolder folder;
  World world(4, 6, 30);
  for (float& w : world.weights.flat()) w *= 1000;
  world.save(folder / "in.safetensors", DType::f16);
  const auto model = ModelFile::open(folder / "in.safetensors");
  ForgetInputs inputs{.model = model.get(),

                      .data = world.data(Space::features, *model)};
  ForgetRequest request;
  request.forget = {0};
  request.method = Method::custom;
  request.solver = Solver::affine;
  request.custom_target = Matrix<double>(1, 3, {1e9, -1e9, 1e9});
  EXPECT_EQ(error_of([&] { (void)plan_forget(inputs, request); }).code(), ErrorCode::self_check);
}

TEST(Forget, ACopyOfTheForgottenRowIsReported) {
  const TempFolder folder;
  const World world(4, 6, 30);
  const Tensor w = to_tensor(MatrixView<const float>(world.weights));
  {
    AtomicFile out(folder / "in.npz");
    NpzWriter writer(out);
    writer.add("W", w.view(""));
    writer.add("ema.W", w.view(""));
    writer.finish();
    out.commit();
  }
  const auto model = ModelFile::open(folder / "in.npz", {.weights = "W", .transposed = false});
  ForgetInputs inputs{.model = model.get()};
  ForgetRequest request;
  request.forget = {1};
  request.method = Method::naive;
  const ForgetPlan plan = plan_forget(inputs, request);
  const auto receipt =
      parse_receipt(carry_out(inputs, request, plan, {.model = folder / "out.npz"}).receipt, "");
  EXPECT_EQ(receipt["self_check"]["forgotten_rows_absent"], false);
  EXPECT_EQ(receipt["findings"][0]["where"], "ema.W");
}

// A row of the head of its own name, as in models of one output per person.
TEST(Forget, TheReceiptDoesNotSayTheNameAnywhere) {
  const TempFolder folder;
  const World world(5, 8, 30);
  {
    AtomicFile out(folder / "old.npz");
    NpzWriter writer(out);
    writer.add("bob.weight", to_tensor(MatrixView<const float>(world.weights)).view(""));
    writer.add("bob.prototypes", to_tensor(std::vector<double>(5), DType::f64).view(""));
    writer.finish();
    out.commit();
  }
  const auto model =
      ModelFile::open(folder / "old.npz", {.weights = "bob.weight", .bias = std::string()});
  ForgetInputs inputs{.model = model.get()};
  inputs.data = world.data(Space::features, *model);
  ForgetRequest request;
  request.forget = {1};
  request.class_names = {"ann", "bob", "cem", "dee", "eve"};
  const ForgetPlan plan = plan_forget(inputs, request);
  const std::string receipt =
      carry_out(inputs, request, plan, {.model = folder / "new.npz"}).receipt;
  EXPECT_THAT(receipt, Not(HasSubstr("bob")));
  EXPECT_THAT(receipt, HasSubstr("\"name\": \"....weight\""));
  EXPECT_THAT(receipt, HasSubstr("....prototypes"));
  EXPECT_THAT(receipt, HasSubstr("ann"));
}

TEST(Forget, LabelsThatTheModelDoesNotMeanAreRefused) {
  const TempFolder folder;
  const World world(6, 12, 30);
  world.save(folder / "old.npz");
  const auto model = ModelFile::open(folder / "old.npz");
  for (const Space space : {Space::features, Space::logits})
    for (const std::uint32_t shift : {0U, 1U}) {
      ForgetInputs inputs{.model = model.get()};
      inputs.data = world.data(space, *model);
      for (std::uint32_t& label : inputs.data->labels) label = (label + shift) % 6;
      ForgetRequest request;
      request.forget = {2};
      for (const bool ignore : {false, true}) {
        request.ignore_accuracy = ignore;
        if (shift != 0 && !ignore) {
          EXPECT_THAT([&] { (void)plan_forget(inputs, request); },
                      ::testing::ThrowsMessage<Error>(HasSubstr("misaligned")));
          continue;
        }
        const ForgetPlan plan = plan_forget(inputs, request);
        EXPECT_EQ(look_for_leaks(inputs, request, plan).leaks->kept_samples, 150U);
      }
    }
}

TEST(NearChance, IsNeverMostSamples) {
  for (const std::size_t samples : {1U, 6U, 30U, 10'000U}) {
    EXPECT_FALSE(near_chance(1, 3, samples));
    EXPECT_FALSE(near_chance(0.5, 3, samples));
    EXPECT_TRUE(near_chance(1.0 / 3, 3, samples));
    EXPECT_TRUE(near_chance(0, 10, samples));
  }
  EXPECT_TRUE(near_chance(0.14, 10, 10'000));  // half as much again
  EXPECT_FALSE(near_chance(0.17, 10, 10'000));
  EXPECT_TRUE(near_chance(0.17, 10, 100));  // within three standard deviations
}

TEST(Forget, StopsWhenAskedToAndLeavesNothing) {
  const TempFolder folder;
  const World world(4, 6, 30);
  world.save(folder / "in.npz");
  const auto model = ModelFile::open(folder / "in.npz");
  const ForgetInputs inputs{.model = model.get(), .data = world.data(Space::features, *model)};
  ForgetRequest request;
  request.forget = {1};
  std::stop_source source;
  const ForgetPlan plan = plan_forget(inputs, request, source.get_token());
  source.request_stop();
  const auto interrupted = [&](const auto& action) {
    EXPECT_EQ(error_of(action).code(), ErrorCode::interrupted);
  };
  interrupted([&] { (void)plan_forget(inputs, request, source.get_token()); });
  const fs::path out = folder / "out.npz";
  interrupted([&] { (void)carry_out(inputs, request, plan, {.model = out}, source.get_token()); });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  (void)carry_out(inputs, request, plan, {.model = out});
  EXPECT_TRUE(fs::exists(out));
}

TEST(Forget, CompanionsOfAnInterruptedRunAreTakenOverOnlyIfEqual) {
  const TempFolder folder;
  const World world(4, 6, 30);
  world.save(folder / "in.npz");
  const auto model = ModelFile::open(folder / "in.npz");
  ForgetInputs inputs{.model = model.get(),

                      .data = world.data(Space::features, *model)};
  ForgetRequest request;
  request.forget = {1};
  const ForgetPlan plan = plan_forget(inputs, request);
  const fs::path out = folder / "out.npz";
  const std::string receipt = carry_out(inputs, request, plan, {.model = out}).receipt;
  const std::string digest = sha256_file(out);
  fs::remove(out);  // as if killed before the last rename
  EXPECT_EQ(carry_out(inputs, request, plan, {.model = out}).receipt, receipt);
  EXPECT_EQ(sha256_file(out), digest);
  fs::remove(out);
  write_file(receipt_path(out), "somebody's notes");
  EXPECT_EQ(error_of([&] { (void)carry_out(inputs, request, plan, {.model = out}); }).code(),
            ErrorCode::usage);
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(read_text_file(receipt_path(out)), "somebody's notes");
}

}  // namespace
}  // namespace oubli
