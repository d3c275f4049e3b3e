/* The recursion of the PSO-Fed family, eq. (8)-(11), in one precision; see engine.c. */

#include "vectors.h"
#include "job.h"
#include "features.h"
#include "lms.h"
#include "windows.h"
#include "judge.h"
#include "rounds.h"
