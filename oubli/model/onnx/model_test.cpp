#include "oubli/model/onnx/model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "oubli/base/random.h"
#include "oubli/model/residue.h"
#include "oubli/onnx/schema.h"
#include "tests/test_paths.h"

// The models come from tests/onnx/make_models.py (python3-onnx), which also says of each what must
// become of it.
namespace oubli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class OnnxModels : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::system("/usr/bin/python3 -c 'import onnx, numpy' 2>/dev/null") != 0) return;
    folder() = fs::temp_directory_path() / ("oubli_onnx_models_" + std::to_string(getpid()));
    const std::string command = "/usr/bin/python3 " + testing::source_folder() +
                                "/tests/onnx/make_models.py " + folder().string();
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream file(folder() / "manifest.json");
    manifest() = json::parse(file);
  }
  static void TearDownTestSuite() {
    if (!folder().empty()) fs::remove_all(folder());
  }
  void SetUp() override {
    if (folder().empty()) GTEST_SKIP() << "python3-onnx is not installed";
    fs::create_directories(folder() / "new");
  }

  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  static json& manifest() {
    static json value;
    return value;
  }
  static fs::path model(const std::string& name) { return folder() / (name + ".onnx"); }
};

NewHead random_head(const HeadView& old, std::size_t kept, bool with_bias) {
  RandomStream random(3, task_id("head"));
  const auto make = [&](std::vector<std::size_t> shape) {
    std::vector<double> values(element_count(shape, "test"));
    for (double& value : values) value = random.normal();
    Tensor tensor = to_tensor(values, old.weights.dtype);
    tensor.shape = std::move(shape);
    return tensor;
  };
  NewHead head;
  head.weights = make(old.transposed ? std::vector<std::size_t>{old.features(), kept}
                                     : std::vector<std::size_t>{kept, old.features()});
  if (with_bias) head.bias = make({kept});
  head.bias_added = with_bias && !old.bias;
  return head;
}

TEST_F(OnnxModels, HeadsAreFoundOrRefusedWithTheReason) {
  ASSERT_GT(manifest().size(), 60U);
  for (const auto& [name, expected] : manifest().items()) {
    SCOPED_TRACE(name);
    try {
      const OnnxModel file(model(name));
      (void)file.findings();  // whether a class can be forgotten
      EXPECT_TRUE(expected["ok"]) << "accepted: " << file.head_name();
      EXPECT_EQ(file.head().classes(), expected["classes"]);
      EXPECT_EQ(file.head().features(), 8U);
      EXPECT_EQ(!file.onnx_head().tail.nonlinear.empty(), expected["nonlinear"]);
    } catch (const Error& error) {
      EXPECT_FALSE(expected["ok"]) << error.what();
      EXPECT_EQ(static_cast<int>(error.code()), expected["code"]) << error.what();
      EXPECT_NE(std::string(error.what()).find(expected["reason"]), std::string::npos)
          << error.what();
    }
  }
}

// All heads are the same numbers, however they are stored.
TEST_F(OnnxModels, EveryFormGivesTheSameNumbers) {
  const OnnxModel reference(model("gemm"));
  const Matrix<double> features(1, 8, {1, 2, 3, 4, 5, 6, 7, 8});
  const Matrix<double> wanted = logits_of(reference.head(), features);
  for (const char* name :
       {"gemm_plain", "gemm_bias_row", "gemm_trans_a", "matmul_add", "add_matmul", "matmul_add_row",
        "matmul_scaled", "matmul_left", "typed_data", "constant_nodes", "reshape_of_initializer",
        "external", "identity_of_initializer", "conv_pool", "conv_on_one", "ir3", "ir10"}) {
    SCOPED_TRACE(name);
    const OnnxModel file(model(name));
    EXPECT_EQ(logits_of(file.head(), features), wanted);
  }
}

