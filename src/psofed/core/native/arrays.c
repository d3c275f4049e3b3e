/* Primitives of methods that run in NumPy: entries of models by their positions, and test errors. */

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#define SINGLE 1
#include "vectors.h"
#include "arrays.h"
#undef SINGLE
#define SINGLE 0
#include "vectors.h"
#include "arrays.h"
