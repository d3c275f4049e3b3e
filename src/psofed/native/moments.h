/* The moments of a client's samples in a small basis, in one precision; see moments.c. */

/* out[r][c] = sum over m of a[m * across + r * along] b[m * stride + c], in `wide` vectors. */
INLINE void NAME(product)(VEC sum[4][3], const REAL *a, int64_t across, int64_t along, const REAL *b,
                          int64_t stride, int64_t count, const int rows, const int wide)
{
    for (int64_t m = 0; m < count; m++, a += across, b += stride) {
        VEC column[3];
        for (int c = 0; c < wide; c++) column[c] = NAME(load)(b + c * LANES);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide; c++) sum[r][c] += NAME(all)(a[r * along]) * column[c];
    }
}

/* Some rows of u = z T, four at most, from column j on. */
INLINE void NAME(project)(const REAL *z, const REAL *T, REAL *u, int64_t dim, int64_t size,
                          int64_t j, const int rows, const int wide)
{
    VEC sum[4][3] = {0};
    NAME(product)(sum, z, 1, dim, T + j, size, dim, rows, wide);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < wide; c++) NAME(store)(u + r * size + j + c * LANES, sum[r][c]);
}

INLINE void NAME(project_rows)(const REAL *z, const REAL *T, REAL *u, int64_t dim, int64_t size,
                               const int rows)
{
    int64_t j = 0;
    for (; j + 3 * LANES <= size; j += 3 * LANES) NAME(project)(z, T, u, dim, size, j, rows, 3);
    for (; j < size; j += LANES) NAME(project)(z, T, u, dim, size, j, rows, 1);
}

/* Four rows i.. of A += v^T u from column j on, summed over the samples first. */
INLINE void NAME(square)(const REAL *v, const REAL *u, double *A, int64_t count, int64_t size,
                         int64_t d, int64_t i, int64_t j, const int wide)
{
    VEC sum[4][3] = {0};
    NAME(product)(sum, v + i, size, 1, u + j, size, count, 4, wide);
    const int64_t rows = d - i < 4 ? d - i : 4, columns = d - j < wide * LANES ? d - j : wide * LANES;
    for (int64_t r = 0; r < rows; r++) {
        REAL row[3 * LANES];
        double *to = A + (i + r) * d + j;
        for (int c = 0; c < wide; c++) NAME(store)(row + c * LANES, sum[r][c]);
        if (columns == wide * LANES)
            for (int c = 0; c < wide * LANES; c++) to[c] += (double)row[c];
        else
            for (int64_t c = 0; c < columns; c++) to[c] += (double)row[c];
    }
}

/* A += sum p u u^T, q += sum p u y, s += sum p x, C += sum p x x^T with u = T^T z and the weight p of
   each sample. T [D][size] has d columns, filled up with zeros to a multiple of 8; u and v, which is
   p u, are working memory [count][size]. */
int64_t NAME(psofed_moments)(const REAL *z, const REAL *x, const REAL *y, const REAL *p,
                             const REAL *T, REAL *u, REAL *v, double *A, double *q, double *s,
                             double *C, int64_t count, int64_t dim, int64_t d, int64_t size,
                             int64_t taps)
{
    int64_t done = 0;
    for (; done + 4 <= count; done += 4)
        NAME(project_rows)(z + done * dim, T, u + done * size, dim, size, 4);
    for (; done < count; done++) NAME(project_rows)(z + done * dim, T, u + done * size, dim, size, 1);
    for (int64_t t = 0; t < count; t++, x += taps) {
        for (int64_t j = 0; j < size; j++) v[t * size + j] = p[t] * u[t * size + j];
        for (int64_t j = 0; j < d; j++) q[j] += (double)(v[t * size + j] * y[t]);
        for (int64_t l = 0; l < taps; l++) {
            const double value = (double)p[t] * (double)x[l];
            s[l] += value;
            for (int64_t m = 0; m < taps; m++) C[l * taps + m] += value * (double)x[m];
        }
    }
    for (int64_t i = 0; i < d; i += 4) {
        int64_t j = 0;
        for (; j + 3 * LANES <= size; j += 3 * LANES) NAME(square)(v, u, A, count, size, d, i, j, 3);
        for (; j < size; j += LANES) NAME(square)(v, u, A, count, size, d, i, j, 1);
    }
    return 0;
}

#undef REAL
#undef LANES
#undef TERMS
#undef NAME
#undef VEC
#undef MASK
#undef INLINE
