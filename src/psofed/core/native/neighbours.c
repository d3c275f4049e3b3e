/* Partial diffusion: each node combines what its neighbours have said.

   Products are rounded before they are added, as in NumPy: a node alone gets the same bits. */

#include <stdint.h>
#include <string.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

#define REAL float
#define NAME(f) f##_f32
#include "neighbours.h"
#undef REAL
#undef NAME
#define REAL double
#define NAME(f) f##_f64
#include "neighbours.h"
