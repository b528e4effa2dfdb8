#include "python/src/call.h"

#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "oubli/base/interrupt.h"
#include "oubli/base/progress.h"
#include "oubli/cli/result_stream.h"
#include "python/src/module.h"

namespace oubli::python {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};

// What the worker has to tell, until the caller's thread passes it on.
class Call final : public Listener {
 public:
  void said(const std::string& line) override {
    const std::unique_lock lock(news_, kLongest);
    if (lock) lines_.push_back(line);
  }
  void progressed(const std::string& label, std::size_t done, std::size_t total) override {
    const std::unique_lock lock(news_, kLongest);
    if (lock) step_ = Step{label, done, total};
  }

  void finish() {
    // Under the lock: once the other thread sees it, this object may be gone.
    const std::scoped_lock lock(end_);
    finished_ = true;
    finish_.notify_one();
  }
  [[nodiscard]] bool wait() {
    std::unique_lock lock(end_);
    return finish_.wait_for(lock, kBetweenLooks, [&] { return finished_; });
  }

  // With the GIL.
  void tell(const py::object& progress) {
    std::vector<std::string> lines;
    std::optional<Step> step;
    {
      const std::scoped_lock lock(news_);
      lines = std::exchange(lines_, {});
      step = std::exchange(step_, std::nullopt);
    }
    if (!lines.empty()) {
      const py::object heard = py::module_::import("oubli._heard").attr("heard");
      for (const std::string& line : lines) heard(line);
    }
    if (step && !progress.is_none()) progress(step->done, step->total, step->label);
  }

 private:
  struct Step {
    std::string label;
    std::size_t done, total;
  };

  // Held for an exchange only. In a copy of the process (base/apart.h) it may never be let go of,
  // if it was held when that was made: then nothing is told.
  static constexpr std::chrono::milliseconds kLongest{100};
  std::timed_mutex news_;
  std::vector<std::string> lines_;
  std::optional<Step> step_;
  std::mutex end_;
  std::condition_variable finish_;
  bool finished_ = false;
};

void translate(std::exception_ptr thrown) {
  const auto set = [](ErrorCode code, const std::string& message) {
    try {
      raise(Error(code, message));
    } catch (py::error_already_set& error) {
      error.restore();
    }
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    set(error.code(), error.what());
  } catch (const std::system_error& error) {
    set(ErrorCode::io, fmt::format("the operating system refused: {}", error.what()));
  } catch (const std::logic_error& error) {
    set(ErrorCode::bug, fmt::format("internal error, please report it: {}", error.what()));
  }
}

}  // namespace

void run_call(const py::object& progress, const std::function<void()>& work) {
  Call call;
  std::stop_source stop;
  std::exception_ptr failure, raised;
  std::jthread worker([&] {
    try {
      const StopScope stops(stop.get_token());
      const ListenerScope listens(call);
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    call.finish();
  });
  for (bool finished = false; !finished;) {
    {
      const py::gil_scoped_release released;
      finished = call.wait();
    }
    if (raised) continue;  // until the work has ended
    try {
      call.tell(progress);
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    } catch (const py::error_already_set&) {
      raised = std::current_exception();
      stop.request_stop();
    }
  }
  worker.join();
  if (raised) std::rethrow_exception(raised);
  if (failure) std::rethrow_exception(failure);
}

void raise(const Error& error, const std::string& output) {
  const py::object type = py::module_::import("oubli._error").attr("Error");
  const std::string_view text = error.what();  // may name files of any bytes
  const auto message = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "replace"));
  const py::object instance = type(message, error.exit_code());
  if (!output.empty()) instance.attr("output") = output;
  PyErr_SetObject(type.ptr(), instance.ptr());
  throw py::error_already_set();
}

std::string command(const std::vector<std::string>& words, const py::object& progress) {
  std::string answer, printed;
  try {
    run_call(progress, [&] { answer = cli::answer_to(words, &printed); });
  } catch (const Error& error) {
    raise(error, printed);
  }
  return answer;
}

void add_calls(py::module_& module) {
  // Lines that no listener hears, of threads of the library's own, are not for stderr here.
  set_verbosity(Verbosity::quiet);
  py::register_exception_translator(translate);
  module.def("command", &command, py::arg("words"), py::arg("progress") = py::none());
}

}  // namespace oubli::python
