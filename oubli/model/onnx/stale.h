#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "oubli/filtration/head.h"
#include "oubli/model/residue.h"
#include "oubli/onnx/edit.h"

namespace oubli {

// Removes what nothing reads but what holds a forgotten row: old copies of the head.
class OnnxStaleCopies {
 public:
  OnnxStaleCopies(onnx::Editor& editor, HeadView head, std::span<const std::size_t> forget)
      : editor_(editor), head_(std::move(head)), forget_(forget.begin(), forget.end()) {}

  // Nodes that hold or pass on the forgotten row: constants, and what only rearranges or converts
  // them.
  void remove_nodes();
  // Stored tensors.
  void remove_tensors();

 private:
  // Whether a stored tensor of the old model holds a forgotten row. Each is looked through once.
  [[nodiscard]] bool holds_forgotten_row(const onnx::Constant& source);

  onnx::Editor& editor_;
  HeadView head_;
  std::vector<std::size_t> forget_;
  std::map<const void*, bool> known_;  // by initializer or node
  std::optional<RowScan> scan_;        // made when there is something to look through
};

}  // namespace oubli
