#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "oubli/array/tensor.h"
#include "oubli/onnx/wire.h"

namespace oubli::onnx {

using AttributeValue =
    std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

// A dimension is a number or a symbol such as "batch".
using Dim = std::variant<std::int64_t, std::string>;

// Writes a new model: IR 8, opset 17, initializers as raw data. Calls append in order; nodes must
// come in the order they run.
//
//   ModelBuilder builder("mlp");
//   builder.input("image", DType::f32, {"batch", 784});
//   builder.initializer("fc.weight", weights);
//   builder.node("Gemm", {"image", "fc.weight", "fc.bias"}, {"logits"}, {{"transB", 1}});
//   builder.output("logits", DType::f32, {"batch", 10});
//   builder.save(path);
class ModelBuilder {
 public:
  explicit ModelBuilder(std::string_view graph_name);

  void input(std::string_view name, DType type, const std::vector<Dim>& shape);
  void output(std::string_view name, DType type, const std::vector<Dim>& shape);
  void initializer(std::string_view name, const TensorView& tensor);
  void node(std::string_view op_type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const Attributes& attributes = {},
            std::string_view name = "");
  void metadata(std::string_view key, std::string_view value);

  [[nodiscard]] std::vector<std::byte> encode();
  void save(const std::filesystem::path& path, bool replace = true);

 private:
  [[nodiscard]] Message assemble();

  Message graph_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

// The messages, for edits of an existing model.
[[nodiscard]] Message attribute_message(const std::string& name, const AttributeValue& value);
[[nodiscard]] Message tensor_message(std::string_view name, const TensorView& tensor);
[[nodiscard]] Message value_info_message(std::string_view name, std::uint64_t element_type,
                                         const std::vector<Dim>& shape);
[[nodiscard]] Message node_message(std::string_view op_type, const std::vector<std::string>& inputs,
                                   const std::vector<std::string>& outputs,
                                   const Attributes& attributes, std::string_view name);

}  // namespace oubli::onnx
