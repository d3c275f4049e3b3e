/* Windows: what a client receives, eq. (9), and what it shares, eq. (11). */

/* The window of a method: positions in the table, and by how much they are shifted. */
typedef struct {
    const int32_t *at;
    int64_t shared;
    int32_t shift, dim;
} NAME(Window);

INLINE NAME(Window) NAME(window)(const NAME(Job) *job, int64_t j, int64_t c, int64_t p, int up)
{
    const NAME(Plans) *plans = &job->plans;
    const int64_t shared = plans->shared[j], kind = plans->rows[j];
    const int64_t row = kind == FRESH ? 2 * p + up : kind == PER_CLIENT ? c : 0;
    const int32_t shift = job->pad.shift[up * plans->methods + j];
    return (NAME(Window)){plans->table + plans->first[j] + row * shared, shared, shift,
                          (int32_t)plans->dim};
}

/* How far the windows of round n have moved. */
static void NAME(shift)(const NAME(Job) *job, int64_t n)
{
    const NAME(Plans) *plans = &job->plans;
    for (int up = 0; up < 2; up++)
        for (int64_t j = 0; j < plans->methods; j++)
            job->pad.shift[up * plans->methods + j] = (int32_t)(plans->shift[j] * (n + up) % plans->dim);
}

/* The same window of many entries as a mask: S_0 is there twice, and read from the middle. */
INLINE const int8_t *NAME(mask)(const NAME(Job) *job, int64_t j, int64_t c, int up)
{
    const NAME(Plans) *plans = &job->plans;
    const int64_t row = plans->rows[j] == PER_CLIENT ? c : 0;
    return plans->masks + plans->masked[j] + row * plans->length + plans->dim
           - job->pad.shift[up * plans->methods + j];
}

INLINE int32_t NAME(entry)(NAME(Window) window, int64_t m)
{
    const int32_t entry = window.at[m] + window.shift, less = entry - window.dim;
    return less < 0 ? entry : less;
}

/* Eq. (9): the window of each method's global model overwrites that of the local one. */
static void NAME(receive)(const NAME(Job) *job, int64_t c, int64_t p)
{
    const NAME(Plans) *plans = &job->plans;
    const int64_t size = job->map.size;
    const REAL *restrict w = job->models.w;
    REAL *restrict w_k = job->models.local + c * plans->methods * size;
    for (int64_t j = 0; j < plans->methods; j++, w += size, w_k += size) {
        if (plans->shared[j] == plans->dim) {
            memcpy(w_k, w, size * sizeof(REAL));
            continue;
        }
        if (plans->masked[j] >= 0) {
            const int8_t *mask = NAME(mask)(job, j, c, 0);
            for (int64_t d = 0; d < size; d += LANES) {
                VEC old = *(const VEC *)(w_k + d), new = *(const VEC *)(w + d);
                MASK other = (MASK)new ^ (MASK)old;
                *(VEC *)(w_k + d) = (VEC)((MASK)old ^ (MASK)NAME(where)(mask + d, (VEC)other));
            }
            continue;
        }
        const NAME(Window) window = NAME(window)(job, j, c, p, 0);
        for (int64_t m = 0; m < window.shared; m++) {
            const int32_t entry = NAME(entry)(window, m);
            w_k[entry] = w[entry];
        }
    }
}

/* One member's part of the sum in eq. (11), from its models w_k, and which entries it touches. */
static void NAME(share)(const NAME(Job) *job, int64_t c, int64_t p, int64_t n, const REAL *restrict w_k)
{
    const NAME(Plans) *plans = &job->plans;
    const int64_t size = job->map.size, dim = plans->dim;
    const REAL *restrict w = job->models.w;
    REAL *restrict change = job->pad.change;
    for (int64_t j = 0; j < plans->methods; j++, w += size, w_k += size, change += size) {
        if (plans->shared[j] == dim) {
            for (int64_t d = 0; d < size; d++) change[d] += w_k[d] - w[d];
            continue;
        }
        const NAME(Window) window = NAME(window)(job, j, c, p, 1);
        if (plans->masked[j] >= 0) {
            const int8_t *mask = NAME(mask)(job, j, c, 1);
            for (int64_t d = 0; d < size; d += LANES) {
                VEC apart = *(const VEC *)(w_k + d) - *(const VEC *)(w + d);
                *(VEC *)(change + d) += NAME(where)(mask + d, apart);
            }
        }
        for (int64_t m = 0; m < window.shared && plans->masked[j] < 0; m++) {
            const int32_t entry = NAME(entry)(window, m);
            change[entry] += w_k[entry] - w[entry];
        }
        /* Followed are the entries that changed; of a common window, the first member notes all. */
        if (plans->dense[j] || (plans->rows[j] == COMMON && job->pad.counts[j])) continue;
        int64_t *stamp = job->pad.stamp + j * dim, *touched = job->pad.touched + j * (dim + 1);
        int64_t count = job->pad.counts[j];
        for (int64_t m = 0; m < window.shared; m++) {
            const int32_t entry = NAME(entry)(window, m);
            touched[count] = entry; /* the first to upload it notes it */
            count += stamp[entry] != n;
            stamp[entry] = n;
        }
        job->pad.counts[j] = count;
    }
}
