#pragma once

// Vector code by hand is for x86-64 alone; elsewhere the plain loops beside it serve.
#if defined(__x86_64__)
#include <immintrin.h>
#define OUBLI_X86 1
#else
#define OUBLI_X86 0
#endif
