#pragma once

#include <pybind11/pybind11.h>

// The parts of the extension module, one file each.
namespace oubli::python {

void add_arrays(pybind11::module_& module);
void add_audit(pybind11::module_& module);
void add_calls(pybind11::module_& module);
void add_forget(pybind11::module_& module);
void add_means(pybind11::module_& module);  // gather.cpp

}  // namespace oubli::python
