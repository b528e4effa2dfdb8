#include "python/src/module.h"

// The extension module oubli._core. What users see is in python/oubli.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "oubli/base/enum_names.h"
#include "oubli/base/version.h"
#include "oubli/filtration/methods.h"
#include "oubli/filtration/solver_choice.h"

PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  using namespace oubli;  // NOLINT(google-build-using-namespace): names of the library's tables
  module.attr("version") = kVersion;
  module.attr("methods") = py::tuple(py::cast(all_names<Method>()));
  module.attr("solvers") = py::tuple(py::cast(all_names<Solver>()));
  python::add_calls(module);
  python::add_arrays(module);
  python::add_means(module);
  python::add_forget(module);
  python::add_audit(module);
}
