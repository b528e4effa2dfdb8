#include "python/src/arrays.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "oubli/base/error.h"
#include "python/src/module.h"

namespace oubli::python {
namespace {

DType dtype_named(const std::string& name, const std::string& what) {
  using enum DType;
  for (const DType type : {f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean})
    if (name_of(type) == name) return type;
  fail(ErrorCode::bad_input, "{}: elements of type {}; wanted floats or integers", what, name);
}

}  // namespace

Given::Given(py::array data, const std::string& dtype, std::string what) : data_(std::move(data)) {
  view_.dtype = dtype_named(dtype, what);
  for (py::ssize_t axis = 0; axis < data_.ndim(); ++axis)
    view_.shape.push_back(static_cast<std::size_t>(data_.shape(axis)));
  if ((data_.flags() & py::array::c_style) == 0 ||
      static_cast<std::size_t>(data_.itemsize()) != size_of(view_.dtype))
    throw std::logic_error(what + ": not prepared by oubli._arrays");
  view_.bytes = {static_cast<const std::byte*>(data_.data()),
                 static_cast<std::size_t>(data_.nbytes())};
  view_.what = std::move(what);
}

py::array to_array(Tensor tensor) {
  const DType type = tensor.dtype == DType::bf16 ? DType::u16 : tensor.dtype;
  const std::vector<py::ssize_t> shape(tensor.shape.begin(), tensor.shape.end());
  auto owned = std::make_unique<Tensor>(std::move(tensor));
  const void* const bytes = owned->bytes.data();
  const py::capsule owner(owned.get(), [](void* kept) { delete static_cast<Tensor*>(kept); });
  owned.release();  // NOLINT(bugprone-unused-return-value): the capsule has it now
  return {py::dtype(std::string(name_of(type))), shape, bytes, owner};
}

py::array to_array(MatrixView<const double> matrix) {
  return py::array_t<double>({matrix.rows(), matrix.cols()}, matrix.data());
}

void add_arrays(py::module_& module) {
  py::class_<Given>(module, "Given")
      .def(py::init<py::array, const std::string&, std::string>(), py::arg("data"),
           py::arg("dtype"), py::arg("what"));
}

}  // namespace oubli::python
