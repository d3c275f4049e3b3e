/* What MEMO-Fed computes most often; the same in NumPy is in core/coding.py, methods/memo/server.py
   and core/features.py. */

#include "matrix.h"

enum { SMALLEST = -63 }; /* scale of a companded message, in quarter octaves */

/* Square-root companding: e, then 2 level + sign of each value. */
int64_t psofed_compand(const double *v, double *out, int64_t count, int64_t bits)
{
    double top = 0;
    int odd = 0; /* not a number */
    for (int64_t i = 0; i < count; i++) {
        const double size = fabs(v[i]);
        odd |= size != size;
        top = size > top ? size : top;
    }
    if (!odd && top < pow(2, SMALLEST / 4.0)) {
        memset(out, 0, (count + 1) * sizeof(double));
        out[0] = SMALLEST - 1;
        return 0;
    }
    double e = -SMALLEST;
    if (!odd && top < HUGE_VAL && ceil(4 * log2(top)) < e) e = ceil(4 * log2(top));
    const double half = (double)(1 << (bits - 1)), factor = half * half / pow(2, e / 4);
    out[0] = e;
    for (int64_t i = 0; i < count; i++) {
        const double level = floor(sqrt(fabs(v[i]) * factor));
        out[i + 1] = 2 * (level < half - 1 ? level : half - 1) + (v[i] < 0);
    }
    return 0;
}

/* A client's quadratic in the sums: its gradient is g at r, which has moved by dr, and its weight
   changes. found = dr^T dg and dr^T B dr. */
int64_t psofed_renew(double *sum_B, double *sum_g, double *sum_Br, const double *B, double *old_g,
                     double *old_Br, const double *r, const double *g, const double *dr,
                     double *found, double weight, double count, int64_t dim)
{
    const double more = count - weight;
    double true = 0, assumed = 0;
    for (int64_t i = 0; i < dim; i++, B += dim, sum_B += dim) {
        const double Br = dot(B, r, dim);
        for (int64_t j = 0; j < dim; j++) sum_B[j] += more * B[j];
        sum_g[i] += count * g[i] - weight * old_g[i];
        sum_Br[i] += count * Br - weight * old_Br[i];
        true += dr[i] * (g[i] - old_g[i]), assumed += dr[i] * (Br - old_Br[i]);
        old_g[i] = g[i], old_Br[i] = Br;
    }
    found[0] = true, found[1] = assumed;
    return 0;
}

/* x solves (factor A + diag(prior)) x = b, A positive; U [size][size] is working memory, its size
   that of A or the next multiple of four. Returns 0 if the matrix is not positive definite. */
int64_t psofed_minimise(const double *A, const double *prior, const double *b, double *x, double *U,
                        int64_t size, int64_t dim, double factor)
{
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = i; j < size; j++)
            U[i * size + j] = j < dim ? factor * A[i * dim + j] + (i == j ? prior[i] : 0) : i == j;
    if (!cholesky(U, size)) return 0;
    memcpy(x, b, dim * sizeof(double));
    for (int64_t i = 0; i < dim; i++) {
        x[i] /= U[i * (size + 1)];
        for (int64_t j = i + 1; j < dim; j++) x[j] -= U[i * size + j] * x[i];
    }
    for (int64_t i = dim - 1; i >= 0; i--)
        x[i] = (x[i] - dot(U + i * size + i + 1, x + i + 1, dim - i - 1)) / U[i * (size + 1)];
    return 1;
}

/* exp(t) for t <= 0: 2^n times a Taylor sum of the rest, which is at most half an octave. */
INLINE Vec exponential(Vec t)
{
    const Vec magic = all_f64(0x1.8p52), least = all_f64(-708);
    const Lanes small = t < least;
    t = (Vec)(((Lanes)t & ~small) | ((Lanes)least & small));
    Vec n = t * all_f64(1.4426950408889634) + magic;
    const Lanes power = (Lanes)n << 52;
    n -= magic;
    t -= n * all_f64(0x1.62e42fefa3800p-1);
    t -= n * all_f64(0x1.ef35793c76730p-45);
    Vec sum = all_f64(1 / 6227020800.0);
    const double terms[] = {479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1};
    for (int m = 0; m < 13; m++) sum = sum * t + all_f64(1 / terms[m]);
    return (Vec)((Lanes)sum + power);
}

/* E[z z^T] of cosine features whose phases are Gaussian: of four features i.. with four j... */
INLINE void correlate(const double *P, const double *W, const double *c, const double *s,
                      const double *variance, const double *quick, int64_t size, int64_t taps,
                      int64_t i, int64_t j, Vec out[4])
{
    const Lanes minus = (Lanes)all_f64(-0.0);
    for (int r = 0; r < 4; r++) {
        Vec S = {0};
        for (int64_t l = 0; l < taps; l++)
            S += all_f64(P[l * size + i + r]) * load_f64(W + l * size + j);
        const Lanes sign = (Lanes)S & minus;
        const Vec both = (all_f64(variance[i + r]) + load_f64(variance + j)) * 0.5;
        /* exp(|S| - v) <= 1, and exp(-|S| - v) is exp(-2 v) over it. */
        const Vec near = exponential((Vec)((Lanes)S ^ sign) - both);
        const Vec far = all_f64(quick[i + r]) * load_f64(quick + j) / near;
        out[r] = all_f64(c[i + r]) * load_f64(c + j) * (near + far)
                 + all_f64(s[i + r]) * load_f64(s + j) * (Vec)((Lanes)(near - far) ^ sign);
    }
}

/* R [D][D] from P = (W C)^T and W^T [taps][size], the mean phases' c and s, which have the factor
   1 / sqrt(D), the phases' variances and exp(-variance); features filled up to a multiple of four. */
int64_t psofed_correlation(const double *P, const double *W, const double *c, const double *s,
                           const double *variance, const double *quick, double *R, int64_t size,
                           int64_t taps, int64_t dim)
{
    for (int64_t i = 0; i < size; i += 4)
        for (int64_t j = 0; j <= i; j += 4) {
            Vec row[4];
            correlate(P, W, c, s, variance, quick, size, taps, i, j, row);
            if (i + 4 <= dim) {
                for (int r = 0; r < 4; r++) store_f64(R + (i + r) * dim + j, row[r]);
                transpose(row);
                for (int r = 0; r < 4; r++) store_f64(R + (j + r) * dim + i, row[r]);
                continue;
            }
            for (int64_t r = i; r < dim; r++)
                for (int64_t k = j; k < dim && k < j + 4; k++)
                    R[r * dim + k] = R[k * dim + r] = row[r - i][k - j];
        }
    return 0;
}
