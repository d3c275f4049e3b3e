/* The recursion of the PSO-Fed family, eq. (8)-(11), in one precision; see engine.c. */

/* ---- what Python prepares: the same fields, in the same order, as in simulate/layout.py ---- */

typedef struct {
    int64_t first, clients, rounds;
    const REAL *x;                  /* [client][round][input], apart by x_strides */
    const int64_t *x_strides;       /* in numbers */
    const REAL *y;                  /* [client][round] */
    const int64_t *start, *members; /* the cohort of round i: members[start[i]..start[i + 1]] */
    const uint8_t *again;           /* [client]: selected in a later chunk */
} NAME(Data);

typedef struct {
    int64_t kind, taps, size; /* of inputs, and of features, padded */
    const REAL *slope, *offset, *scale;
    double constant;  /* of bumps: 1 / (2 sigma^2) */
    const REAL *sine; /* of waves: the polynomial, highest power first, times the scale */
} NAME(Map);

typedef struct {
    int64_t dim, methods, idle;
    const REAL *step;
    const int64_t *rows, *shift, *shared, *first;
    const int32_t *table;
    const uint8_t *dense;
} NAME(Plans);

typedef struct {
    REAL *w, *local;   /* [method][feature], [client][method][feature] */
    int64_t *position; /* [client]: its next sample */
    REAL *fit;         /* [method][row] */
} NAME(Models);

typedef struct {
    REAL *z;      /* [BLOCK][feature] */
    REAL *change; /* [method][feature]: the sum of eq. (11) so far */
    int64_t *stamp, *touched, *counts;
    const int64_t *every;
    REAL *held;     /* [HOLD][feature]: models that wait for their test error */
    int64_t *owner; /* [HOLD][2]: the mark and the method of each */
    REAL *fits;     /* [4][row] */
    int32_t *shift; /* [2][method]: of the windows of this round, down and up */
} NAME(Scratch);

typedef struct {
    int64_t rows, triangular, last;
    const REAL *factor, *target, *shift, *shares; /* [feature][row], [row], [row], [mark] */
    double scale;
    const double *rest;
    const int64_t *marks;
    double *mse; /* [mark][method] */
    int64_t keep;
    REAL *history; /* [mark][method][feature], or nothing */
} NAME(Judge);

typedef struct {
    NAME(Data) data;
    NAME(Map) map;
    NAME(Plans) plans;
    NAME(Models) models;
    NAME(Judge) judge;
    NAME(Scratch) pad;
} NAME(Job);

/* ---- features ---- */

/* cos(2 pi t) = sin(2 pi (1/4 - |t - nearest integer|)), by an odd polynomial. */
INLINE BIG NAME(wave)(BIG t, const BIG *sine)
{
    BIG s = (REAL)0.25 - NAME(magnitude)(t - NAME(nearest)(t));
    BIG q = s * s, p = sine[0];
    for (int m = 1; m < TERMS; m++) p = p * q + sine[m];
    return s * p;
}

/* z = sqrt(2/D) cos(W x + b) of `count` samples, so that each slope is loaded once for all. The
   last vector may overlap the one before. */
INLINE void NAME(waves)(const NAME(Map) *map, const REAL *restrict x, int64_t stride, int64_t tap,
                        REAL *restrict z, const int64_t taps, const int count)
{
    const int64_t size = map->size;
    BIG sine[TERMS];
    for (int m = 0; m < TERMS; m++) sine[m] = map->sine[m] - (BIG){0};
    for (int64_t next = 0; next < size; next += LONG) {
        const int64_t d = next + LONG <= size ? next : size - LONG;
        BIG t[4];
        for (int i = 0; i < count; i++) t[i] = *(const BIG *)(map->offset + d);
        for (int64_t l = 0; l < taps; l++) {
            BIG slope = NAME(load_big)(map->slope + l * size + d);
            for (int i = 0; i < count; i++) t[i] += x[i * stride + l * tap] * slope;
        }
        for (int i = 0; i < count; i++) *(BIG *)(z + i * size + d) = NAME(wave)(t[i], sine);
    }
}

