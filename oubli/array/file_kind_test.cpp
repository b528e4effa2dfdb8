#include "oubli/array/file_kind.h"

#include <array>
#include <cstdlib>

#include "oubli/array/array_file.h"
#include "oubli/array/zip_writer.h"
#include "tests/test_support.h"

namespace oubli {
namespace {

using namespace std::string_literals;
using testing::error_of;
using ::testing::HasSubstr;
using testing::run_python;
using testing::TempFolder;
using enum FileKind;

FileIdentity identity_of(const std::string& bytes, const std::string& name = "model.bin") {
  return identify(as_bytes(bytes), name);
}

std::string zip_of(const std::vector<std::string>& names) {
  const TempFolder folder;
  AtomicFile file(folder / "a.zip");
  ZipWriter writer(file);
  const std::array piece{as_bytes("x")};
  for (const std::string& name : names) writer.add(name, piece, false);
  writer.finish();
  file.commit();
  return read_text_file(folder / "a.zip");
}

// A field of a protocol buffer: a message or text.
std::string field(unsigned number, const std::string& content) {
  std::string bytes;
  for (std::uint64_t rest : {std::uint64_t{number} << 3 | 2, std::uint64_t{content.size()}}) {
    for (; rest >= 0x80; rest >>= 7) bytes.push_back(static_cast<char>(rest | 0x80));
    bytes.push_back(static_cast<char>(rest));
  }
  return bytes + content;
}

struct Row {
  std::string bytes;
  FileKind kind;
  std::string what;
  std::string advice;
  std::string name = "model.bin";
};

TEST(FileKind, NamesEverythingInTheTable) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 102530333\n";
  const std::string filler(300, 'x');
  const std::vector<Row> rows{
      {"\x93NUMPY\1\0"s, npy, ".npy", ""},
      {zip_of({"W.npy", "about.json"}), npz, ".npz", ""},
      {"\x10\0\0\0\0\0\0\0{\"a\":{}}"s, safetensors, ".safetensors", ""},
      {zip_of({"m/data.pkl", "m/data/0", "m/version"}), torch, "PyTorch", ""},
      {zip_of({"m/data.pkl", "m/constants.pkl", "m/code/a.py", "m/version"}), torch_script,
       "TorchScript", "torch.jit.load('model.bin', 'cpu').state_dict()"},
      {zip_of({"archive_format", "models/model.json"}), other_model, "torch.export",
       "torch.export.load('model.bin')"},
      {zip_of({"metadata.json", "config.json", "model.weights.h5"}), keras, "Keras", ""},
      {zip_of({"schema.json", "1.npy"}), other_model, "skops", "joblib"},
      {zip_of({"Manifest.json", "Data/a.mlmodel"}), other_model, "Core ML", "torch.onnx.export"},
      {zip_of({"m/saved_model.pb"}), packed, "SavedModel", "unzip model.bin"},
      {zip_of({"[Content_Types].xml"}), no_model, "Office", ""},
      {zip_of({"photo.jpg"}), packed, "zip archive", "unzip model.bin"},
      {zip_of({"W.npy"}).substr(0, 60), damaged, "cannot be read", "cut short"},
      {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e."s, torch_old,
       "PyTorch before 1.6", "torch.save(torch.load('model.bin'"},
      {"\x80\x02"
       "csklearn.linear_model.logistic\nLogisticRegression\nq\0"s,
       pickle, "a pickle of sklearn.linear_model.logistic.LogisticRegression", "numpy.savez"},
      {"\x80\x04\x95\x20\0\0\0\0\0\0\0\x8c\x18sklearn.ensemble._forest\x94\x8c\x16"
       "RandomForestClassifier\x94\x93"s,
       no_head, "sklearn.ensemble._forest.RandomForestClassifier", "trees"},
      {"\x78\x9c\xed\xbd"s, packed, "zlib", "joblib.load('model.bin')"},
      {"\x1f\x8b\x08\0"s, packed, "gzip", "gunzip -k model.bin"},
      {"\xfd"
       "7zXZ\0"s,
       packed, "xz", "unxz -k model.bin"},
      {"BZh91AY"s, packed, "bzip2", "bunzip2 -k model.bin"},
      {"\x04\x22\x4d\x18"s, packed, "lz4", "unlz4 -k model.bin"},
      {"\x28\xb5\x2f\xfd"s, packed, "Zstandard", "unzstd -k model.bin"},
      {"7z\xbc\xaf\x27\x1c"s, packed, "7-Zip", "7z x model.bin"},
      {"Rar!\x1a\7"s, packed, "RAR", "unrar x model.bin"},
      {std::string(257, 'a') + "ustar", packed, "tar", "tar xf model.bin"},
      {"\x89HDF\r\n\x1a\n\0"s, hdf5, "HDF5", ""},
      {std::string(1024, '\0') + "\x89HDF\r\n\x1a\n", hdf5, "HDF5", ""},
      {"MATLAB 7.3 MAT-file" + std::string(493, ' ') + "\x89HDF\r\n\x1a\n", no_model, "MATLAB", ""},
      {"MATLAB 5.0 MAT-file, Platform"s, no_model, "MATLAB", "scipy.io.loadmat"},
      {"\x08\x07" + field(2, "pytorch") + field(7, "\x0a\0"s), onnx, "ONNX", ""},
      {"\x08\x04" + field(2, field(1, "input")) + field(300, "x"), other_model, "Core ML",
       "torch.onnx.export"},
      {"\x08\x01" + field(2, field(1, "\x0a\0"s)), other_model, "SavedModel",
       "python3 -m tf2onnx.convert --saved-model nets/a --output model.onnx",
       "nets/a/saved_model.pb"},
      {field(1, field(1, "input") + field(2, "Placeholder")), other_model, "GraphDef",
       "--graphdef model.bin"},
      {field(1, "CaffeNet") + field(100, "x"), other_model, "Caffe", "torch.onnx.export"},
      {"\x1c\0\0\0TFL3"s, tflite, "TensorFlow Lite", ""},
      {"\x1c\0\0\0ORTM"s, other_model, ".ort", ".onnx file that it was made from"},
      {"\x1c\0\0\0ET12"s, other_model, "ExecuTorch", "torch.onnx.export"},
      {pointer, no_model, "a Git LFS pointer to 102530333 bytes", "git -C nets lfs pull",
       "nets/model.onnx"},
      {"\n<!DOCTYPE html><html>"s, no_model, "web page", "download it again"},
      {"<HTML><body>"s, no_model, "web page", "/resolve/"},
      {"Entry not found"s, no_model, "server's error", "download it again"},
      {"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code>"s, no_model, "server's error",
       "download"},
      {"{\"error\":\"Repository not found\"}"s, no_model, "server's error", "download"},
      {"<?xml version=\"1.0\"?>\n<net name=\"a\" version=\"11\">"s, other_model, "OpenVINO",
       "torch.onnx.export"},
      {"<?xml version=\"1.0\"?><PMML version=\"4.4\">"s, other_model, "PMML", "library"},
      {"{\"modelTopology\": {}, \"weightsManifest\": []}"s, other_model, "TensorFlow.js",
       "tensorflowjs_converter --input_format=tfjs_layers_model --output_format=keras model.bin"},
      {"{\"metadata\": {}, \"weight_map\": {}}"s, no_model, "several files",
       "give the folder: my/model", "my/model/model.safetensors.index.json"},
      {"{\"architectures\": [\"ViT\"]}"s, no_model, "Hugging Face", "give the folder: ."},
      {"{\"learner\":{}}"s, no_head, "XGBoost", "trees"},
      {"{L\0\0\0\0\0\0\0\x07learner"s, no_head, "XGBoost", "trees"},
      {"binf\0\0"s, no_head, "XGBoost", "trees"},
      {"GGUF\3\0\0\0"s, no_head, "GGUF", "no classes"},
      {"tree\nversion=v3\n"s, no_head, "LightGBM", "trees"},
      {"CBM1\0"s, no_head, "CatBoost", "trees"},
      {"7767517\n75 83\n"s, other_model, "ncnn", "torch.onnx.export"},
      {"PYTORCH1"s, other_model, "2018", "torch.onnx.export"},
      {"\x89PNG\r\n\x1a\n"s, no_model, "PNG picture", "--data"},
      {"\xff\xd8\xff\xe0"s, no_model, "JPEG picture", "--data"},
      {"GIF89a"s, no_model, "GIF", "--data"},
      {"RIFF\0\0\0\0WEBPVP8 "s, no_model, "WebP", "--data"},
      {"%PDF-1.4"s, no_model, "PDF", ""},
      {"PAR1"s, no_model, "Parquet", ".npy"},
      {"\x7f"
       "ELF\2"s,
       no_model, "program", ""},
      {std::string(), damaged, "empty", "again"},
      {std::string(4096, '\0'), damaged, "zeros", "download it again"},
      {"xyz"s, damaged, "unfinished download", "download it again", "model.onnx.crdownload"},
      {"\xde\xad\xbe\xef"s, onnx, "by its name", "", "model.onnx"},
      {"\xde\xad\xbe\xef"s, unknown, "no format known", ""},
  };
  for (const Row& row : rows) {
    const FileIdentity found = identity_of(row.bytes, row.name);
    EXPECT_EQ(found.kind, row.kind) << row.what << ": " << found.what;
    EXPECT_THAT(found.what, HasSubstr(row.what));
    EXPECT_THAT(found.advice, HasSubstr(row.advice)) << row.what;
  }
}

TEST(FileKind, RefusesWithTheRightExitCode) {
  const TempFolder folder;
  write_file(folder / "trees.txt", "tree\nversion=v3\n");
  const Error trees = error_of([&] { (void)ArrayFile::open(folder / "trees.txt"); });
  EXPECT_EQ(trees.code(), ErrorCode::unfilterable);
  EXPECT_THAT(trees.what(), HasSubstr("LightGBM; trees have no last linear layer"));
  write_file(folder / "f.npy", "version https://git-lfs.github.com/spec/v1\noid x\nsize 12\n");
  const Error pointer = error_of([&] { (void)ArrayFile::open(folder / "f.npy"); });
  EXPECT_EQ(pointer.code(), ErrorCode::bad_input);
  EXPECT_THAT(pointer.what(), HasSubstr("a Git LFS pointer to 12 bytes, not the file itself"));
  EXPECT_THAT(pointer.what(), HasSubstr("git -C " + folder.path().string() + " lfs pull"));
}

TEST(FileKind, QuotesNamesForTheShell) {
  EXPECT_THAT(identity_of("\x1f\x8b\x08", "my model.h5.gz").advice,
              HasSubstr("gunzip -k 'my model.h5.gz'"));
}

TEST(FileKind, KnowsFolders) {
  const TempFolder folder;
  EXPECT_THAT(identify(folder.path()).what, HasSubstr("a folder"));
  write_file(folder / "config.json", "{}");
  EXPECT_EQ(identify(folder.path()).kind, huggingface);
  write_file(folder / "saved_model.pb", "x");
  EXPECT_THAT(identify(folder.path()).advice,
              HasSubstr("--saved-model " + folder.path().string() + " "));
}

// What Python itself writes is what the made-up rows above are like.
TEST(FileKind, NamesWhatPythonPickles) {
  const TempFolder folder;
  run_python(folder, R"(
import pickle
from sklearn.linear_model import LogisticRegression
from sklearn.ensemble import RandomForestClassifier
for protocol in range(2, 6):
    for name, model in (("linear", LogisticRegression()), ("forest", RandomForestClassifier())):
        pickle.dump(model, open(f"{name}{protocol}", "wb"), protocol)
)");
  for (int protocol = 2; protocol < 6; ++protocol) {
    const FileIdentity linear = identify(folder / ("linear" + std::to_string(protocol)));
    EXPECT_EQ(linear.kind, pickle);
    const FileIdentity forest = identify(folder / ("forest" + std::to_string(protocol)));
    // Protocols 2 and 3 name copyreg or the class first, according to the class.
    if (protocol < 4) continue;
    EXPECT_THAT(linear.what, HasSubstr("sklearn.linear_model._logistic.LogisticRegression"));
    EXPECT_EQ(forest.kind, no_head);
    EXPECT_THAT(forest.what, HasSubstr("sklearn.ensemble._forest.RandomForestClassifier"));
  }
}

}  // namespace
}  // namespace oubli
