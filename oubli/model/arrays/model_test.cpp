#include "oubli/model/arrays/model.h"

#include <algorithm>

#include "oubli/array/npz.h"
#include "tests/test_safetensors.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TempFolder;

Tensor numbers(std::vector<std::size_t> shape, DType type = DType::f32) {
  std::vector<double> values(element_count(shape, "test"));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 100);
  Tensor tensor = to_tensor(values, type);
  tensor.shape = std::move(shape);
  return tensor;
}

struct Named {
  std::string name;
  std::vector<std::size_t> shape;
  DType type = DType::f32;
};

std::filesystem::path make(const TempFolder& folder, const std::string& name,
                           std::vector<Named> tensors) {
  std::vector<Tensor> owned;
  for (const Named& t : tensors) owned.push_back(numbers(t.shape, t.type));
  AtomicFile out(folder / name);
  if (name.ends_with(".npz")) {
    NpzWriter writer(out);
    for (std::size_t i = 0; i < tensors.size(); ++i) writer.add(tensors[i].name, owned[i].view(""));
    writer.finish();
  } else {
    std::vector<std::pair<std::string, TensorView>> views;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      views.push_back({tensors[i].name, owned[i].view("")});
    testing::write_safetensors(out, views);
  }
  out.commit();
  return folder / name;
}

TEST(ArrayModel, FindsTheHeadWhereThereIsOneAnswer) {
  const TempFolder folder;
  const auto found = [&](std::vector<Named> tensors, const HeadChoice& choice = {}) {
    const auto model = ModelFile::open(make(folder, "m.safetensors", std::move(tensors)), choice);
    return fmt::format("{}: {} x {}", model->head_name(), model->head().classes(),
                       model->head().features());
  };
  EXPECT_EQ(found({{"W", {3, 5}}, {"b", {3}}}), "W, b: 3 x 5");
  EXPECT_EQ(found({{"any", {3, 5}}, {"thing", {5}}}), "any, thing: 5 x 3");
  EXPECT_EQ(found({{"coef_", {3, 5}}}), "coef_: 3 x 5");
  EXPECT_EQ(found({{"dense/kernel", {5, 3}}, {"dense/bias", {3}}}),
            "dense/kernel, dense/bias: 3 x 5");
  EXPECT_EQ(found({{"a.weight", {7, 7}}, {"a.bias", {7}}, {"fc.weight", {3, 7}}, {"fc.bias", {3}}}),
            "fc.weight, fc.bias: 3 x 7");
  // What no other matrix reads: not from the same features, nor a copy.
  EXPECT_EQ(found({{"boxes", {4, 7}}, {"fc.weight", {3, 7}}, {"ema", {3, 7}}, {"fc.bias", {3}}}),
            "fc.weight, fc.bias: 3 x 7");
  // Known classes or features decide what names cannot.
  const std::vector<Named> layers{{"l1", {7, 9}}, {"l2", {4, 7}}};
  EXPECT_EQ(found(layers, {.classes = 4}), "l2: 4 x 7");
  EXPECT_EQ(found(layers, {.classes = 9}), "l1: 9 x 7");
  EXPECT_EQ(found(layers, {.features = 9}), "l1: 7 x 9");
  EXPECT_EQ(found(layers, {.weights = "l2", .transposed = true}), "l2: 7 x 4");
  EXPECT_EQ(found({{"W", {3, 5}}, {"b", {3}}}, {.bias = "", .classes = 3}), "W: 3 x 5");
}

