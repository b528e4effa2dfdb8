#include "oubli/array/npy.h"

#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;

std::string image(std::string dict, std::string_view elements, char major = 1) {
  dict += '\n';
  std::string text = "\x93NUMPY";
  text += {major, '\0', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  if (major > 1) text += std::string(2, '\0');
  return text + dict + std::string(elements);
}

std::string refusal(const std::string& text) {
  const Error error = error_of([&] { (void)parse_npy(as_bytes(text), "x.npy"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(std::string(error.what()).rfind("x.npy", 0), 0U) << error.what();
  return error.what();
}

TEST(Npy, WhatNumPyWritesIsReadAndTheReverse) {
  const TempFolder folder;
  run_python(folder, R"(
import numpy as np
a = np.arange(24).reshape(2, 3, 4)
for t in 'f2 f4 f8 i1 u1 i2 u2 i4 u4 i8 u8'.split(): np.save(t, a.astype(t))
np.save('bool', a % 2 == 0)
np.save('fortran', np.asfortranarray(a.astype('f4')))
np.save('empty', np.zeros((0, 5), 'f4'))
np.lib.format.write_array(open('v2.npy', 'wb'), a.astype('f4'), version=(2, 0))
np.lib.format.write_array(open('v3.npy', 'wb'), a.astype('f4'), version=(3, 0))
)");
  for (const std::string name :
       {"f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "fortran", "v2", "v3"}) {
    const SharedTensor loaded = load_array((folder / (name + ".npy")).string());
    ASSERT_EQ(loaded.shape, (std::vector<std::size_t>{2, 3, 4})) << name;
    std::vector<double> values(24);
    decode(loaded.dtype, loaded.bytes, values);
    for (std::size_t i = 0; i < 24; ++i) ASSERT_EQ(values[i], static_cast<double>(i)) << name;
    write_npy(folder / (name + "-back.npy"), loaded);
  }
  EXPECT_EQ(load_array((folder / "bool.npy").string()).dtype, DType::boolean);
  EXPECT_EQ(load_array((folder / "empty.npy").string()).count(), 0U);
  run_python(folder, R"(
import numpy as np
a = np.arange(24).reshape(2, 3, 4)
for t in 'f2 f4 f8 i1 u1 i2 u2 i4 u4 i8 u8 fortran v2 v3'.split():
    b = np.load(t + '-back.npy')
    assert b.dtype == np.load(t + '.npy').dtype and (b == a).all(), t
)");
}

TEST(Npy, AMappedPopulationIsReadModelByModelWithoutACopy) {
  const TempFolder folder;
  NpyWriter writer(folder / "logits.npy", DType::f32, {3, 2, 4});
  for (int model = 0; model < 3; ++model) {
    Matrix<float> logits(2, 4);
    for (std::size_t i = 0; i < 8; ++i)
      logits.flat()[i] = static_cast<float>(model * 8) + static_cast<float>(i);
    writer.append(logits.view());
  }
  writer.commit();
  const SharedTensor loaded = load_array((folder / "logits.npy").string());
  EXPECT_TRUE(loaded.mapped);
  const auto model = [&](std::size_t index) {
    return TensorView{loaded.dtype, {2, 4}, loaded.bytes.subspan(index * 32, 32), "one model"};
  };
  const auto second = as_float_matrix(model(1));
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)(1, 2), 14.F);
  EXPECT_EQ(to_float_matrix(model(2))(0, 0), 16.F);
}

TEST(Npy, AWriterThatStopsEarlyLeavesNothing) {
  const TempFolder folder;
  {
    NpyWriter writer(folder / "x.npy", DType::f64, {2});
    const double one = 1;
    writer.append(std::as_bytes(std::span(&one, 1)));
    EXPECT_THROW(writer.commit(), std::logic_error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Npy, HostileHeadersAreRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  (void)parse_npy(as_bytes(image(good, "12345678")), "x.npy");
  (void)parse_npy(as_bytes(image(good, "12345678", 2)), "x.npy");
  EXPECT_THAT(refusal(image(good, "1234567")), HasSubstr("7 bytes"));
  EXPECT_THAT(refusal(image(good, "123456789")), HasSubstr("9 bytes"));
  EXPECT_THAT(refusal(image(good, "", 4)), HasSubstr("version 4"));
  EXPECT_THAT(refusal(image(good, "12345678").substr(0, 40)), HasSubstr("truncated"));
  EXPECT_THAT(refusal("PK"), HasSubstr("does not begin"));
  EXPECT_THAT(refusal(""), HasSubstr("does not begin"));
  const auto with = [&](const std::string& descr, const std::string& shape) {
    return refusal(
        image("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}", "1234"));
  };
  EXPECT_THAT(with("'>f4'", "(1,)"), HasSubstr("big-endian"));
  EXPECT_THAT(with("'|O'", "(1,)"), HasSubstr("'|O'"));
  EXPECT_THAT(with("[('a', '<f4')]", "(1,)"), HasSubstr("structured"));
  EXPECT_THAT(with("'<f4'", "(4294967296, 4294967296)"), HasSubstr("more elements"));
  EXPECT_THAT(with("'<f4'", "(4611686018427387905,)"), HasSubstr("promises"));
  EXPECT_THAT(with("'<f4'", "(18446744073709551616,)"), HasSubstr("64 bits"));
  EXPECT_THAT(with("'<f4'", "(-1,)"), HasSubstr("non-negative"));
  EXPECT_THAT(with("'<f4'", "(1,"), HasSubstr("non-negative"));
  EXPECT_THAT(with("'<f4", "(1,)"), HasSubstr("wanted"));
  EXPECT_THAT(refusal(image("{'descr': '<f4', 'shape': (1,)}", "1234")), HasSubstr("missing"));
  EXPECT_THAT(refusal(image("{'shape': (1,), 'shape': (1,)}", "1234")), HasSubstr("unexpected"));
  EXPECT_THAT(refusal(image(good + "{}", "12345678")), HasSubstr("after"));
}

}  // namespace
}  // namespace oubli
