#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "oubli/onnx/model.h"

namespace oubli::onnx {

// What is known of the shapes of a graph's values: what the file declares, and what follows from it
// operation by operation. Exporters often declare inputs and outputs alone.
class Shapes {
 public:
  struct Extent {
    std::optional<std::int64_t> value;  // nothing: not known before the model runs
    bool batch = false;                 // the number of samples
  };
  using Shape = std::vector<Extent>;
  static constexpr std::size_t kHighestRank = 16;  // of what is followed

  // One number of a shape that the graph computes (Shape, Gather, Concat, ...).
  struct Entry {
    Extent extent;
    std::string source;  // the value whose shape it was read from, if it was
    std::size_t axis = 0;
    // Where it is spelled out: element `position` of the constant that `node` reads as `input`.
    const Node* node = nullptr;
    std::size_t input = 0;
    std::size_t position = 0;
  };

  explicit Shapes(const Model& model);

  // nullptr: not even the rank is known, or what is declared contradicts what follows.
  [[nodiscard]] const Shape* shape(std::string_view value) const;
  // That of what `node` reads as its input number `input`.
  [[nodiscard]] const Shape* input_shape(const Node& node, std::size_t input) const;
  // The elements of the vector of integers that `node` reads as its input number `input`.
  [[nodiscard]] std::optional<std::vector<Entry>> entries(const Node& node,
                                                          std::size_t input) const;
  [[nodiscard]] const std::vector<Entry>* entries(std::string_view value) const;

 private:
  void declare(const ValueInfo& info);
  void set(const std::string& value, std::optional<Shape> inferred);
  void infer(const Node& node);

  const Model& model_;
  std::set<std::string, std::less<>> batch_symbols_;
  std::map<std::string, Shape, std::less<>> declared_;
  std::map<std::string, Shape, std::less<>> shapes_;
  std::map<std::string, std::vector<Entry>, std::less<>> entries_;
};

// A Pad that adds nothing, as exporters put before pooling.
[[nodiscard]] bool pads_nothing(const Model& model, const Node& node);

}  // namespace oubli::onnx
