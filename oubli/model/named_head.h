#pragma once

#include <span>
#include <string>
#include <vector>

#include "oubli/array/array_file.h"
#include "oubli/model/model_file.h"

namespace oubli {

// Which of a file's named tensors are the head, for formats that have names and no graph.
//
// Unless named, W is: the only float matrix; or the only one with a usual name of a last layer
// (fc.weight, classifier.weight, head.weight, W, ...) whose outputs no other matrix could read:
// what is read by another is an inner layer, whose rows are no classes. The bias is the vector that
// goes by the matching name, or the only vector of a fitting length. The side of W that counts
// classes is told by what is known of classes and features, by the bias, by the names (.weight,
// coef: rows, kernel: columns); what nothing tells is asked for.
struct NamedHead {
  std::string weights;
  std::string bias;         // empty: none
  bool transposed = false;  // W is features x classes
  std::vector<Finding> findings = {};

  // "fc.weight, fc.bias"
  [[nodiscard]] std::string describe() const {
    return bias.empty() ? weights : weights + ", " + bias;
  }
};

// Reads no elements. Error{usage} if there are several answers, naming them. `path` is for
// messages.
[[nodiscard]] NamedHead find_named_head(std::span<const TensorInfo> tensors,
                                        const HeadChoice& choice, const std::string& path);

// A matrix that has as many inputs as `weights` has outputs, inputs being in the columns of both,
// or in the rows of both, unless a name says which; nullptr: none.
[[nodiscard]] const TensorInfo* reader_of(const TensorInfo& weights,
                                          std::span<const TensorInfo> tensors);

// The usual name of the bias of `weights`, if no tensor has it; else the like.
[[nodiscard]] std::string name_for_new_bias(std::span<const TensorInfo> tensors,
                                            const std::string& weights);

}  // namespace oubli
