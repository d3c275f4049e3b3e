/* Rounds for samples that are given as features, in one precision; see stretch.c. */

/* LMS of client c, if it has a label. */
INLINE void NAME(own_step)(const NAME(Stretch) *job, int64_t i, int64_t c)
{
    const int64_t dim = job->dim, at = i * job->clients + c;
    const REAL y = job->y[at], *z = job->known + at * dim;
    REAL *w = job->local + c * dim;
    if (y != y) return;
    NAME(step)(w, z, (REAL)job->step * (y - NAME(product)(w, z, dim)), dim);
}

/* Eq. (11): w += sum_k a_k S_k (w_k - w), each entry of w rounded once. */
static void NAME(close)(const NAME(Stretch) *job, const int64_t *members, int64_t count,
                        const int64_t *up)
{
    const int64_t each = job->shared;
    const REAL share = (REAL)(1.0 / (double)count);
    for (int64_t p = 0; p < count; p++) {
        const REAL *own = job->local + members[p] * job->dim;
        for (int64_t m = 0; m < each; m++) {
            const int64_t d = up[p * each + m];
            job->total[d] += share * (own[d] - job->w[d]);
        }
    }
    for (int64_t m = 0; m < count * each; m++) {
        job->w[up[m]] = (REAL)(job->w[up[m]] + job->total[up[m]]);
        job->total[up[m]] = 0; /* an entry that occurs again adds nothing */
    }
}

/* Eq. (5) and (10) at the server: w += mu sum_k a_k e_k z_k, with the samples of the members. */
static void NAME(pool)(const NAME(Stretch) *job, const int64_t *members, int64_t count, int64_t i)
{
    const int64_t dim = job->dim;
    const REAL share = (REAL)(1.0 / (double)count);
    for (int64_t p = 0; p < count; p++) {
        const int64_t at = i * job->clients + members[p];
        const REAL *z = job->known + at * dim;
        const REAL e = share * (job->y[at] - NAME(product)(job->w, z, dim));
        for (int64_t d = 0; d < dim; d++) job->total[d] += (REAL)job->step * e * z[d];
    }
    for (int64_t d = 0; d < dim; d++)
        job->w[d] = (REAL)(job->w[d] + job->total[d]), job->total[d] = 0;
}

/* Predict, exchange and learn, round by round. */
void NAME(psofed_stretch)(const NAME(Stretch) *job)
{
    const int64_t dim = job->dim, each = job->shared, *down = job->down, *up = job->up;
    for (int64_t i = 0; i < job->rounds; i++) {
        const int64_t *members = job->members + job->start[i];
        const int64_t count = job->start[i + 1] - job->start[i];
        for (int64_t c = 0; c < job->clients; c++) {
            const int64_t at = i * job->clients + c;
            job->of_server[at] = NAME(product)(job->w, job->fresh + at * dim, dim);
            job->of_client[at] = NAME(product)(job->local + c * dim, job->fresh + at * dim, dim);
        }
        if (job->what[i] & POOLS) {
            if (count) NAME(pool)(job, members, count, i);
            continue;
        }
        if (job->what[i] & OPENS) /* eq. (9) */
            for (int64_t p = 0; p < count; p++, down += each)
                for (int64_t m = 0; m < each; m++)
                    job->local[members[p] * dim + down[m]] = job->w[down[m]];
        if (job->what[i] & IDLE)
            for (int64_t c = 0; c < job->clients; c++) NAME(own_step)(job, i, c);
        else
            for (int64_t p = 0; p < count; p++) NAME(own_step)(job, i, members[p]);
        if (job->what[i] & CLOSES && count)
            NAME(close)(job, members, count, up), up += count * each;
    }
}
