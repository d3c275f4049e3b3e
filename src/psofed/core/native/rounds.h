/* Rounds: eq. (8)-(11). */

/* Round n of the p-th member: eq. (9), then its samples. Returns its models. */
static REAL *NAME(take_part)(const NAME(Job) *job, int64_t p, int64_t n)
{
    const NAME(Data) *data = &job->data;
    const int64_t c = data->members[p], size = job->map.size, methods = job->plans.methods;
    const REAL *z = NAME(catch_up)(job, c, n, 1), *y = data->y + c * data->rounds + n - data->first;
    REAL *w = job->models.local + c * methods * size;
    NAME(receive)(job, c, p);
    const double epsilon = job->plans.epsilon;
    const REAL gain = epsilon > 0 ? NAME(gain)(z, epsilon, size) : 1;
    if (*y == *y)
        NAME(learn)(w, z, y, job->plans.step, epsilon > 0 ? &gain : 0, size, methods, 1);
    job->models.position[c] = n + 1;
    return w;
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

/* v += (w - v) 4 / (n + 4), for the methods that are judged by it: see
   stages/average.py. */
static void NAME(average)(const NAME(Job) *job, int64_t n)
{
    const int64_t size = job->map.size;
    const REAL weight = (REAL)(4.0 / (double)(n + 4));
    for (int64_t j = 0; j < job->plans.methods; j++) {
        if (!job->plans.averaged[j]) continue;
        const REAL *w = job->models.w + j * size;
        REAL *v = job->models.average + j * size;
        for (int64_t d = 0; d < size; d++) v[d] += (w[d] - v[d]) * weight;
    }
}

/* The rounds of a chunk, judging w_n at each mark n, the chunk's end too.
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
        for (int64_t p = begin; p < last; p++)
            NAME(share)(job, data->members[p], p, n, NAME(take_part)(job, p, n));
        if (last > begin) NAME(fold)(job, last - begin);
        NAME(average)(job, n);
    }
    NAME(judge_held)(job, held);
    for (int64_t c = 0; c < data->clients; c++)
        if (data->again[c]) NAME(catch_up)(job, c, end, 0);
    return mark;
}
