#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>
#include <utility>

#include "oubli/base/enum_names.h"
#include "python/src/arrays.h"
#include "python/src/means.h"
#include "python/src/module.h"

namespace oubli::python {

void add_means(py::module_& module) {
  using Released = py::call_guard<py::gil_scoped_release>;
  py::class_<Means, std::shared_ptr<Means>>(module, "Means")
      .def(py::init([](std::size_t classes, const std::string& space,
                       std::vector<std::string> class_names) {
             return std::make_shared<Means>(classes, value_named<Space>(space),
                                            std::move(class_names));
           }),
           py::arg("classes"), py::arg("space"), py::arg("class_names"))
      .def_static(
          "load",
          [](const std::filesystem::path& path) {
            return std::make_shared<Means>(read_means(path));
          },
          py::arg("path"), Released())
      .def(
          "update",
          [](Means& means, const Given& values, const Given& labels) {
            means.update(values.view(), labels.view());
          },
          py::arg("values"), py::arg("labels"), Released())
      .def("merge", &Means::merge, py::arg("other"), Released())
      .def("save", &Means::save, py::arg("path"), py::arg("head_sha256"), py::arg("replace"),
           Released())
      .def_property_readonly("classes", &Means::classes)
      .def_property_readonly("space",
                             [](const Means& means) { return std::string(name_of(means.space())); })
      .def_property_readonly("class_names", &Means::class_names)
      .def("means",
           [](const Means& means) { return to_array(to_matrix(means.stored().means).view()); })
      .def("counts", [](const Means& means) { return means.stored().counts; })
      .def("within_variance", [](const Means& means) { return means.stored().within_variance(); });
}

}  // namespace oubli::python
