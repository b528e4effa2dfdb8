#pragma once

#include <stop_token>

namespace oubli {

// The program's stop token: a first SIGINT or SIGTERM requests a stop, so that work under way can
// end cleanly; a second one ends the process at once. Calls after the first return the same token.
[[nodiscard]] std::stop_token stop_on_interrupt();

// Throws Error{interrupted} if a stop was requested.
void throw_if_stopped(const std::stop_token& stop);

}  // namespace oubli
