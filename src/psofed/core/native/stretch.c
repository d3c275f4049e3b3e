/* A stretch of rounds whose windows and features are known ahead; see tables/player.py. */

#include <stdint.h>
#ifdef __AVX__
#include <immintrin.h>
#endif
#include <math.h>

enum { OPENS = 1, CLOSES = 2, IDLE = 4, POOLS = 8 }; /* what happens in a round; the same in Python */

#define SINGLE 1
#include "vectors.h"
#include "job.h"
#include "stretch.h"
#undef SINGLE
#define SINGLE 0
#include "vectors.h"
#include "job.h"
#include "stretch.h"