TEST_F(OnnxModels, LoadAndSaveIsByteIdentical) {
  for (const auto& [name, expected] : manifest().items()) {
    const onnx::Model file(model(name));
    EXPECT_EQ(onnx::Message::parse(file.bytes(), name).encode(),
              std::vector<std::byte>(file.bytes().begin(), file.bytes().end()))
        << name;
  }
}

// Reads the new file back: the head is the new one, bit for bit, nothing of the old one is left.
TEST_F(OnnxModels, TheNewHeadIsInTheFileAndTheOldOneIsNot) {
  const std::vector<std::size_t> retained{0, 2, 3, 4};
  for (const auto& [name, expected] : manifest().items()) {
    if (!expected["ok"]) continue;
    for (const bool with_bias : {false, true}) {
      SCOPED_TRACE(name + (with_bias ? " with bias" : ""));
      const OnnxModel old(model(name));
      if (old.head().bias && !with_bias) continue;
      const NewHead head = random_head(old.head(), 4, with_bias);
      const fs::path path = folder() / "new" / (name + (with_bias ? "_b.onnx" : ".onnx"));
      StagedModel staged = old.stage(head, retained, path, true);
      EXPECT_FALSE(fs::exists(path));
      staged.commit();
      const OnnxModel read(path);
      EXPECT_EQ(read.head().classes(), 4U);
      EXPECT_TRUE(std::ranges::equal(read.head().weights.bytes, head.weights.bytes));
      EXPECT_EQ(read.head().bias.has_value(), with_bias);
      if (with_bias) {
        EXPECT_TRUE(std::ranges::equal(read.head().bias->bytes, head.bias->bytes));
      }
      EXPECT_EQ(read.model().ir_version(), old.model().ir_version());
      EXPECT_EQ(read.model().opset(), old.model().opset());
      const RowScan scan(old.head(), std::vector<std::size_t>{1});
      bool found = false;
      for (const fs::path& part : read.files())
        found = found || !scan.scan(MappedFile(part).bytes()).empty();
      EXPECT_EQ(found, expected["tied"].get<bool>());
      EXPECT_EQ(!staged.findings.empty(), expected["tied"] || name == "unused_copy" ||
                                              !old.onnx_head().folded.empty() ||
                                              !old.onnx_head().tail.other_outputs.empty());
    }
  }
}

TEST_F(OnnxModels, NamesGoWithTheirClass) {
  for (const char* name : {"names_json", "names_python", "names_config"}) {
    SCOPED_TRACE(name);
    const OnnxModel old(model(name));
    ASSERT_TRUE(old.class_names().has_value());
    EXPECT_EQ(old.class_names()->at(1), "bee");
    const fs::path path = folder() / "new" / "named.onnx";
    StagedModel staged = old.stage(random_head(old.head(), 4, true),
                                   std::vector<std::size_t>{0, 2, 3, 4}, path, true);
    EXPECT_TRUE(staged.findings.empty());
    staged.commit();
    EXPECT_EQ(OnnxModel(path).class_names(),
              (std::vector<std::string>{"ant", "cat", "dog", "elk"}));
    EXPECT_EQ(read_text_file(path).find("bee"), std::string::npos);
  }
  const OnnxModel labels(model("labels"));
  StagedModel staged =
      labels.stage(random_head(labels.head(), 4, true), std::vector<std::size_t>{0, 2, 3, 4},
                   folder() / "new" / "labels.onnx", true);
  const auto bytes = read_text_file(staged.files.back()->temporary_path());
  EXPECT_EQ(bytes.find("bee"), std::string::npos);
  EXPECT_NE(bytes.find("cat"), std::string::npos);
}

