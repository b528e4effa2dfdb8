#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "oubli/array/matrix.h"
#include "oubli/array/tensor.h"

namespace oubli::python {

namespace py = pybind11;

// An array that Python gave, row-major, in its own memory. `dtype` is the library's name of the
// element type, which NumPy's may not say: bfloat16 comes as uint16.
class Given {
 public:
  Given(py::array data, const std::string& dtype, std::string what);

  [[nodiscard]] const TensorView& view() const { return view_; }

 private:
  py::array data_;  // keeps the memory
  TensorView view_;
};

// The tensor's own memory as an array; bfloat16 as uint16.
[[nodiscard]] py::array to_array(Tensor tensor);
// A copy.
[[nodiscard]] py::array to_array(MatrixView<const double> matrix);

}  // namespace oubli::python
