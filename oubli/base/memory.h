#pragma once

namespace oubli {

// For programs whose work makes and drops tables of some megabytes over and over: memory that is
// freed stays with the process, because getting it anew takes longer than some attacks do.
void keep_freed_memory();

}  // namespace oubli
