#pragma once

#include <string>
#include <vector>

#include "oubli/pickle/edits.h"

namespace oubli::torch {

// Class names in a checkpoint, under one of the usual keys (class_to_idx, classes, names, ...): a
// list of them, or a dictionary from or to indices.
struct NameList {
  std::string key;
  pickle::Ref value = pickle::kNothing;
  std::vector<std::string> names;       // by class
  std::vector<pickle::Extent> extents;  // what makes each, by class
  struct Number {
    pickle::Ref ref = pickle::kNothing;  // an integer, or a text of digits
    std::size_t index = 0;               // the class that it counts
  };
  std::vector<Number> numbers;  // where indices are spelled out
  bool fixed = false;           // its length is a part of the operation that makes it
};

[[nodiscard]] std::vector<NameList> find_name_lists(const pickle::Pickle& pickle,
                                                    std::size_t classes);

// Cuts the names of all classes but the `retained` and renumbers the rest. Returns the keys of
// those lists for which this cannot be done without breaking what else refers to them.
[[nodiscard]] std::vector<std::string> cut_names(const pickle::Pickle& pickle,
                                                 std::span<const NameList> lists,
                                                 std::span<const std::size_t> retained,
                                                 pickle::Edits& edits);

}  // namespace oubli::torch
