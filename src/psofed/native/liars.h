/* Malicious members of a round: what they upload, by the equation of attacks/contract.py. */

/* The models of the p-th member, [method][feature]. */
INLINE REAL *NAME(models_of)(const NAME(Job) *job, int64_t p)
{
    return job->models.local + job->data.members[p] * job->plans.methods * job->map.size;
}

/* m and s: mean and standard deviation of the honest members' models; of all, if all are bad. */
static void NAME(look_around)(const NAME(Job) *job, int64_t begin, int64_t last, int all)
{
    const NAME(Liars) *liars = &job->liars;
    const int64_t numbers = job->plans.methods * job->map.size;
    REAL *m = liars->middle, *s = liars->around, count = 0;
    if (liars->mean == 0 && liars->spread == 0) return;
    memset(m, 0, numbers * sizeof(REAL));
    memset(s, 0, numbers * sizeof(REAL));
    for (int64_t p = begin; p < last; p++) count += all || liars->at[p] < 0;
    for (int64_t p = begin; p < last; p++) {
        const REAL *w = NAME(models_of)(job, p);
        if (all || liars->at[p] < 0)
            for (int64_t d = 0; d < numbers; d++) m[d] += w[d] / count;
    }
    for (int64_t p = begin; p < last; p++) {
        const REAL *w = NAME(models_of)(job, p);
        if (all || liars->at[p] < 0)
            for (int64_t d = 0; d < numbers; d++) s[d] += (w[d] - m[d]) * (w[d] - m[d]) / count;
    }
    for (int64_t d = 0; d < numbers; d++) s[d] = (REAL)sqrt(s[d]);
}

/* What the p-th member uploads from, the i-th of its round: its models or, if it is malicious, v. */
static const REAL *NAME(uploaded)(const NAME(Job) *job, int64_t p, int64_t i)
{
    const NAME(Liars) *liars = &job->liars;
    const REAL *w_k = NAME(models_of)(job, p), *w = job->models.w;
    if (!liars->rows || liars->at[p] < 0) return w_k;
    const int64_t size = job->map.size;
    const REAL *offset = liars->offset + liars->at[p] * size, *m = liars->middle, *s = liars->around;
    const REAL own = (REAL)liars->own, server = (REAL)liars->server, mean = (REAL)liars->mean,
               spread = (REAL)liars->spread;
    REAL *v = liars->sent + i * job->plans.methods * size, *sent = v;
    for (int64_t j = 0; j < job->plans.methods; j++, v += size, w_k += size, w += size, m += size, s += size)
        for (int64_t d = 0; d < size; d++) {
            v[d] = own * w_k[d] + offset[d];
            if (server != 0) v[d] += server * w[d];
            if (mean != 0 || spread != 0) v[d] += mean * m[d] + spread * s[d];
        }
    return sent;
}
