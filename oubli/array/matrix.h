#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "oubli/base/error.h"

namespace oubli {

// Row-major matrix that somebody else owns. T may be const.
template <typename T>
class MatrixView {
 public:
  MatrixView() = default;
  MatrixView(T* data, std::size_t rows, std::size_t cols) : data_(data), rows_(rows), cols_(cols) {}
  // A mutable view converts to a const one.
  template <typename U>
  requires(!std::is_same_v<U, T> && std::is_convertible_v<U (*)[], T (*)[]>)
      MatrixView(MatrixView<U> other)  // NOLINT(google-explicit-constructor): a harmless conversion
      : data_(other.data()), rows_(other.rows()), cols_(other.cols()) {}

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] bool empty() const { return rows_ == 0 || cols_ == 0; }
  [[nodiscard]] T& operator()(std::size_t row, std::size_t col) const {
    OUBLI_ASSERT(row < rows_ && col < cols_);
    return data_[row * cols_ + col];
  }
  [[nodiscard]] std::span<T> row(std::size_t row) const {
    OUBLI_ASSERT(row < rows_);
    return {data_ + row * cols_, cols_};
  }
  [[nodiscard]] std::span<T> flat() const { return {data_, rows_ * cols_}; }
  [[nodiscard]] MatrixView middle_rows(std::size_t begin, std::size_t count) const {
    OUBLI_ASSERT(begin + count <= rows_);
    return {data_ + begin * cols_, count, cols_};
  }

 private:
  T* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
};

// Where matrices begin in memory. Vector code adds up what stands before an aligned address on its
// own, so sums must not depend on where the heap happens to have room.
inline constexpr std::size_t kMatrixAlignment = 64;

// Memory for elements; large blocks in huge pages where the system has them, because the first
// touch of every small page costs more than filling it.
[[nodiscard]] void* allocate_elements(std::size_t bytes);
void free_elements(void* elements, std::size_t bytes);

template <typename T>
struct MatrixAllocator {
  using value_type = T;
  MatrixAllocator() = default;
  template <typename U>
  explicit MatrixAllocator(const MatrixAllocator<U>&) {}
  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(allocate_elements(count * sizeof(T)));
  }
  void deallocate(T* elements, std::size_t count) { free_elements(elements, count * sizeof(T)); }
  // Elements that are given no value get none: whoever fills them is the first to touch the memory.
  template <typename U>
  void construct(U* element) {
    ::new (static_cast<void*>(element)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* element, Arguments&&... arguments) {
    ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
  }
  friend bool operator==(const MatrixAllocator&, const MatrixAllocator&) { return true; }
};

// Row-major matrix that owns its elements, zero to begin with.
template <typename T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t cols)
      : values_(rows * cols, T{}), rows_(rows), cols_(cols) {}
  Matrix(std::size_t rows, std::size_t cols, const std::vector<T>& values)
      : values_(values.begin(), values.end()), rows_(rows), cols_(cols) {
    OUBLI_ASSERT(values_.size() == rows * cols);
  }
  // Without values, for those who write every element: workers side by side, which would otherwise
  // wait for one of them to clear all of it.
  [[nodiscard]] static Matrix for_overwrite(std::size_t rows, std::size_t cols) {
    Matrix matrix;
    matrix.values_.resize(rows * cols);
    matrix.rows_ = rows;
    matrix.cols_ = cols;
    return matrix;
  }

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] T* data() { return values_.data(); }
  [[nodiscard]] const T* data() const { return values_.data(); }
  [[nodiscard]] T& operator()(std::size_t row, std::size_t col) { return view()(row, col); }
  [[nodiscard]] const T& operator()(std::size_t row, std::size_t col) const {
    return view()(row, col);
  }
  [[nodiscard]] std::span<T> row(std::size_t row) { return view().row(row); }
  [[nodiscard]] std::span<const T> row(std::size_t row) const { return view().row(row); }
  [[nodiscard]] std::span<T> flat() { return values_; }
  [[nodiscard]] std::span<const T> flat() const { return values_; }
  [[nodiscard]] MatrixView<T> view() { return {values_.data(), rows_, cols_}; }
  [[nodiscard]] MatrixView<const T> view() const { return {values_.data(), rows_, cols_}; }
  // NOLINTNEXTLINE(google-explicit-constructor): passing a matrix where a view is asked for
  operator MatrixView<const T>() const { return view(); }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator MatrixView<T>() { return view(); }

  friend bool operator==(const Matrix&, const Matrix&) = default;

 private:
  std::vector<T, MatrixAllocator<T>> values_;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
};

}  // namespace oubli
