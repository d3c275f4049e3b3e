/* Products of small matrices in float64, which stay in the registers tile by tile. */

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif
#define SINGLE 0
#include "vectors.h"

typedef vec_f64 Vec;
typedef lanes_f64 Lanes;

/* sum[r][c] += sum over m of a[m * across + r * along] b[m * stride + 4 c ..], 4 `wide` columns. */
INLINE void tile(Vec sum[4][3], const double *a, int64_t across, int64_t along, const double *b,
                 int64_t stride, int64_t count, const int rows, const int wide)
{
    for (int64_t m = 0; m < count; m++, a += across, b += stride) {
        Vec column[3];
        for (int c = 0; c < wide; c++) column[c] = load_f64(b + 4 * c);
        for (int r = 0; r < rows; r++) {
            Vec value = all_f64(a[r * along]);
            for (int c = 0; c < wide; c++) sum[r][c] += value * column[c];
        }
    }
}

/* The rows of four vectors as columns. */
INLINE void transpose(Vec row[4])
{
    Vec a = EVEN(row[0], row[1]), b = ODD(row[0], row[1]);
    Vec c = EVEN(row[2], row[3]), d = ODD(row[2], row[3]);
    row[0] = LOW(a, c), row[1] = LOW(b, d), row[2] = HIGH(a, c), row[3] = HIGH(b, d);
}

/* a^T b. */
INLINE double dot(const double *a, const double *b, int64_t count)
{
    Vec s = {0}, t = {0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        s += load_f64(a + i) * load_f64(b + i);
        t += load_f64(a + i + 4) * load_f64(b + i + 4);
    }
    double sum = sum_f64(s + t);
    for (; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* Four rows i.. of U from column j on: what the rows above explain, then those within the four. */
INLINE void factor_columns(double *S, int64_t size, int64_t i, int64_t j, const int wide)
{
    Vec sum[4][3] = {0};
    tile(sum, S + i, size, 1, S + j, size, i, 4, wide);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < wide; c++) {
            double *to = S + (i + r) * size + j + 4 * c;
            store_f64(to, load_f64(to) - sum[r][c]);
        }
}

/* The upper triangle of S = U^T U becomes U, its size a multiple of four; what is below it stays.
   Returns 0 if S is not positive definite. */
static int cholesky(double *S, int64_t size)
{
    for (int64_t i = 0; i < size; i += 4) {
        int64_t j = i;
        for (; j + 12 <= size; j += 12) factor_columns(S, size, i, j, 3);
        for (; j < size; j += 4) factor_columns(S, size, i, j, 1);
        for (int r = 0; r < 4; r++) {
            double *row = S + (i + r) * size;
            for (int k = 0; k < r; k++) {
                const double *above = S + (i + k) * size, factor = above[i + r];
                for (int64_t c = i + r; c < size; c++) row[c] -= factor * above[c];
            }
            if (!(row[i + r] > 0)) return 0;
            const double root = sqrt(row[i + r]), inverse = 1 / root;
            for (int64_t c = i + r; c < size; c++) row[c] *= inverse;
        }
    }
    return 1;
}
