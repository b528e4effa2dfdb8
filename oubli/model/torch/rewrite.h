#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "oubli/filtration/filter.h"
#include "oubli/model/torch/archive.h"
#include "oubli/model/torch/parts.h"
#include "oubli/model/torch/tensors.h"

namespace oubli::torch {

// Fewer rows for some tensors of a checkpoint: the integers of its pickle that say so, and new
// content of storages. A storage that one tensor fills shrinks; in others (flat buffers, transposed
// views, slices) the rows close up and what becomes free is zeroed.
class RowCut {
 public:
  RowCut(const Archive& archive, std::span<const Tensor> tensors, pickle::Edits& edits)
      : archive_(archive), tensors_(tensors), edits_(edits) {}

  // `rows`: the new elements, in row-major order.
  void set(std::size_t tensor, std::span<const std::byte> rows, std::size_t count);
  // The rows `retained` of the old ones.
  void keep(std::size_t tensor, std::span<const std::size_t> retained);
  // Error{unfilterable} if a tensor that was cut overlaps another one that was not.
  [[nodiscard]] const StorageEdits& finish();

 private:
  struct Cut {
    std::size_t tensor = 0;
    std::size_t count = 0;  // of rows
    std::span<const std::byte> rows;
  };
  void shrink(const std::string& key, std::span<const Cut> cuts);
  void close_up(const std::string& key, std::span<const Cut> cuts,
                std::span<const std::size_t> users);
  void lower_count(const Tensor& tensor, std::size_t count);
  std::span<const std::byte> own(std::vector<std::byte> bytes);

  const Archive& archive_;
  std::span<const Tensor> tensors_;
  pickle::Edits& edits_;
  std::map<std::string, std::vector<Cut>> cuts_;  // by storage
  std::vector<std::unique_ptr<std::vector<std::byte>>> owned_;
  std::map<pickle::Ref, std::int64_t> integers_;  // changed
  StorageEdits storages_;
};

}  // namespace oubli::torch