// What differs between the two wire trees, as paths of field numbers.
void differences(std::span<const std::byte> a, std::span<const std::byte> b,
                 const std::string& path, std::vector<std::string>& out) {
  const onnx::Message left = onnx::Message::parse(a, "left");
  const onnx::Message right = onnx::Message::parse(b, "right");
  if (left.fields.size() != right.fields.size()) return out.push_back(path + " fields");
  for (std::size_t i = 0; i < left.fields.size(); ++i) {
    const onnx::Field& x = left.fields[i];
    const onnx::Field& y = right.fields[i];
    const std::string here = path + "." + std::to_string(x.number);
    if (x.number != y.number || x.type != y.type) {
      out.push_back(here);
    } else if (!std::ranges::equal(x.payload, y.payload)) {
      if (here == ".7" || here == ".7.5" || here == ".7.12" || here == ".7.13" || here == ".14") {
        differences(x.payload, y.payload, here, out);
      } else {
        out.push_back(here);
      }
    }
  }
}

// Everything outside the head, its shapes and the labels stays byte for byte.
TEST_F(OnnxModels, NothingElseChanges) {
  using Paths = std::vector<std::string>;
  const std::map<std::string, Paths> wanted{
      // dims and data of W and b, shape of the output
      {"gemm", {".7.5.1", ".7.5.9", ".7.5.1", ".7.5.9", ".7.12.2"}},
      {"softmax", {".7.5.1", ".7.5.9", ".7.5.1", ".7.5.9", ".7.12.2", ".7.13.2"}},
      {"ir3", {".7.5.1", ".7.5.9", ".7.5.1", ".7.5.9", ".7.11", ".7.11", ".7.12.2", ".7.13.2"}},
      {"names_json", {".7.5.1", ".7.5.9", ".7.5.1", ".7.5.9", ".7.12.2", ".14.2"}},
  };
  for (const auto& [name, paths] : wanted) {
    SCOPED_TRACE(name);
    const OnnxModel old(model(name));
    const fs::path path = folder() / "new" / "same.onnx";
    StagedModel staged = old.stage(random_head(old.head(), 4, true),
                                   std::vector<std::size_t>{0, 2, 3, 4}, path, true);
    const MappedFile written(staged.files.back()->temporary_path());
    Paths found;
    differences(old.model().bytes(), written.bytes(), "", found);
    EXPECT_EQ(found, paths);
  }
}

TEST_F(OnnxModels, ExternalDataIsWrittenAnewBesideTheModel) {
  const OnnxModel old(model("external"));
  const std::string before = read_text_file(folder() / "external.weights");
  for (const fs::path& path :
       {folder() / "external_new.onnx", folder() / "new" / "external.onnx"}) {
    StagedModel staged = old.stage(random_head(old.head(), 4, true),
                                   std::vector<std::size_t>{0, 2, 3, 4}, path, true);
    ASSERT_EQ(staged.files.size(), 2U);
    staged.commit();
    const OnnxModel read(path);
    EXPECT_NE(read.files().at(1), folder() / "external.weights");
    EXPECT_EQ(fs::file_size(read.files().at(1)), before.size());
  }
  EXPECT_EQ(read_text_file(folder() / "external.weights"), before);
}

// The ONNX project's checker with shape inference, on everything written above.
TEST_F(OnnxModels, OutputsPassTheCheckerOfOnnx) {
  std::ofstream list(folder() / "new" / "list.txt");
  const std::vector<std::size_t> retained{0, 2, 4};  // two classes at once
  for (const auto& [name, expected] : manifest().items()) {
    if (!expected["ok"] || !expected["checker"]) continue;
    const OnnxModel old(model(name));
    for (const bool with_bias : {false, true}) {
      if (old.head().bias && !with_bias) continue;
      const fs::path path = folder() / "new" / ("c_" + name + (with_bias ? "_b" : "") + ".onnx");
      old.stage(random_head(old.head(), 3, with_bias), retained, path, true).commit();
      list << path.string() << "\n";
    }
  }
  list.close();
  const std::string command = "/usr/bin/python3 " + testing::source_folder() +
                              "/tests/onnx/check_models.py " +
                              (folder() / "new" / "list.txt").string();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace oubli
