#include "oubli/base/memory.h"

#include <malloc.h>

namespace oubli {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMost = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMost);
  ::mallopt(M_TRIM_THRESHOLD, 4 * kMost);
#endif
}

}  // namespace oubli
