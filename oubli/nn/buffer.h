#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace oubli::nn {

// Floats on a cache line boundary, zero to begin with. data() of an empty one is null.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size)
      : data_(size == 0 ? nullptr
                        : static_cast<float*>(::operator new(size * sizeof(float), kAlignment))),
        size_(size) {
    std::fill_n(data_.get(), size, 0.0F);
  }
  [[nodiscard]] float* data() { return data_.get(); }
  [[nodiscard]] const float* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::span<float> span() { return {data_.get(), size_}; }
  [[nodiscard]] std::span<const float> span() const { return {data_.get(), size_}; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<float, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace oubli::nn