/* z_i = exp(-|x - c_i|^2 / (2 sigma^2)) / sqrt(D). */
static void NAME(bumps)(const NAME(Map) *map, const REAL *x, int64_t tap, REAL *z)
{
    const int64_t size = map->size;
    for (int64_t d = 0; d < size; d++) z[d] = 0;
    for (int64_t l = 0; l < map->taps; l++)
        for (int64_t d = 0; d < size; d++) {
            REAL apart = x[l * tap] - map->slope[l * size + d];
            z[d] += apart * apart;
        }
    for (int64_t d = 0; d < size; d++) {
        REAL power = -(REAL)map->constant * z[d];
        z[d] = map->scale[d] * (SINGLE ? (REAL)expf((float)power) : (REAL)exp(power));
    }
}

/* The features of `count` samples, which are `stride` apart, their inputs `tap`. */
static void NAME(fill)(const NAME(Map) *map, const REAL *x, int64_t stride, int64_t tap,
                       int64_t count, REAL *z)
{
    const int64_t size = map->size, taps = map->taps;
    while (count > 0) {
        const int some = map->kind == WAVES && count >= AT_ONCE ? AT_ONCE : 1;
        if (map->kind == BUMPS) NAME(bumps)(map, x, tap, z);
        else if (map->kind == GIVEN)
            for (int64_t l = 0; l < size; l++) z[l] = l < taps ? x[l * tap] : 0;
        else if (some == 1) NAME(waves)(map, x, stride, tap, z, taps, 1);
        else if (taps == 4) NAME(waves)(map, x, stride, tap, z, 4, AT_ONCE); /* the paper's */
        else NAME(waves)(map, x, stride, tap, z, taps, AT_ONCE);
        count -= some, x += some * stride, z += some * size;
    }
}

/* Features of `count` rows of x, for callers outside the recursion. */
void NAME(psofed_features)(const NAME(Map) *map, const REAL *x, int64_t count, REAL *z)
{
    NAME(fill)(map, x, map->taps, 1, count, z);
}

/* The same for several runs, each with its map: x [outer][run][row][tap], z [...][dim]. */
void NAME(psofed_features_of_runs)(const NAME(Map) *const *maps, const REAL *x, int64_t outer,
                                   int64_t runs, int64_t rows, int64_t dim, REAL *z)
{
    const int64_t size = maps[0]->size, taps = maps[0]->taps;
    REAL row[size == dim ? 1 : size];
    for (int64_t i = 0; i < outer * runs; i++, x += rows * taps, z += rows * dim) {
        const NAME(Map) *map = maps[i % runs];
        if (size == dim) {
            NAME(fill)(map, x, taps, 1, rows, z);
            continue;
        }
        for (int64_t c = 0; c < rows; c++) {
            NAME(fill)(map, x + c * taps, taps, 1, 1, row);
            memcpy(z + c * dim, row, dim * sizeof(REAL));
        }
    }
}

/* ---- LMS ---- */

/* Products of `wide` models with `count` samples: lane j of out[i] is w_j^T z_i. */
INLINE void NAME(products)(const REAL *w, const REAL *z, int64_t size, FOUR *out, const int wide,
                           const int count)
{
    VEC sum[4][4] = {0};
    for (int64_t d = 0; d < size; d += LANES) {
        VEC model[3];
        for (int j = 0; j < wide; j++) model[j] = NAME(load)(w + j * size + d);
        for (int i = 0; i < count; i++) {
            VEC sample = NAME(load)(z + i * size + d);
            for (int j = 0; j < wide; j++) sum[i][j] += model[j] * sample;
        }
    }
    for (int i = 0; i < count; i++) out[i] = NAME(sum_four)(sum[i]);
}

