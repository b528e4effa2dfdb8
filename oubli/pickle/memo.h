#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "oubli/pickle/pickle.h"

namespace oubli::pickle {

// What was put away by number. Python numbers from 0, but a file may claim any number.
class Memo {
 public:
  void put(std::uint64_t slot, Ref value) {
    if (slot < dense_.size())
      dense_[slot] = value;
    else if (slot == dense_.size())
      dense_.push_back(value);
    else
      sparse_[slot] = value;
  }
  [[nodiscard]] Ref get(std::uint64_t slot) const {
    if (slot < dense_.size()) return dense_[slot];
    const auto found = sparse_.find(slot);
    return found == sparse_.end() ? kNothing : found->second;
  }
  // What MEMOIZE takes for the next number.
  [[nodiscard]] std::uint64_t size() const { return dense_.size() + sparse_.size(); }

 private:
  std::vector<Ref> dense_;
  std::unordered_map<std::uint64_t, Ref> sparse_;
};

}  // namespace oubli::pickle
