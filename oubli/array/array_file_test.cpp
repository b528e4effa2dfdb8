#include "oubli/array/array_file.h"

#include <algorithm>
#include <cstring>

#include "oubli/array/npz.h"
#include "oubli/array/safetensors.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;

Tensor floats(std::vector<std::size_t> shape, float first) {
  Tensor tensor{DType::f32, std::move(shape), {}};
  std::vector<float> values(element_count(tensor.shape, "test"));
  for (float& value : values) value = first++;
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

void rewrite(const ArrayFile& file, const std::filesystem::path& to,
             std::span<const TensorEdit> edits) {
  AtomicFile out(to);
  file.rewrite(out, edits);
  out.commit();
}

TEST(Npz, ReadsWhatNumPyWritesAndKeepsTheRestByteForByte) {
  const TempFolder folder;
  run_python(folder, R"(
import numpy as np, zipfile, io
rng = np.random.default_rng(0)
parts = dict(conv=rng.normal(size=(3, 5)), W=rng.normal(size=(4, 6)).astype('f4'),
             b=np.zeros(4, 'f4'), names=np.arange(7), text=np.array(['a', 'bc']),
             struct=np.zeros(2, [('x', 'f4'), ('y[', '>i2')]))
np.savez('plain.npz', **parts)
np.savez_compressed('packed.npz', **parts)
# Streamed to a pipe-like file: sizes after the data (a descriptor), plus a comment and a text entry.
class Pipe(io.RawIOBase):
    def __init__(self, f): self.f = f
    def writable(self): return True
    def write(self, b): return self.f.write(b)
with open('streamed.npz', 'wb') as f, zipfile.ZipFile(Pipe(f), 'w', zipfile.ZIP_DEFLATED) as z:
    for name, value in parts.items():
        with z.open(name + '.npy', 'w') as e: np.lib.format.write_array(e, value)
    z.writestr('about.json', '{}')
    z.comment = b'mine'
)");
  const Tensor head = floats({3, 6}, 1);
  const Tensor extra = floats({2}, 5);
  for (const std::string name : {"plain", "packed", "streamed"}) {
    const NpzFile file(folder / (name + ".npz"));
    ASSERT_EQ(file.tensors().size(), 6U);
    EXPECT_FALSE(file.tensors()[4].dtype);
    EXPECT_THAT(error_of([&] { (void)file.read("text"); }).what(), HasSubstr("<U2"));
    EXPECT_THAT(error_of([&] { (void)file.read("struct"); }).what(), HasSubstr("structured"));
    EXPECT_EQ(file.tensors()[1].name, "W");
    EXPECT_EQ(file.tensors()[1].shape, (std::vector<std::size_t>{4, 6}));
    EXPECT_EQ(file.read("W").dtype, DType::f32);
    EXPECT_EQ(file.read("names").dtype, DType::i64);
    EXPECT_EQ(file.read_text("about.json").has_value(), name == "streamed");
    const std::vector<TensorEdit> edits{
        {"W", head.view("W")}, {"b", std::nullopt}, {"extra", extra.view("extra")}};
    rewrite(file, folder / (name + "-new.npz"), edits);
    rewrite(file, folder / (name + "-same.npz"), {});
    const NpzFile again(folder / (name + "-new.npz"));
    const ZipArchive before(file.file().bytes(), "before");
    const ZipArchive after(again.file().bytes(), "after");
    for (const char* kept : {"conv.npy", "names.npy", "text.npy", "struct.npy"}) {
      EXPECT_TRUE(std::ranges::equal(before.find(kept)->packed, after.find(kept)->packed));
      EXPECT_EQ(before.find(kept)->method, after.find(kept)->method);
    }
    EXPECT_EQ(before.find("W.npy")->method, after.find("W.npy")->method);
    EXPECT_EQ(before.comment(), after.comment());
  }
  // NumPy's own files come back the same byte for byte.
  EXPECT_EQ(read_text_file(folder / "plain.npz"), read_text_file(folder / "plain-same.npz"));
  EXPECT_EQ(read_text_file(folder / "packed.npz"), read_text_file(folder / "packed-same.npz"));
  run_python(folder, R"(
import numpy as np, zipfile
for name in 'plain packed streamed'.split():
    a, b = np.load(name + '.npz'), np.load(name + '-new.npz')
    assert zipfile.ZipFile(name + '-new.npz').testzip() is None
    assert [f for f in b.files] == [f for f in a.files if f != 'b'] + ['extra'], b.files
    assert (a['conv'] == b['conv']).all() and (a['names'] == b['names']).all()
    assert b['W'].dtype == 'f4' and (b['W'].ravel() == np.arange(1, 19)).all() and b['W'].shape == (3, 6)
    assert (b['extra'] == [5, 6]).all()
    if name == 'streamed': assert zipfile.ZipFile('streamed-new.npz').read('about.json') == b'{}'
)");
}

// zip64 without gigabytes: Python forces the wide fields on small entries.
TEST(Npz, TellsItsWords) {
  const TempFolder folder;
  run_python(folder, R"(
import numpy as np
np.savez('t.npz', W=np.zeros(3), names=np.array(['ant', 'José', '€', '😀 b']), ascii=np.array([b'bee', b'elk']),
         raw=np.frombuffer(b'fox', np.uint8))
)");
  const NpzFile file(folder / "t.npz");
  const auto words = file.words();
  ASSERT_EQ(words.size(), 3U);
  EXPECT_EQ(words[2].text, "fox");
  EXPECT_EQ(words[0].where, "names.npy");
  EXPECT_EQ(words[0].text, "\nant\nJos\xC3\xA9\n\xE2\x82\xAC\n\xF0\x9F\x98\x80 b");
  EXPECT_EQ(words[1].text, "\nbee\nelk");
}

TEST(Npz, Zip64) {
  const TempFolder folder;
  run_python(folder, R"(
import numpy as np, zipfile
zipfile.ZIP64_LIMIT = 10
zipfile.ZIP_FILECOUNT_LIMIT = 1
with zipfile.ZipFile('wide.npz', 'w') as z:
    for name in 'ab':
        with z.open(name + '.npy', 'w', force_zip64=True) as e:
            np.lib.format.write_array(e, np.arange(5.0))
)");
  const NpzFile file(folder / "wide.npz");
  ASSERT_NE(as_text(file.file().bytes()).find("PK\6\6"), std::string_view::npos);
  EXPECT_EQ(to_vector(file.read("b")), (std::vector<double>{0, 1, 2, 3, 4}));
  rewrite(file, folder / "new.npz", {});
  EXPECT_EQ(to_vector(NpzFile(folder / "new.npz").read("b")), (std::vector<double>{0, 1, 2, 3, 4}));
}

TEST(Npz, WriterIsReadByNumPy) {
  const TempFolder folder;
  AtomicFile out(folder / "new.npz");
  NpzWriter writer(out);
  writer.add("W", floats({2, 2}, 0).view("W"));
  writer.add_text("about.json", "{\"x\": 1}");
  writer.finish();
  out.commit();
  run_python(folder, R"(
import numpy as np
a = np.load('new.npz')
assert (a['W'] == [[0, 1], [2, 3]]).all() and a['about.json'] == b'{"x": 1}'
)");
  EXPECT_EQ(NpzFile(folder / "new.npz").read_text("about.json"), "{\"x\": 1}");
}

std::string safetensors(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST(Safetensors, KeepsOrderMetadataAndEveryOtherTensor) {
  const TempFolder folder;
  // Header order differs from data order; metadata in the middle, oddly spelled; an unknown type.
  const std::string metadata = R"({"format": "p\u0074", "by":"\"me\""})";
  const std::string header =
      R"({"odd":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[24,27]}, "__metadata__": )" +
      metadata + R"(, "W\u0021":{"shape":[2,2],"dtype":"F32","data_offsets":[8,24]},)" +
      R"("first":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}   )";
  write_file(folder / "a.safetensors", safetensors(header, 27));
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.metadata_json(), metadata);
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[1].name, "W!");
  EXPECT_EQ(file.read("W!").bytes[0], std::byte{8});
  EXPECT_THAT(error_of([&] { (void)file.read("odd"); }).what(), HasSubstr("F8_E4M3"));

  const Tensor head = floats({1, 2}, 1);
  const Tensor bias = floats({1}, 9);
  const std::vector<TensorEdit> edits{{"W!", head.view("")}, {"bias", bias.view("")}};
  rewrite(file, folder / "b.safetensors", edits);
  const SafetensorsFile again(folder / "b.safetensors");
  EXPECT_EQ(again.metadata_json(), metadata);
  ASSERT_EQ(again.tensors().size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(again.tensors()[i].name, file.tensors()[i].name);
  EXPECT_EQ(to_matrix(again.read("W!")), Matrix<double>(1, 2, {1, 2}));
  EXPECT_EQ(to_vector(again.read("bias")), std::vector<double>{9});
  EXPECT_TRUE(std::ranges::equal(again.read("first").bytes, file.read("first").bytes));
  const std::string text = read_text_file(folder / "b.safetensors");
  EXPECT_NE(text.find("\x18\x19\x1A"), std::string::npos) << "the tensor of unknown type";
  EXPECT_NE(text.find(R"("W\u0021")"), std::string::npos);
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& header, std::size_t data_bytes) {
    write_file(folder / "x.safetensors", safetensors(header, data_bytes));
    const Error error = error_of([&] { const SafetensorsFile file(folder / "x.safetensors"); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return std::string(error.what());
  };
  const auto tensor = [](const char* name, const char* shape, const char* offsets) {
    return fmt::format(R"("{}":{{"dtype":"F32","shape":{},"data_offsets":{}}})", name, shape,
                       offsets);
  };
  const std::string a = tensor("a", "[2]", "[0,8]");
  EXPECT_THAT(refusal(fmt::format("{{{},{}}}", a, tensor("b", "[2]", "[4,12]")), 12),
              HasSubstr("overlap"));
  EXPECT_THAT(refusal(fmt::format("{{{},{}}}", a, tensor("b", "[2]", "[0,8]")), 8),
              HasSubstr("overlap"));
  EXPECT_THAT(refusal(fmt::format("{{{},{}}}", a, tensor("b", "[1]", "[12,16]")), 16),
              HasSubstr("a gap"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}", a), 9), HasSubstr("1 bytes after"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}", a), 7), HasSubstr("outside"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}", tensor("a", "[3]", "[0,8]")), 8),
              HasSubstr("does not take"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}", tensor("a", "[4611686018427387906]", "[0,8]")), 8),
              HasSubstr("does not take"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}", tensor("a", "[4294967296,4294967296]", "[0,0]")), 0),
              HasSubstr("more elements"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}", tensor("a", "[2]", "[8,0]")), 8), HasSubstr("outside"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}", tensor("a", "[2]", "[0]")), 8),
              HasSubstr("two data_offsets"));
  EXPECT_THAT(refusal(fmt::format("{{{},{}}}", a, a), 8), HasSubstr("two tensors"));
  EXPECT_THAT(refusal(fmt::format("{{{}", a), 8), HasSubstr("wanted '}'"));
  EXPECT_THAT(refusal(fmt::format("{{{}}}x", a), 8), HasSubstr("after the header"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32"}})", 8), HasSubstr("lacks"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","x":1}})", 8), HasSubstr("unexpected key"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":{"b":1}}})", 0), HasSubstr("wanted a string"));
  EXPECT_THAT(refusal("{\"\xFF\":{}}", 0), HasSubstr("not a valid string"));
  EXPECT_THAT(refusal("{\"a", 0), HasSubstr("without end"));
  EXPECT_THAT(refusal(std::string(1000, '{'), 0), HasSubstr("wanted a string"));
  write_file(folder / "x.safetensors", std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F{}"));
  EXPECT_THAT(error_of([&] { const SafetensorsFile file(folder / "x.safetensors"); }).what(),
              HasSubstr("a header of"));
  write_file(folder / "x.safetensors", std::string("\x10\0\0\0\0\0\0\0{}", 10));
  EXPECT_THAT(error_of([&] { const SafetensorsFile file(folder / "x.safetensors"); }).what(),
              HasSubstr("truncated"));
}

TEST(ArrayFile, IsOpenedByContentAndNamesItsArrays) {
  const TempFolder folder;
  {
    AtomicFile out(folder / "two.npz");
    NpzWriter writer(out);
    writer.add("logits", floats({2, 2}, 0).view(""));
    writer.add("labels", floats({2}, 0).view(""));
    writer.finish();
    out.commit();
  }
  const std::string path = (folder / "two.npz").string();
  EXPECT_EQ(load_array(path + ":logits").what, path + ":logits");
  EXPECT_THAT(error_of([&] { (void)load_array(path); }).what(), HasSubstr(":NAME"));
  EXPECT_THAT(error_of([&] { (void)load_array(path + ":logit"); }).what(), HasSubstr("logits"));
  write_file(folder / "noise", "what is this?");
  EXPECT_EQ(error_of([&] { (void)load_array((folder / "noise").string()); }).code(),
            ErrorCode::bad_input);
  EXPECT_EQ(error_of([&] { (void)load_array((folder / "none.npy").string()); }).code(),
            ErrorCode::io);
}

}  // namespace
}  // namespace oubli
