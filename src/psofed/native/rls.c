/* RLS for many samples of a client at once; core/recursive.py has the same in NumPy. */

#include "matrix.h"

/* V = Z Q, rows `stride` apart; columns of Q stay in the first cache for all samples. */
INLINE void sample_columns(const double *z, const double *Q, double *V, int64_t count, int64_t dim,
                           int64_t stride, int64_t j, const int wide)
{
    int64_t t = 0;
    for (; t + 4 <= count; t += 4) {
        Vec sum[4][3] = {0};
        tile(sum, z + t * dim, 1, dim, Q + j, dim, dim, 4, wide);
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < wide; c++) store_f64(V + (t + r) * stride + j + 4 * c, sum[r][c]);
    }
    for (; t < count; t++) {
        Vec sum[4][3] = {0};
        tile(sum, z + t * dim, 1, dim, Q + j, dim, dim, 1, wide);
        for (int c = 0; c < wide; c++) store_f64(V + t * stride + j + 4 * c, sum[0][c]);
    }
}

static void times(const double *z, const double *Q, double *V, int64_t count, int64_t dim,
                  int64_t stride)
{
    int64_t j = 0;
    for (; j + 12 <= dim; j += 12) sample_columns(z, Q, V, count, dim, stride, j, 3);
    for (; j + 4 <= dim; j += 4) sample_columns(z, Q, V, count, dim, stride, j, 1);
    for (; j < dim; j++)
        for (int64_t t = 0; t < count; t++) V[t * stride + j] = dot(z + t * dim, Q + j * dim, dim);
}

/* Rows m..m+3 of U^-T V in columns j.., when the rows before are done. */
INLINE void solve_columns(const double *U, double *V, int64_t size, int64_t dim, int64_t m,
                          int64_t j, const int wide)
{
    Vec sum[4][3] = {0};
    tile(sum, U + m, size, 1, V + j, dim, m, 4, wide);
    for (int r = 0; r < 4; r++) {
        Vec inverse = all_f64(1 / U[(m + r) * (size + 1)]);
        for (int c = 0; c < wide; c++) {
            double *to = V + (m + r) * dim + j + 4 * c;
            Vec value = load_f64(to) - sum[r][c];
            for (int k = 0; k < r; k++)
                value -= all_f64(U[(m + k) * size + m + r]) * load_f64(to + (k - r) * dim);
            store_f64(to, value * inverse);
        }
    }
}

/* V <- U^-T V, the number of rows a multiple of four. */
static void solve(const double *U, double *V, int64_t size, int64_t dim)
{
    for (int64_t m = 0; m < size; m += 4) {
        int64_t j = 0;
        for (; j + 12 <= dim; j += 12) solve_columns(U, V, size, dim, m, j, 3);
        for (; j + 4 <= dim; j += 4) solve_columns(U, V, size, dim, m, j, 1);
        for (; j < dim; j++)
            for (int64_t r = m; r < m + 4; r++) {
                for (int64_t l = 0; l < r; l++) V[r * dim + j] -= U[l * size + r] * V[l * dim + j];
                V[r * dim + j] /= U[r * (size + 1)];
            }
    }
}

/* Four rows i.. of Q <- (Q - V^T V) scale in columns j.., and their mirror image. */
INLINE void lower_columns(double *Q, const double *V, int64_t all, int64_t dim, double scale,
                          int64_t i, int64_t j, const int wide)
{
    Vec sum[4][3] = {0}, by = all_f64(scale);
    tile(sum, V + i, dim, 1, V + j, dim, all, 4, wide);
    for (int c = 0; c < wide; c++) {
        Vec row[4];
        for (int r = 0; r < 4; r++) {
            double *to = Q + (i + r) * dim + j + 4 * c;
            row[r] = (load_f64(to) - sum[r][c]) * by;
            store_f64(to, row[r]);
        }
        if (j + 4 * c == i) continue;
        transpose(row);
        for (int r = 0; r < 4; r++) store_f64(Q + (j + 4 * c + r) * dim + i, row[r]);
    }
}

static void lower(double *Q, const double *V, int64_t all, int64_t dim, double scale)
{
    int64_t i = 0;
    for (; i + 4 <= dim; i += 4) {
        int64_t j = 0;
        for (; j + 12 <= i + 4; j += 12) lower_columns(Q, V, all, dim, scale, i, j, 3);
        for (; j <= i; j += 4) lower_columns(Q, V, all, dim, scale, i, j, 1);
    }
    for (; i < dim; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t m = 0; m < all; m++) sum += V[m * dim + i] * V[m * dim + j];
            Q[i * dim + j] = Q[j * dim + i] = (Q[i * dim + j] - sum) * scale;
        }
}

