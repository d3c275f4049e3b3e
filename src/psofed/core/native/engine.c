/* The engine of the PSO-Fed family: lazy clients, several methods in lockstep.

   It restates `core` to be fast, and tests pin it to the originals:
   - Features are a polynomial cosine, computed once and used by all methods.
   - A client that is not selected touches only its own data, so its idle learning is done when it
     is next selected, four samples and three models at a time, which stay in registers.
   - The test error goes through a factor of the test moments: it follows each change of the model
     where few entries change in a round, and takes several models at a time where many do.
   Arrays over features are padded with zeros to a multiple of PAD, so that no loop has a rest.
   Memory comes from Python, which also checks all sizes: see simulate/family.py. */

#include <math.h>
#ifdef __linux__
#include <malloc.h>
#endif
#include <stdint.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

enum { WAVES, BUMPS, GIVEN };        /* kinds of feature maps */
enum { PER_CLIENT, COMMON, FRESH };  /* how the row of a window is found in its table */
enum { PAD = 8, BLOCK = 16, GROUP = 4, HOLD = 16, REFRESH = 256 };
/* As registers allow: samples whose features are computed together, and models that are judged. */
#ifdef __AVX512VL__
enum { AT_ONCE = 4, TOGETHER = 8 };
#else
enum { AT_ONCE = 2, TOGETHER = 4 };
#endif

#define SINGLE 1
#include "engine.h"
#undef SINGLE
#define SINGLE 0
#include "engine.h"

/* ---- what this library is ---- */

#ifndef SOURCE
#define SOURCE "unknown"
#endif

/* What is freed is kept for the next run: to get it back page by page takes a tenth of the time.
   Returns whether the C library can be told so. It holds for the whole process. */
int64_t psofed_keep_memory(void)
{
#ifdef __GLIBC__
    return mallopt(M_MMAP_THRESHOLD, 1 << 25) && mallopt(M_TRIM_THRESHOLD, 1 << 28);
#else
    return 0;
#endif
}

const char *psofed_source(void) { return SOURCE; }

int psofed_fused(void)
{
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return 1;
#else
    return 0;
#endif
}

/* The highest level of x86-64 that this processor has: 0 (any), 1 (v3) or 2 (v4). */
int psofed_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")
        || !__builtin_cpu_supports("bmi2"))
        return 0;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")
                   && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
                   && __builtin_cpu_supports("avx512cd")
               ? 2
               : 1;
#else
    return 0;
#endif
}
