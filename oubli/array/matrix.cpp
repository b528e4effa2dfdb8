#include "oubli/array/matrix.h"

#include <sys/mman.h>

namespace oubli {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;

std::align_val_t alignment_of(std::size_t bytes) {
  // A block of less would waste too much of its last page.
  return std::align_val_t{bytes >= 2 * kHugePage ? kHugePage : kMatrixAlignment};
}

}  // namespace

void* allocate_elements(std::size_t bytes) {
  const std::align_val_t alignment = alignment_of(bytes);
  void* elements = ::operator new(bytes, alignment);
  // Advice only: without huge pages all is as it would have been.
  if (alignment == std::align_val_t{kHugePage}) (void)madvise(elements, bytes, MADV_HUGEPAGE);
  return elements;
}

void free_elements(void* elements, std::size_t bytes) {
  ::operator delete(elements, alignment_of(bytes));
}

}  // namespace oubli
