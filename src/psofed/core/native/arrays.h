/* Gathering, scattering and choosing entries, in one precision; see arrays.c. */

/* out[i][j] = w[window[i][j]]: `each` rows of windows for one model of `dim` entries. */
void NAME(psofed_gather)(const REAL *w, const int64_t *window, REAL *out, int64_t models,
                         int64_t each, int64_t dim)
{
    for (int64_t r = 0; r < models; r++, w += dim, window += each, out += each)
        for (int64_t i = 0; i < each; i++) out[i] = w[window[i]];
}

/* w[window[i]] += change[i], for `each` entries of one model of `dim`; sums go through `total`, [dim]
   zeros, so that each entry of w is rounded once. */
void NAME(psofed_add_at)(REAL *w, const int64_t *window, const REAL *change, double *total,
                         int64_t models, int64_t each, int64_t dim)
{
    for (int64_t r = 0; r < models; r++, w += dim, window += each, change += each) {
        for (int64_t i = 0; i < each; i++) total[window[i]] += change[i];
        for (int64_t i = 0; i < each; i++) {
            double *sum = total + window[i];
            w[window[i]] = (REAL)(w[window[i]] + *sum);
            *sum = 0; /* an entry that occurs again adds nothing */
        }
    }
}

/* The positions of the `kept` largest |v_j| of each row, in order; of equal ones, the first. */
void NAME(psofed_largest)(const REAL *v, int64_t *out, int64_t rows, int64_t dim, int64_t kept)
{
    for (int64_t r = 0; r < rows; r++, v += dim, out += kept) {
        int64_t count = 0;
        REAL best[kept]; /* descending; of equal ones, the first found comes first */
        for (int64_t d = 0; d < dim; d++) {
            const REAL size = v[d] < 0 ? -v[d] : v[d];
            if (count == kept && !(size > best[kept - 1])) continue;
            int64_t i = count < kept ? count++ : kept - 1;
            for (; i > 0 && size > best[i - 1]; i--) best[i] = best[i - 1], out[i] = out[i - 1];
            best[i] = size, out[i] = d;
        }
        for (int64_t i = 1; i < kept; i++) { /* sort the positions */
            const int64_t at = out[i];
            int64_t j = i;
            for (; j > 0 && out[j - 1] > at; j--) out[j] = out[j - 1];
            out[j] = at;
        }
    }
}

/* Columns d.. of factor^T w for four models: `wide` vectors of columns stay in registers. */
INLINE void NAME(columns)(const REAL *const *w, const REAL *factor, int64_t dim, int64_t d,
                          REAL *fits, const int wide)
{
    VEC sum[4][3] = {0};
    for (int64_t i = d; i < dim; i++) {
        VEC column[3];
        for (int c = 0; c < wide; c++) column[c] = NAME(load)(factor + i * dim + d + c * LANES);
        for (int k = 0; k < 4; k++) {
            VEC a = NAME(all)(w[k][i]);
            for (int c = 0; c < wide; c++) sum[k][c] += a * column[c];
        }
    }
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < wide; c++) NAME(store)(fits + k * dim + d + c * LANES, sum[k][c]);
}

/* |factor^T w - target - a shift|^2 of each model, the factor lower triangular: [count] numbers. */
void NAME(psofed_misfits)(const REAL *w, const REAL *factor, const REAL *target, const REAL *shift,
                          const double *a, double *out, int64_t count, int64_t dim, REAL *fits)
{
    for (int64_t h = 0; h < count; h += 4) {
        const int some = count - h < 4 ? (int)(count - h) : 4;
        const REAL *row[4];
        for (int k = 0; k < 4; k++) row[k] = w + (h + (k < some ? k : 0)) * dim;
        int64_t d = 0;
        for (; d + 3 * LANES <= dim; d += 3 * LANES)
            NAME(columns)(row, factor, dim, d, fits, 3);
        for (; d + LANES <= dim; d += LANES) NAME(columns)(row, factor, dim, d, fits, 1);
        for (; d < dim; d++)
            for (int k = 0; k < 4; k++) {
                REAL sum = 0;
                for (int64_t i = d; i < dim; i++) sum += row[k][i] * factor[i * dim + d];
                fits[k * dim + d] = sum;
            }
        for (int k = 0; k < some; k++) {
            double total = 0;
            const REAL share = (REAL)a[h + k];
            for (d = 0; d < dim; d++) {
                double apart = (double)(fits[k * dim + d] - (target[d] + share * shift[d]));
                total += apart * apart;
            }
            out[h + k] = total;
        }
    }
}
