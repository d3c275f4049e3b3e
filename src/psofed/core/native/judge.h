/* The test error: scale |factor^T w - target|^2 + rest. */

/* fit += factor^T change, four of the `count` entries that changed at a time. */
static void NAME(follow)(const NAME(Job) *job, REAL *fit, const REAL *change,
                         const int64_t *entries, int64_t count)
{
    const int64_t rows = job->judge.rows;
    for (int64_t k = 0; k < count; k += 4) {
        const REAL *row[4];
        REAL e[4];
        int64_t most = 0;
        for (int i = 0; i < 4; i++) {
            int64_t entry = entries[k + i < count ? k + i : count - 1];
            row[i] = job->judge.factor + entry * rows;
            e[i] = k + i < count ? change[entry] : 0;
            most = entry > most ? entry : most;
        }
        int64_t end = rows;
        if (job->judge.triangular && (most / PAD + 1) * PAD < end) end = (most / PAD + 1) * PAD;
        int64_t d = 0;
        for (; d + LONG <= end; d += LONG) {
            BIG a = e[0] * *(const BIG *)(row[0] + d) + e[1] * *(const BIG *)(row[1] + d);
            BIG b = e[2] * *(const BIG *)(row[2] + d) + e[3] * *(const BIG *)(row[3] + d);
            *(BIG *)(fit + d) += a + b;
        }
        for (; d < end; d += LANES) {
            VEC a = e[0] * *(const VEC *)(row[0] + d) + e[1] * *(const VEC *)(row[1] + d);
            VEC b = e[2] * *(const VEC *)(row[2] + d) + e[3] * *(const VEC *)(row[3] + d);
            *(VEC *)(fit + d) += a + b;
        }
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

/* Models whose changes are tracked; recomputed every REFRESH marks, to stop drift. */
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

/* fits[k] = factor^T w_k of TOGETHER models: `wide` vectors of columns at a time stay in registers. */
INLINE void NAME(fit_columns)(const NAME(Job) *job, const REAL *w, int64_t d, REAL *fits,
                              const int wide)
{
    const int64_t size = job->map.size, rows = job->judge.rows;
    VEC sum[TOGETHER][3] = {0};
    for (int64_t i = job->judge.triangular ? d : 0; i < size; i++) {
        const REAL *row = job->judge.factor + i * rows + d;
        VEC column[3];
        for (int c = 0; c < wide; c++) column[c] = NAME(load)(row + c * LANES);
        for (int k = 0; k < TOGETHER; k++) {
            VEC a = NAME(all)(w[k * size + i]);
            for (int c = 0; c < wide; c++) sum[k][c] += a * column[c];
        }
    }
    for (int k = 0; k < TOGETHER; k++)
        for (int c = 0; c < wide; c++) NAME(store)(fits + k * rows + d + c * LANES, sum[k][c]);
}

/* The test errors of the models that were held. */
static void NAME(judge_held)(const NAME(Job) *job, int64_t held)
{
    const NAME(Judge) *judge = &job->judge;
    const int64_t size = job->map.size, rows = judge->rows;
    REAL *fits = job->pad.fits;
    for (int64_t h = 0; h < held; h += TOGETHER) {
        const REAL *w = job->pad.held + h * size;
        int64_t d = 0;
        for (; d + 3 * LANES <= rows; d += 3 * LANES) NAME(fit_columns)(job, w, d, fits, 3);
        for (; d < rows; d += LANES) NAME(fit_columns)(job, w, d, fits, 1);
        for (int64_t k = h; k < held && k < h + TOGETHER; k++) {
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
        const REAL *w = (job->plans.averaged[j] ? job->models.average : job->models.w) + j * size;
        if (job->judge.keep)
            memcpy(job->judge.history + (mark * methods + j) * size, w, size * sizeof(REAL));
        if (!job->plans.dense[j]) continue;
        memcpy(job->pad.held + held * size, w, size * sizeof(REAL));
        job->pad.owner[2 * held] = mark, job->pad.owner[2 * held + 1] = j;
        if (++held == HOLD) NAME(judge_held)(job, held), held = 0;
    }
    return held;
}
