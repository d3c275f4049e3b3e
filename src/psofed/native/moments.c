/* The moments of a client's samples in a small basis, which MEMO-Fed sums up; basis.py has the same
   in NumPy. */

#include <math.h>
#include <stdint.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#define SINGLE 1
#include "vectors.h"
#include "moments.h"
#undef SINGLE
#define SINGLE 0
#include "vectors.h"
#include "moments.h"
