#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <string>
#include <vector>

#include "oubli/base/error.h"

namespace oubli::python {

namespace py = pybind11;

// Runs `work`, which must not touch Python, on a thread of its own and without the GIL. Meanwhile
// the caller's thread answers signals, so that Ctrl-C stops the work, and tells what it says:
// `progress`, unless None, is called with (done, total, label), lines go to oubli._heard.
// Whatever `work` throws, is thrown here; if Python raised something, that, once the work ended.
void run_call(const py::object& progress, const std::function<void()>& work);

// Raises oubli.Error; `output` is what a command printed before it failed.
[[noreturn]] void raise(const Error& error, const std::string& output = {});

// What the program prints for these words. Error.output holds what it printed before it failed.
[[nodiscard]] std::string command(const std::vector<std::string>& words,
                                  const py::object& progress);

}  // namespace oubli::python
