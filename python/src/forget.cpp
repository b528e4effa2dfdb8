#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "oubli/base/interrupt.h"
#include "python/src/arrays.h"
#include "python/src/call.h"
#include "python/src/module.h"
#include "python/src/request.h"

namespace oubli::python {
namespace {

const TensorView* view_of(const Given* array) {
  return array != nullptr ? &array->view() : nullptr;
}

py::tuple forget_in_python(const Given& weights, const Given* bias, bool transposed,
                           const py::dict& options, const py::object& progress) {
  ForgetArguments given;
  given.weights = &weights.view();
  given.bias = view_of(bias);
  given.transposed = transposed;
  const auto take = [&]<typename T>(const char* name, T& into) { into = options[name].cast<T>(); };
  const auto take_array = [&](const char* name, const TensorView*& into) {
    into = view_of(options[name].cast<const Given*>());
  };
  take("space", given.space);
  take_array("values", given.values);
  take_array("labels", given.labels);
  take("means", given.means);
  take("classes", given.classes);
  take("class_names", given.class_names);
  take("method", given.method);
  take("solver", given.solver);
  take_array("target", given.target);
  take("explain", given.explain);
  take("seed", given.seed);
  take("samples", given.samples);
  take("random_samples", given.random_samples);
  take("shift_shows", given.shift_shows);
  take("allow_nonlinear_tail", given.allow_nonlinear_tail);
  take("ignore_accuracy", given.ignore_accuracy);
  Forgotten result;
  run_call(progress, [&] { result = forget(given, StopScope::current()); });
  py::object new_bias = py::none();
  if (result.bias) new_bias = to_array(std::move(*result.bias));
  return py::make_tuple(to_array(std::move(result.weights)), new_bias, result.report, result.text,
                        result.means, result.retained);
}

}  // namespace

void add_forget(py::module_& module) {
  module.def("forget", &forget_in_python, py::arg("weights"), py::arg("bias").none(true),
             py::arg("transposed"), py::arg("options"), py::arg("progress"));
  module.def(
      "head_digest",
      [](const Given& weights, const Given* bias, bool transposed) {
        return digest_of_head(weights.view(), view_of(bias), transposed);
      },
      py::arg("weights"), py::arg("bias").none(true), py::arg("transposed"),
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace oubli::python
