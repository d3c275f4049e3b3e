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
    const Lanes even = {0, 4, 2, 6}, odd = {1, 5, 3, 7}, low = {0, 1, 4, 5}, high = {2, 3, 6, 7};
    Vec a = __builtin_shuffle(row[0], row[1], even), b = __builtin_shuffle(row[0], row[1], odd);
    Vec c = __builtin_shuffle(row[2], row[3], even), d = __builtin_shuffle(row[2], row[3], odd);
    row[0] = __builtin_shuffle(a, c, low), row[1] = __builtin_shuffle(b, d, low);
    row[2] = __builtin_shuffle(a, c, high), row[3] = __builtin_shuffle(b, d, high);
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

/* out[r] = a^T b_r for four rows b_r. */
INLINE void dot_four(const double *a, const double *b, int64_t stride, int64_t count, double *out)
{
    Vec s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        Vec value = load_f64(a + i);
        for (int r = 0; r < 4; r++) s[r] += value * load_f64(b + r * stride + i);
    }
    sum_four_f64(s, out);
    for (; i < count; i++)
        for (int r = 0; r < 4; r++) out[r] += a[i] * b[r * stride + i];
}

/* The lower triangle S = L L^T becomes L. Returns 0 if S is not positive definite. */
static int cholesky(double *S, int64_t stride, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double *row = S + i * stride;
        int64_t j = 0;
        for (; j + 4 <= i; j += 4) {
            double *other = S + j * stride, four[4];
            dot_four(row, other, stride, j, four);
            for (int r = 0; r < 4; r++) {
                double value = row[j + r] - four[r];
                for (int k = 0; k < r; k++) value -= row[j + k] * other[r * stride + j + k];
                row[j + r] = value / other[r * stride + j + r];
            }
        }
        for (; j < i; j++)
            row[j] = (row[j] - dot(row, S + j * stride, j)) / S[j * stride + j];
        double rest = row[i] - dot(row, row, i);
        if (!(rest > 0)) return 0;
        row[i] = sqrt(rest);
    }
    return 1;
}