/* w_j += sum_i e[i][j] z_i for `wide` models. */
INLINE void NAME(add)(REAL *w, const REAL *z, int64_t size, const FOUR *e, const int wide,
                      const int count)
{
    BIG scaled[4][3];
    for (int i = 0; i < count; i++)
        for (int j = 0; j < wide; j++) scaled[i][j] = e[i][j] - (BIG){0};
    int64_t d = 0;
    for (; d + LONG <= size; d += LONG) {
        BIG model[3];
        for (int j = 0; j < wide; j++) model[j] = NAME(load_big)(w + j * size + d);
        for (int i = 0; i < count; i++) {
            BIG sample = NAME(load_big)(z + i * size + d);
            for (int j = 0; j < wide; j++) model[j] += scaled[i][j] * sample;
        }
        for (int j = 0; j < wide; j++) *(BIG *)(w + j * size + d) = model[j];
    }
    for (; d < size; d += LANES)
        for (int j = 0; j < wide; j++) {
            VEC model = NAME(load)(w + j * size + d);
            for (int i = 0; i < count; i++) model += NAME(load)(z + i * size + d) * e[i][j];
            NAME(store)(w + j * size + d, model);
        }
}

/* z_i^T z_k for k < i: (1,0), (2,0), (2,1), (3,0), ... */
INLINE void NAME(gram)(const REAL *z, int64_t size, FOUR *g, const int count)
{
    VEC sum[8] = {0};
    for (int64_t d = 0; d < size; d += LANES) {
        VEC sample[4];
        for (int i = 0; i < count; i++) sample[i] = NAME(load)(z + i * size + d);
        for (int i = 1, m = 0; i < count; i++)
            for (int k = 0; k < i; k++, m++) sum[m] += sample[i] * sample[k];
    }
    g[0] = NAME(sum_four)(sum);
    if (count > 3) g[1] = NAME(sum_four)(sum + 4);
}

/* e_i = mu (y_i - p_i - sum_k e_k z_k^T z_i): lanes are models. The error of a sample depends on
   the earlier ones only through z^T z, which all models share. */
INLINE void NAME(errors)(const FOUR *p, const FOUR *g, const REAL *y, const REAL *step, FOUR *e,
                         const int count)
{
    const FOUR mu = *(const FOUR *)step;
    for (int i = 0, m = 0; i < count; i++) {
        e[i] = y[i] - p[i];
        for (int k = 0; k < i; k++, m++) e[i] -= e[k] * g[m / 4][m % 4];
        e[i] *= mu;
    }
}

/* Eq. (10) for `count` samples, in two passes over the models, three of them at a time. The errors
   of the first three are found while the products of the next are computed. */
INLINE void NAME(learn)(REAL *w, const REAL *z, const REAL *y, const REAL *step, int64_t size,
                        int64_t models, const int count)
{
    FOUR g[2], p[4], e[GROUP][4];
    if (count > 1) NAME(gram)(z, size, g, count);
    for (int64_t first = 0; first < models; first += 3 * GROUP) {
        const int64_t left = models - first, here = left < 3 * GROUP ? left : 3 * GROUP;
        REAL *some = w + first * size;
        for (int64_t j = 0; j < here; j += 3) {
            if (here - j >= 3) NAME(products)(some + j * size, z, size, p, 3, count);
            else if (here - j == 2) NAME(products)(some + j * size, z, size, p, 2, count);
            else NAME(products)(some + j * size, z, size, p, 1, count);
            NAME(errors)(p, g, y, step + first + j, e[j / 3], count);
        }
        for (int64_t j = 0; j < here; j += 3) {
            if (here - j >= 3) NAME(add)(some + j * size, z, size, e[j / 3], 3, count);
            else if (here - j == 2) NAME(add)(some + j * size, z, size, e[j / 3], 2, count);
            else NAME(add)(some + j * size, z, size, e[j / 3], 1, count);
        }
    }
}

