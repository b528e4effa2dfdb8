#include "oubli/forget/curvature.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "oubli/array/npz.h"
#include "oubli/forget/receipt.h"
#include "oubli/forget/verify.h"
#include "oubli/model/model_file.h"
#include "oubli/nn/network_file.h"
#include "oubli/rivals/test_request.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;
using State = VerifyStep::State;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

// A trained network in a file, the images it was trained on in another, and a request.
struct Case {
  explicit Case(const TestRequest& its, std::vector<std::size_t> forget = {2}) : trained(its) {
    nn::save_network(trained.network, trained.train.class_names, folder / "old.onnx");
    save_images(trained.train, folder / "images.npz");
    model = ModelFile::open(folder / "old.onnx");
    request.forget = std::move(forget);
    request.class_names = trained.train.class_names;
    request.curvature = true;
    run_on(folder / "images.npz");
  }

  void run_on(const fs::path& data, const PreparationOptions& preparation = {}) {
    RunOptions options;
    options.data = data.string();
    options.preparation = preparation;
    run = std::make_unique<CalibrationRun>(*model, options, request.class_names);
    inputs = {.model = model.get(), .data = run->calibration(), .run = run.get()};
  }
  CurvatureOutcome carry_out() const {
    return carry_out_curvature(inputs, request, plan_curvature(inputs, request),
                               {.model = folder / "new.onnx"});
  }
  // The rival on what the request is about.
  [[nodiscard]] GuardedStep direct() const {
    nn::TrainOptions recipe;
    recipe.seed = request.seed;
    return guarded_curvature_step({.network = trained.network,
                                   .train = trained.train,
                                   .split = split_for_deletion(4, request.forget),
                                   .recipe = recipe});
  }
  std::vector<VerifyStep> verify(const fs::path& path) const {
    const auto receipt =
        parse_receipt(read_text_file(receipt_path(folder / "new.onnx")), "receipt");
    const auto found = ModelFile::open(path);
    VerifyInputs all;
    all.model = found.get();
    all.original = &inputs;
    return verify_receipt(receipt, all);
  }

  const TestRequest& trained;
  TempFolder folder;
  std::unique_ptr<ModelFile> model;
  std::unique_ptr<CalibrationRun> run;
  ForgetInputs inputs;
  ForgetRequest request;
};

State state_of(std::span<const VerifyStep> steps, const std::string& what) {
  for (const VerifyStep& step : steps)
    if (step.what == what) return step.state;
  ADD_FAILURE() << "no step " << what;
  return State::not_made;
}

constexpr const char* kSteps[] = {"the new model",       "the new model's head",
                                  "the original",        "the original's head",
                                  "everything else",     "old rows",
                                  "the old layer",       "its data",
                                  "the list of classes", "the new head, computed anew"};

class ForgetByCurvature : public ::testing::TestWithParam<const TestRequest* (*)()> {};
INSTANTIATE_TEST_SUITE_P(Networks, ForgetByCurvature,
                         ::testing::Values([] { return &test_request(); },
                                           [] { return &convolution_request(); }));

TEST_P(ForgetByCurvature, IsTheGuardedStepAndChangesNothingElse) {
  const Case made(*GetParam()());
  const CurvatureOutcome outcome = made.carry_out();
  const nn::NamedNetwork written = nn::load_network(made.folder / "new.onnx");
  EXPECT_EQ(written.network.parameters(), made.direct().network.parameters());
  EXPECT_EQ(written.class_names, (std::vector<std::string>{"nw", "ne", "se"}));
  const std::vector<nn::Parameter>& old = made.trained.network.parameters();
  const std::vector<nn::Parameter>& now = written.network.parameters();
  const std::vector<std::string> changed = curvature_tensors(made.trained.network);
  ASSERT_EQ(old.size(), now.size());
  for (std::size_t p = 0; p < old.size(); ++p)
    EXPECT_EQ(old[p] != now[p], std::ranges::find(changed, old[p].name) != changed.end())
        << old[p].name;
  // The run sees what the networks themselves give.
  const ImageSet retained = without_classes(made.trained.train, made.request.forget);
  EXPECT_EQ(outcome.run.retained, retained.size());
  EXPECT_EQ(outcome.run.forgotten, 300U);
  EXPECT_NEAR(static_cast<double>(outcome.run.right_now) / 900,
              nn::score(written.network.logits(retained), retained.labels).accuracy, 2.0 / 900);
  EXPECT_TRUE(outcome.old_layer_absent);
  EXPECT_TRUE(outcome.written_check.forgotten_rows_absent);
  EXPECT_FALSE(fs::exists(means_path(made.folder / "new.onnx")));
}

