#pragma once

#include <functional>

namespace oubli {

// Runs `task` here and `background` on a thread of its own, which gives way to busy ones: it has
// the cores when `task` leaves one idle. Returns when both are done; if both throw, it is the
// exception of `task`.
void run_beside(const std::function<void()>& task, const std::function<void()>& background);

}  // namespace oubli
