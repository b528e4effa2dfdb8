#include "oubli/base/beside.h"

#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <thread>

namespace oubli {

void run_beside(const std::function<void()>& task, const std::function<void()>& background) {
  constexpr int kNice = 5;  // a third of the weight of others
  std::exception_ptr failure;
  {
    const std::jthread thread([&] {
      // Of this thread, on Linux; where it has no effect, nothing is lost but time.
      (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
      try {
        background();
      } catch (...) {
        failure = std::current_exception();
      }
    });
    task();
  }  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace oubli