/* The entry that is held after sample t. */
INLINE int64_t held(int64_t turn, int64_t t, int64_t dim) { return (turn + t) % dim; }

/* S = C Q C^T + R, its upper triangle, from V = C Q. Events are samples and, with each = 2, an entry
   that is held after each of them; their variances R are lambda^t and lambda^t / amount. */
static void spread(const double *z, const double *Q, const double *V, double *S, int64_t size,
                   int64_t count, int64_t dim, int64_t turn, double forget, double amount,
                   const int64_t each)
{
    double noise = forget;
    for (int64_t t = 0; t < count; t++, noise *= forget) {
        const double *v = V + each * t * dim;
        double *column = S + each * t, some[4];
        for (int64_t s = 0; s <= t; s += 4) {
            if (s + 4 <= count) dot_four(v, z + s * dim, dim, dim, some);
            else
                for (int64_t r = s; r <= t; r++) some[r - s] = dot(v, z + r * dim, dim);
            for (int64_t r = s; r <= t && r < s + 4; r++) column[each * r * size] = some[r - s];
        }
        column[each * t * size] += noise;
        if (each == 1) continue;
        const int64_t now = held(turn, t, dim);
        for (int64_t s = 0; s <= t; s++) {
            const int64_t then = held(turn, s, dim);
            if (s < t) column[(2 * s + 1) * size] = v[then];
            column[2 * s * size + 1] = V[2 * s * dim + now];
            column[(2 * s + 1) * size + 1] = Q[now * dim + then];
        }
        column[(2 * t + 1) * size + 1] += noise / amount;
    }
}

/* The gains of `count` samples, one after the other; Q moves past them. V [size][D] and
   S [size][size] are working memory, their size that of the events or the next multiple of four.
   Returns 0 if Q was not positive. */
int64_t psofed_gains(double *Q, const double *z, double *gains, double *V, double *S, int64_t size,
                     int64_t count, int64_t dim, int64_t turn, double forget, double amount)
{
    const int64_t each = amount > 0 ? 2 : 1, all = each * count;
    times(z, Q, V, count, dim, each * dim);
    if (each == 2)
        for (int64_t t = 0; t < count; t++)
            memcpy(V + (2 * t + 1) * dim, Q + held(turn, t, dim) * dim, dim * sizeof(double));
    spread(z, Q, V, S, size, count, dim, turn, forget, amount, each);
    memset(V + all * dim, 0, (size - all) * dim * sizeof(double));
    for (int64_t m = all; m < size; m++)
        for (int64_t l = 0; l <= m; l++) S[l * size + m] = l == m;
    if (!cholesky(S, size)) return 0;
    solve(S, V, size, dim);
    lower(Q, V, all, dim, pow(forget, -(double)count));
    for (int64_t t = 0; t < count; t++) {
        const double *v = V + each * t * dim, scale = 1 / S[each * t * (size + 1)];
        for (int64_t d = 0; d < dim; d++) gains[t * dim + d] = v[d] * scale;
    }
    return 1;
}

/* w <- w + g_t (y_t - w^T z_t) for samples in a row [T][rows][D], each row its own model. */
#define CORRECT(REAL, NAME)                                                                        \
    int64_t NAME(REAL *w, const double *gains, const REAL *z, const REAL *y, int64_t count,        \
                 int64_t rows, int64_t dim)                                                        \
    {                                                                                              \
        for (int64_t i = 0; i < count * rows; i++, gains += dim, z += dim) {                       \
            REAL *to = w + i % rows * dim;                                                         \
            double some[8] = {0}, rest = 0;                                                        \
            int64_t d = 0;                                                                         \
            for (; d + 8 <= dim; d += 8)                                                           \
                for (int k = 0; k < 8; k++) some[k] += (double)to[d + k] * (double)z[d + k];       \
            for (; d < dim; d++) rest += (double)to[d] * (double)z[d];                             \
            for (int k = 0; k < 8; k++) rest += some[k];                                           \
            const double error = (double)y[i] - rest;                                              \
            for (d = 0; d < dim; d++) to[d] = (REAL)((double)to[d] + gains[d] * error);            \
        }                                                                                          \
        return 0;                                                                                  \
    }
CORRECT(float, psofed_correct_f32)
CORRECT(double, psofed_correct_f64)