TEST(ArrayModel, RefusesToGuess) {
  const TempFolder folder;
  const auto refusal = [&](std::vector<Named> tensors, const HeadChoice& choice = {}) {
    return error_of([&] { (void)ModelFile::open(make(folder, "m.npz", tensors), choice); });
  };
  const Error ambiguous = refusal({{"l1", {7, 9}}, {"l2", {4, 7}}});
  EXPECT_EQ(ambiguous.code(), ErrorCode::usage);
  EXPECT_THAT(ambiguous.what(), HasSubstr("l1 (<f4 [7, 9]), l2 (<f4 [4, 7])"));
  // A usual name, but of an inner layer: 64 classes would be 64 inner units.
  const std::vector<Named> inner{
      {"dense.weight", {64, 9}}, {"dense.bias", {64}}, {"y.weight", {10, 64}}, {"y.bias", {10}}};
  const Error read = refusal(inner);
  EXPECT_EQ(read.code(), ErrorCode::usage);
  EXPECT_THAT(read.what(), HasSubstr("whose outputs y.weight (<f4 [10, 64]) reads"));
  EXPECT_EQ(refusal({{"dense/kernel", {9, 64}}, {"y/kernel", {64, 10}}}).code(), ErrorCode::usage);
  EXPECT_EQ(refusal({{"linear.weight", {7, 7}}, {"y.weight", {3, 7}}}).code(), ErrorCode::usage);
  // Where usual names do not decide, every matrix is named.
  const Error encoder = refusal(
      {{"linear1.weight", {8, 4}}, {"linear2.weight", {4, 8}}, {"y.weight", {3, 4}}, {"b", {3}}});
  EXPECT_THAT(encoder.what(), HasSubstr("3 matrices could be the head"));
  EXPECT_THAT(encoder.what(), HasSubstr("y.weight (<f4 [3, 4])"));
  // 400 x 10 may be 400 classes; to delete a feature instead of a class is the worst of answers.
  const Error sides = refusal({{"W", {400, 10}}});
  EXPECT_EQ(sides.code(), ErrorCode::usage);
  EXPECT_THAT(sides.what(), HasSubstr("400 classes of 10 features, or 10 of 400"));
  EXPECT_EQ(refusal({{"W", {7, 7}}, {"b", {7}}}).code(), ErrorCode::usage);
  EXPECT_EQ(refusal({{"b", {7}}}).code(), ErrorCode::unfilterable);
  EXPECT_EQ(refusal({{"W", {7, 3}, DType::f64}}, {.weights = "Wx"}).code(), ErrorCode::bad_input);
  EXPECT_EQ(refusal({{"W", {7, 3}}, {"c", {4}}}, {.bias = "c", .transposed = false}).code(),
            ErrorCode::bad_input);
  EXPECT_EQ(refusal({{"W", {7, 3, 2}}}, {.weights = "W"}).code(), ErrorCode::bad_input);
}

TEST(ArrayModel, StagesANewHeadAndKeepsTheRest) {
  const TempFolder folder;
  for (const std::string extension : {".npz", ".safetensors"}) {
    const auto path = make(folder, "old" + extension,
                           {{"conv", {2, 2, 3}}, {"fc.weight", {4, 6}}, {"moment", {4, 6}}});
    const auto model = ModelFile::open(path);
    EXPECT_EQ(model->format(), extension);
    ASSERT_EQ(model->findings().size(), 1U);
    EXPECT_EQ(model->findings()[0].where, "moment");
    const NewHead head{numbers({3, 6}), numbers({3}), true};
    const std::vector<std::size_t> retained{0, 2, 3};
    const auto out = folder / ("new" + extension);
    {
      StagedModel staged = model->stage(head, retained, out, false);
      EXPECT_EQ(staged.written->head().classes(), 3U);
      EXPECT_FALSE(std::filesystem::exists(out));
      ASSERT_EQ(staged.findings.size(), 1U);
      EXPECT_EQ(staged.findings[0].where, "fc.bias");
    }
    EXPECT_FALSE(std::filesystem::exists(out));
    model->stage(head, retained, out, false).commit();
    const auto after = ModelFile::open(out);
    EXPECT_EQ(after->head_name(), "fc.weight, fc.bias");
    EXPECT_TRUE(std::ranges::equal(after->head().weights.bytes, head.weights.bytes));
    for (const std::string name : {"conv", "moment"}) {
      const auto before = load_array(path.string() + ":" + name);
      EXPECT_TRUE(std::ranges::equal(before.bytes, load_array(out.string() + ":" + name).bytes));
    }
    EXPECT_EQ(error_of([&] { (void)model->stage(head, retained, out, false); }).code(),
              ErrorCode::usage);
  }
}

}  // namespace
}  // namespace oubli
