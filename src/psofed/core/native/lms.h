/* LMS of several models and samples at once. */

/* Products of `wide` models with `count` samples: lane j of out[i] is w_j^T z_i. */
INLINE void NAME(products)(const REAL *w, const REAL *z, int64_t size, FOUR *out, const int wide,
                           const int count)
{
    VEC sum[4][4] = {0};
    for (int64_t d = 0; d < size; d += LANES) {
        VEC model[4];
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
    BIG scaled[4][4];
    for (int i = 0; i < count; i++)
        for (int j = 0; j < wide; j++) scaled[i][j] = e[i][j] - (BIG){0};
    int64_t d = 0;
    for (; d + LONG <= size; d += LONG) {
        BIG model[4];
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
   the earlier ones only through z^T z, which all models share. `gain`, if any, multiplies mu. */
INLINE void NAME(errors)(const FOUR *p, const FOUR *g, const REAL *y, const REAL *step,
                         const REAL *gain, FOUR *e, const int count)
{
    const FOUR mu = *(const FOUR *)step;
    for (int i = 0, m = 0; i < count; i++) {
        e[i] = y[i] - p[i];
        for (int k = 0; k < i; k++, m++) e[i] -= e[k] * g[m / 4][m % 4];
        e[i] *= mu;
        if (gain) e[i] *= gain[i];
    }
}

/* Eq. (10) for `count` samples, in two passes over the models, some of them at a time. The errors of
   the first are found while the products of the next are computed. */
INLINE void NAME(learn)(REAL *w, const REAL *z, const REAL *y, const REAL *step, const REAL *gain,
                        int64_t size, int64_t models, const int count)
{
    const int wide = count == 1 ? 4 : 3; /* as registers allow */
    FOUR g[2], p[4], e[GROUP][4];
    if (count > 1) NAME(gram)(z, size, g, count);
    while (models > 0) {
        const int64_t here = models < wide * GROUP ? models : wide * GROUP;
        for (int64_t j = 0; j < here; j += wide) {
            const REAL *some = w + j * size;
            if (here - j >= wide) NAME(products)(some, z, size, p, wide, count);
            else if (here - j == 3) NAME(products)(some, z, size, p, 3, count);
            else if (here - j == 2) NAME(products)(some, z, size, p, 2, count);
            else NAME(products)(some, z, size, p, 1, count);
            NAME(errors)(p, g, y, step + j, gain, e[j / wide], count);
        }
        for (int64_t j = 0; j < here; j += wide) {
            REAL *some = w + j * size;
            if (here - j >= wide) NAME(add)(some, z, size, e[j / wide], wide, count);
            else if (here - j == 3) NAME(add)(some, z, size, e[j / wide], 3, count);
            else if (here - j == 2) NAME(add)(some, z, size, e[j / wide], 2, count);
            else NAME(add)(some, z, size, e[j / wide], 1, count);
        }
        models -= here, w += here * size, step += here;
    }
}

/* By what normalised LMS multiplies the step: 1 / (epsilon + |z|^2). */
INLINE REAL NAME(gain)(const REAL *z, double epsilon, int64_t size)
{
    return 1 / ((REAL)epsilon + NAME(product)(z, z, size));
}

/* LMS with one sample of each of `count` clients: rows of w and z belong together, and `each`
   clients in a row have the same step. With an epsilon above 0 it is normalised LMS. */
void NAME(psofed_learn_rows)(REAL *w, const REAL *z, const REAL *y, const double *steps,
                             int64_t each, double epsilon, REAL *error, int64_t count, int64_t dim)
{
    for (int64_t c = 0; c < count; c++, w += dim, z += dim) {
        error[c] = y[c] - NAME(product)(w, z, dim);
        REAL e = (REAL)steps[c / each] * error[c];
        if (epsilon > 0) e *= NAME(gain)(z, epsilon, dim);
        NAME(step)(w, z, e, dim);
    }
}

/* Idle learning of client c up to, but not with, sample n. Returns the features of sample n if they
   are wanted: they cost less together with those of the samples before. */
static const REAL *NAME(catch_up)(const NAME(Job) *job, int64_t c, int64_t n, int wanted)
{
    const NAME(Data) *data = &job->data;
    const int64_t size = job->map.size, methods = job->plans.methods, idle = job->plans.idle;
    const int64_t *strides = data->x_strides;
    const REAL *x = data->x + c * strides[0], *y = data->y + c * data->rounds;
    const REAL *step = job->plans.step;
    const double epsilon = job->plans.epsilon;
    REAL gains[BLOCK];
    REAL *w = job->models.local + c * methods * size, *z = job->pad.z;
    int64_t begin = idle ? job->models.position[c] : n;
    job->models.position[c] = n;
    for (;;) {
        const int64_t left = n + wanted - begin, filled = left < BLOCK ? left : BLOCK;
        const int64_t count = n - begin < BLOCK ? n - begin : BLOCK, at = begin - data->first;
        NAME(fill)(&job->map, x + at * strides[1], strides[1], strides[2], filled, z);
        if (epsilon > 0)
            for (int64_t i = 0; i < count; i++) gains[i] = NAME(gain)(z + i * size, epsilon, size);
        for (int64_t i = 0; i < count;) {
            const REAL *zi = z + i * size, *yi = y + at + i, *gain = epsilon > 0 ? gains + i : 0;
            const int64_t rest = count - i;
            int some = rest < 4 ? (int)rest : 4, whole = 1;
            for (int k = 0; k < some; k++) whole &= yi[k] == yi[k];
            if (!whole) some = 1; /* where y is not a number, there is no sample */
            if (some == 4) NAME(learn)(w, zi, yi, step, gain, size, idle, 4);
            else if (some == 3) NAME(learn)(w, zi, yi, step, gain, size, idle, 3);
            else if (some == 2) NAME(learn)(w, zi, yi, step, gain, size, idle, 2);
            else if (*yi == *yi) NAME(learn)(w, zi, yi, step, gain, size, idle, 1);
            i += some;
        }
        begin += count;
        if (filled > count || begin == n + wanted) return z + count * size;
    }
}