/* Eq. (10) for one sample of each of `count` clients: rows of w and z belong together. */
void NAME(psofed_learn_rows)(REAL *w, const REAL *z, const REAL *y, double step, REAL *error,
                             int64_t count, int64_t dim)
{
    for (int64_t c = 0; c < count; c++, w += dim, z += dim) {
        VEC a = {0}, b = {0};
        int64_t d = 0;
        for (; d + 2 * LANES <= dim; d += 2 * LANES) {
            a += NAME(load)(w + d) * NAME(load)(z + d);
            b += NAME(load)(w + d + LANES) * NAME(load)(z + d + LANES);
        }
        REAL p = NAME(sum)(a + b);
        for (; d < dim; d++) p += w[d] * z[d];
        error[c] = y[c] - p;
        REAL e = (REAL)step * error[c];
        for (d = 0; d < dim; d++) w[d] += e * z[d];
    }
}

/* Idle learning of client c up to, but not with, sample n. Returns the features of sample n if they
   are wanted: they cost less beside those of the samples before. */
static const REAL *NAME(catch_up)(const NAME(Job) *job, int64_t c, int64_t n, int wanted)
{
    const NAME(Data) *data = &job->data;
    const int64_t size = job->map.size, methods = job->plans.methods, idle = job->plans.idle;
    const int64_t *strides = data->x_strides;
    const REAL *x = data->x + c * strides[0], *y = data->y + c * data->rounds;
    const REAL *step = job->plans.step;
    REAL *w = job->models.local + c * methods * size, *z = job->pad.z;
    int64_t begin = idle ? job->models.position[c] : n;
    job->models.position[c] = n;
    for (;;) {
        const int64_t left = n + wanted - begin, filled = left < BLOCK ? left : BLOCK;
        const int64_t count = n - begin < BLOCK ? n - begin : BLOCK, at = begin - data->first;
        NAME(fill)(&job->map, x + at * strides[1], strides[1], strides[2], filled, z);
        for (int64_t i = 0; i < count;) {
            const REAL *zi = z + i * size, *yi = y + at + i;
            const int64_t rest = count - i;
            int some = rest < 4 ? (int)rest : 4, whole = 1;
            for (int k = 0; k < some; k++) whole &= yi[k] == yi[k];
            if (!whole) some = 1; /* where y is not a number, there is no sample */
            if (some == 4) NAME(learn)(w, zi, yi, step, size, idle, 4);
            else if (some == 3) NAME(learn)(w, zi, yi, step, size, idle, 3);
            else if (some == 2) NAME(learn)(w, zi, yi, step, size, idle, 2);
            else if (*yi == *yi) NAME(learn)(w, zi, yi, step, size, idle, 1);
            i += some;
        }
        begin += count;
        if (filled > count || begin == n + wanted) return z + count * size;
    }
}

/* ---- windows ---- */

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
        const NAME(Window) window = NAME(window)(job, j, c, p, 0);
        for (int64_t m = 0; m < window.shared; m++) {
            const int32_t entry = NAME(entry)(window, m);
            w_k[entry] = w[entry];
        }
    }
}