TEST_P(ForgetByCurvature, VerifiesInEveryStep) {
  const Case made(*GetParam()());
  (void)made.carry_out();
  const auto steps = made.verify(made.folder / "new.onnx");
  for (const char* const what : kSteps) EXPECT_EQ(state_of(steps, what), State::passed) << what;
  const auto receipt =
      nlohmann::json::parse(read_text_file(receipt_path(made.folder / "new.onnx")));
  EXPECT_EQ(receipt["request"]["method"], "curvature");
  EXPECT_EQ(receipt["request"]["experimental"], true);
  EXPECT_EQ(receipt["curvature"]["tensors_changed"],
            nlohmann::json(curvature_tensors(made.trained.network)));
  EXPECT_EQ(receipt.dump().find("\"sw\""), std::string::npos);  // the forgotten class's name
}

// A number of `name` in a file, changed by its last bit.
void turn_a_bit(const fs::path& from, const std::string& name, const fs::path& to) {
  const nn::Network network = nn::load_network(from).network;
  const auto& parameters = network.parameters();
  const auto tensor = std::ranges::find(parameters, name, &nn::Parameter::name);
  const auto bytes = std::as_bytes(std::span(tensor->values));
  const std::string wanted(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string content = read_text_file(from);
  const std::size_t at = content.find(wanted);
  ASSERT_NE(at, std::string::npos);
  content[at] = static_cast<char>(content[at] ^ 1);
  write_file(to, content);
}

TEST(ForgetByCurvatureOf, ChangedFilesDoNotVerify) {
  const Case made(convolution_request());
  (void)made.carry_out();
  const std::vector<std::string> changed = curvature_tensors(made.trained.network);
  const std::string untouched = made.trained.network.parameters().front().name;
  ASSERT_EQ(std::ranges::find(changed, untouched), changed.end());
  turn_a_bit(made.folder / "new.onnx", untouched, made.folder / "other.onnx");
  EXPECT_EQ(state_of(made.verify(made.folder / "other.onnx"), "everything else"), State::failed);
  for (const std::string& name : changed) {
    turn_a_bit(made.folder / "new.onnx", name, made.folder / "other.onnx");
    const auto steps = made.verify(made.folder / "other.onnx");
    EXPECT_EQ(state_of(steps, "the new head, computed anew"), State::failed) << name;
    EXPECT_EQ(state_of(steps, "the new model"), State::failed) << name;
  }
}

// A layer that was put back, which a verifier finds without any image.
TEST(ForgetByCurvatureOf, AnOldLayerIsFound) {
  const Case made(test_request());
  (void)made.carry_out();
  const auto stepped = ModelFile::open(made.folder / "new.onnx");
  fs::create_directory(made.folder / "back");
  (void)with_layer_of(*stepped, made.trained.network, made.folder / "back");
  EXPECT_EQ(state_of(made.verify(made.folder / "back" / "new.onnx"), "the old layer"),
            State::failed);
  // Beside the new one, in whatever form.
  const TensorView old = layer_before_head(made.trained.network);
  const std::string hidden(reinterpret_cast<const char*>(old.bytes.data()), old.bytes.size());
  write_file(made.folder / "hidden.bin", read_text_file(made.folder / "new.onnx") + hidden);
  const nn::Network now = nn::load_network(made.folder / "new.onnx").network;
  const Matrix<float> looked_for = changed_stretches(old, layer_before_head(now));
  // Units that are dead on all images do not move; the others do in every input, which is noise.
  const Matrix<double> was = to_matrix(old), is = to_matrix(layer_before_head(now));
  std::size_t moved = 0;
  for (std::size_t r = 0; r < 12; ++r) moved += std::ranges::equal(was.row(r), is.row(r)) ? 0U : 1U;
  EXPECT_GE(moved, 6U);
  EXPECT_EQ(looked_for.rows(), moved);
  std::vector<std::size_t> rows(moved);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const RowScan scan(HeadView{.weights = tensor_view<float>(looked_for.view(), "old")}, rows);
  EXPECT_TRUE(scan.scan_file(made.folder / "new.onnx").empty());
  EXPECT_EQ(scan.scan_file(made.folder / "hidden.bin").size(), moved);
}

TEST(ForgetByCurvatureOf, SeveralClassesAreTakenOutTogether) {
  const Case made(test_request(), {0, 2});
  (void)made.carry_out();
  EXPECT_EQ(nn::load_network(made.folder / "new.onnx").class_names,
            (std::vector<std::string>{"ne", "se"}));
  const auto steps = made.verify(made.folder / "new.onnx");
  for (const char* const what : kSteps) EXPECT_EQ(state_of(steps, what), State::passed) << what;
}

TEST(ForgetByCurvatureOf, PromisesAreKeptOrNothingIsWritten) {
  const CurvatureRun fine{.retained = 1000, .right_cut_off = 950, .right_now = 945};
  EXPECT_NO_THROW(require_promises(fine));
  CurvatureRun dear = fine;
  dear.right_now = 944;
  EXPECT_EQ(error_of([&] { require_promises(dear); }).code(), ErrorCode::self_check);
  CurvatureRun wrong = fine;
  wrong.head_mismatch = 1.5;
  EXPECT_EQ(error_of([&] { require_promises(wrong); }).code(), ErrorCode::self_check);
}

// Weights of pixels that are always black do not move: a stretch of them would be found by right.
TEST(ForgetByCurvatureOf, OnlyWhatChangedIsLookedFor) {
  Matrix<float> before(3, 40), after(3, 40);
  for (std::size_t i = 0; i < 120; ++i)
    before.flat()[i] = after.flat()[i] = static_cast<float>(i) / 7;
  for (std::size_t d = 20; d < 38; ++d) after(1, d) += d == 30 ? 2.0F : 1.0F;
  for (std::size_t d = 0; d < 15; ++d) after(2, d) += 1;  // too few of them
  const Matrix<float> found = changed_stretches(tensor_view<float>(before.view(), "before"),
                                                tensor_view<float>(after.view(), "after"));
  ASSERT_EQ(found.rows(), 1U);
  ASSERT_EQ(found.cols(), 16U);
  EXPECT_EQ(found(0, 0), before(1, 20));
  EXPECT_EQ(found(0, 15), before(1, 35));
}

// Why a file is refused.
std::string refusal(const fs::path& path) {
  const auto model = ModelFile::open(path);
  const Error error = error_of([&] { (void)network_for_curvature(*model); });
  EXPECT_EQ(error.code(), ErrorCode::unfilterable);
  return error.what();
}

TEST(ForgetByCurvatureOf, OtherNetworksAreRefused) {
  const TempFolder folder;
  const auto save = [&](const nn::NetworkSpec& spec) {
    const std::vector<std::string> names{"a", "b", "c", "d"};
    nn::save_network(nn::Network(spec, 1, 2), names, folder / "model.onnx");
    return folder / "model.onnx";
  };
  nn::NetworkSpec spec = small_network();
  spec.layers.emplace_back().kind = nn::LayerKind::batch_norm;
  EXPECT_THAT(refusal(save(spec)), HasSubstr("batch normalisation"));
  spec = small_network();
  spec.layers.emplace_back().kind = nn::LayerKind::residual;
  spec.layers.back().branch = {nn::dense(12)};
  EXPECT_THAT(refusal(save(spec)), HasSubstr("branches"));
  spec = small_network();
  spec.layers[0].bias = false;
  EXPECT_THAT(refusal(save(spec)), HasSubstr("without a bias"));
  spec = small_network();
  spec.layers.clear();
  EXPECT_THAT(refusal(save(spec)), HasSubstr("no layer before the head"));

  const Matrix<float> weights(4, 9);
  AtomicFile out(folder / "head.npz");
  NpzWriter writer(out);
  const Tensor W = to_tensor(weights.view()), b = to_tensor(std::vector<double>(4), DType::f32);
  writer.add("W", W.view("W"));
  writer.add("b", b.view("b"));
  writer.finish();
  out.commit();
  EXPECT_THAT(refusal(folder / "head.npz"), HasSubstr("this file is none"));
}

TEST(ForgetByCurvatureOf, OtherImagesAreRefused) {
  Case made(test_request());
  const auto plan = [&] { (void)plan_curvature(made.inputs, made.request); };
  made.run_on(made.folder / "images.npz", {.mean = {0.5}});
  made.request.ignore_accuracy = true;
  EXPECT_THAT(error_of(plan).what(), HasSubstr("as bytes over 255"));
  const ImageSet few = quarter_images(160);
  save_images(few, made.folder / "few.npz");
  made.run_on(made.folder / "few.npz");
  EXPECT_EQ(error_of(plan).code(), ErrorCode::unfilterable);
  EXPECT_THAT(error_of(plan).what(), HasSubstr("40 images of class"));
  made.inputs.run = nullptr;
  EXPECT_EQ(error_of(plan).code(), ErrorCode::usage);
}

}  // namespace
}  // namespace oubli