/* One member's part of the sum in eq. (11), and which entries it touches. */
static void NAME(share)(const NAME(Job) *job, int64_t c, int64_t p, int64_t n)
{
    const NAME(Plans) *plans = &job->plans;
    const int64_t size = job->map.size, dim = plans->dim;
    const REAL *restrict w = job->models.w, *restrict w_k = job->models.local + c * plans->methods * size;
    REAL *restrict change = job->pad.change;
    for (int64_t j = 0; j < plans->methods; j++, w += size, w_k += size, change += size) {
        if (plans->shared[j] == dim) {
            for (int64_t d = 0; d < size; d++) change[d] += w_k[d] - w[d];
            continue;
        }
        const NAME(Window) window = NAME(window)(job, j, c, p, 1);
        for (int64_t m = 0; m < window.shared; m++) {
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

/* ---- the test error: scale |factor^T w - target|^2 + rest ---- */

/* fit += factor^T change, four of the `count` entries that changed at a time. */
static void NAME(follow)(const NAME(Job) *job, REAL *fit, const REAL *change,
                         const int64_t *entries, int64_t count)
{
    const int64_t rows = job->judge.rows;
    for (int64_t k = 0; k < count; k += 4) {
        const REAL *row[4];
        VEC e[4];
        int64_t most = 0;
        for (int i = 0; i < 4; i++) {
            int64_t entry = entries[k + i < count ? k + i : count - 1];
            row[i] = job->judge.factor + entry * rows;
            e[i] = NAME(all)(k + i < count ? change[entry] : 0);
            most = entry > most ? entry : most;
        }
        int64_t end = rows;
        if (job->judge.triangular && (most / PAD + 1) * PAD < end) end = (most / PAD + 1) * PAD;
        for (int64_t d = 0; d < end; d += LANES)
            NAME(store)(fit + d, NAME(load)(fit + d)
                                     + ((e[0] * NAME(load)(row[0] + d) + e[1] * NAME(load)(row[1] + d))
                                        + (e[2] * NAME(load)(row[2] + d) + e[3] * NAME(load)(row[3] + d))));
    }
}

/* The error of one fit, the target moved as far as f has changed. */
static double NAME(error_of)(const NAME(Judge) *judge, const REAL *fit, int64_t mark)
{
    VEC total = {0}, a = NAME(all)(judge->shares[mark]);
    for (int64_t d = 0; d < judge->rows; d += LANES) {
        VEC target = NAME(load)(judge->target + d) + a * NAME(load)(judge->shift + d);
        VEC misfit = NAME(load)(fit + d) - target;
        total += misfit * misfit;
    }
    return judge->scale * (double)NAME(sum)(total) + judge->rest[mark];
}

/* Models whose changes are tracked; computed anew every REFRESH marks, to stop drift. */
static void NAME(judge_followed)(const NAME(Job) *job, int64_t mark)
{
    const NAME(Judge) *judge = &job->judge;
    for (int64_t j = 0; j < job->plans.methods; j++) {
        if (job->plans.dense[j]) continue;
        REAL *fit = job->models.fit + j * judge->rows;
        if (mark % REFRESH == 0) {
            memset(fit, 0, judge->rows * sizeof(REAL));
            NAME(follow)(job, fit, job->models.w + j * job->map.size, job->pad.every, job->plans.dim);
        }
        judge->mse[mark * job->plans.methods + j] = NAME(error_of)(judge, fit, mark);
    }
}

/* fits[k] = factor^T w_k of four models: three vectors of columns at a time stay in registers. */
INLINE void NAME(fit_columns)(const NAME(Job) *job, const REAL *w, int64_t d, REAL *fits,
                              const int wide)
{
    const int64_t size = job->map.size, rows = job->judge.rows;
    VEC sum[4][3] = {0};
    for (int64_t i = job->judge.triangular ? d : 0; i < size; i++) {
        const REAL *row = job->judge.factor + i * rows + d;
        VEC column[3];
        for (int c = 0; c < wide; c++) column[c] = NAME(load)(row + c * LANES);
        for (int k = 0; k < 4; k++) {
            VEC a = NAME(all)(w[k * size + i]);
            for (int c = 0; c < wide; c++) sum[k][c] += a * column[c];
        }
    }
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < wide; c++) NAME(store)(fits + k * rows + d + c * LANES, sum[k][c]);
}

/* The test errors of the models that were held. */
static void NAME(judge_held)(const NAME(Job) *job, int64_t held)
{
    const NAME(Judge) *judge = &job->judge;
    const int64_t size = job->map.size, rows = judge->rows;
    REAL *fits = job->pad.fits;
    for (int64_t h = 0; h < held; h += 4) {
        const REAL *w = job->pad.held + h * size;
        int64_t d = 0;
        for (; d + 3 * LANES <= rows; d += 3 * LANES) NAME(fit_columns)(job, w, d, fits, 3);
        for (; d < rows; d += LANES) NAME(fit_columns)(job, w, d, fits, 1);
        for (int64_t k = h; k < held && k < h + 4; k++) {
            const int64_t mark = job->pad.owner[2 * k], j = job->pad.owner[2 * k + 1];
            judge->mse[mark * job->plans.methods + j] = NAME(error_of)(judge, fits + (k - h) * rows, mark);
        }
    }
}

/* The models at a mark: judged, held to be judged with others, and kept if asked for. */
static int64_t NAME(note)(const NAME(Job) *job, int64_t mark, int64_t held)
{
    const int64_t size = job->map.size, methods = job->plans.methods;
    NAME(judge_followed)(job, mark);
    for (int64_t j = 0; j < methods; j++) {
        const REAL *w = job->models.w + j * size;
        if (job->judge.keep)
            memcpy(job->judge.history + (mark * methods + j) * size, w, size * sizeof(REAL));
        if (!job->plans.dense[j]) continue;
        memcpy(job->pad.held + held * size, w, size * sizeof(REAL));
        job->pad.owner[2 * held] = mark, job->pad.owner[2 * held + 1] = j;
        if (++held == HOLD) NAME(judge_held)(job, held), held = 0;
    }
    return held;
}

/* ---- rounds ---- */

/* Round n of the p-th member: eq. (9), eq. (10), and its share of eq. (11). */
static void NAME(take_part)(const NAME(Job) *job, int64_t p, int64_t n)
{
    const NAME(Data) *data = &job->data;
    const int64_t c = data->members[p], size = job->map.size, methods = job->plans.methods;
    const REAL *z = NAME(catch_up)(job, c, n, 1), *y = data->y + c * data->rounds + n - data->first;
    REAL *w = job->models.local + c * methods * size;
    NAME(receive)(job, c, p);
    if (*y == *y) NAME(learn)(w, z, y, job->plans.step, size, methods, 1);
    NAME(share)(job, c, p, n);
    job->models.position[c] = n + 1;
}

/* Eq. (11): divided by |S_n| for every entry, no matter how many uploaded it. */
static void NAME(fold)(const NAME(Job) *job, int64_t members)
{
    const int64_t size = job->map.size;
    REAL *w = job->models.w, *change = job->pad.change;
    const REAL share = (REAL)1 / (REAL)members;
    for (int64_t j = 0; j < job->plans.methods; j++, w += size, change += size) {
        for (int64_t d = 0; d < size; d++) change[d] *= share, w[d] += change[d];
        if (!job->plans.dense[j])
            NAME(follow)(job, job->models.fit + j * job->judge.rows, change,
                         job->pad.touched + j * (job->plans.dim + 1), job->pad.counts[j]);
        memset(change, 0, size * sizeof(REAL));
        job->pad.counts[j] = 0;
    }
}

/* Eq. (8)-(11) for the rounds of a chunk, judging w_n at each mark n, the chunk's end too.
   Returns the number of the next mark, or -1 if it was told to stop. */
int64_t NAME(psofed_simulate)(const NAME(Job) *job, int64_t mark, const volatile int64_t *stop)
{
    const NAME(Data) *data = &job->data;
    const int64_t end = data->first + data->rounds;
    int64_t held = 0;
    for (int64_t n = data->first; n <= end; n++) {
        if (*stop) return -1;
        if (mark < job->judge.last && job->judge.marks[mark] == n)
            held = NAME(note)(job, mark++, held);
        if (n == end) break;
        const int64_t begin = data->start[n - data->first], last = data->start[n - data->first + 1];
        NAME(shift)(job, n);
        for (int64_t p = begin; p < last; p++) NAME(take_part)(job, p, n);
        if (last > begin) NAME(fold)(job, last - begin);
    }
    NAME(judge_held)(job, held);
    for (int64_t c = 0; c < data->clients; c++)
        if (data->again[c]) NAME(catch_up)(job, c, end, 0);
    return mark;
}

int64_t NAME(psofed_job_size)(void) { return sizeof(NAME(Job)); }

#undef REAL
#undef LANES
#undef TERMS
#undef NAME
#undef VEC
#undef FOUR
#undef BIG
#undef LONG
#undef MASK
#undef INLINE
