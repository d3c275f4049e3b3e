/* The defence "clip" at the fold, which restates defences/clip.py: see there for what it does. */

/* The value at place `at`, by quick selection; `pad` has room for a copy of the values. */
static double NAME(ranked)(const double *values, int64_t count, int64_t at, double *pad)
{
    memcpy(pad, values, count * sizeof(double));
    int64_t low = 0, high = count - 1;
    while (low < high) {
        const double pivot = pad[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (pad[i] < pivot) i++;
            while (pivot < pad[j]) j--;
            if (i <= j) {
                const double other = pad[i];
                pad[i++] = pad[j], pad[j--] = other;
            }
        }
        if (at <= j) high = j;
        else if (at >= i) low = i;
        else break;
    }
    return pad[at];
}

/* The lower median. */
static double NAME(middle)(const double *values, int64_t count, double *pad)
{
    return NAME(ranked)(values, count, (count - 1) / 2, pad);
}

/* The weight for an excess: 1 up to 1, then its square falls, and from OUT on nothing is left. */
INLINE double NAME(fallen)(double far) { return far > 1 ? (far < OUT ? 1 / (far * far) : 0) : 1; }

/* The median of the last sizes above 0 of all clients; 0 while too few of them have had one. */
static double NAME(of_latest)(const NAME(Clip) *guard, int64_t j)
{
    const double *latest = guard->latest + j * guard->rows;
    int64_t known = 0;
    for (int64_t c = 0; c < guard->rows; c++)
        if (latest[c] > 0) guard->some[known++] = latest[c];
    if (known < FEW && known < guard->clients) return 0;
    return NAME(middle)(guard->some, known, guard->values);
}

/* s of method j, after the sizes of a round. */
static double NAME(scaled)(const NAME(Clip) *guard, int64_t j, const double *size, int64_t members)
{
    double *ring = guard->ring + j * RING;
    int64_t count = guard->uploads[j];
    for (int64_t i = 0; i < members; i++) ring[count++ % RING] = size[i];
    guard->uploads[j] = count;
    if (count < FIRST) return 0; /* the first cohort may be malicious as a whole */
    double s = count < RING ? NAME(ranked)(ring, count, (count - 1) / 4, guard->values)
                            : NAME(middle)(ring, RING, guard->values);
    if (!(s > 0)) s = NAME(of_latest)(guard, j);
    if (count > WARM * guard->clients) {
        if (s > 0 && s < guard->least[j]) guard->least[j] = s;
        if (s > CAP * guard->least[j]) s = CAP * guard->least[j];
    }
    return guard->scale[j] = s;
}

/* The directions of method j: the mean of all memories, then those in which they differ most. */
static void NAME(aim)(const NAME(Job) *job, int64_t j)
{
    const NAME(Clip) *guard = &job->guard;
    const int64_t size = job->map.size, methods = job->plans.methods, R = guard->directions;
    const int64_t clients = guard->rows;
    REAL *V = guard->V + j * R * size, *G = guard->G;
    memset(G, 0, R * size * sizeof(REAL));
    for (int64_t c = 0; c < clients; c++) {
        if (!guard->contacts[j * clients + c]) continue;
        const REAL *m = guard->memory + (c * methods + j) * size;
        for (int64_t r = 0; r < R; r++) {
            const REAL a = r ? NAME(product)(m, V + r * size, size) : 1;
            for (int64_t d = 0; d < size; d++) G[r * size + d] += a * m[d];
        }
    }
    for (int64_t r = 0; r < R; r++) {
        REAL *g = G + r * size;
        for (int64_t q = 0; q < r; q++) {
            const REAL a = NAME(product)(g, V + q * size, size);
            for (int64_t d = 0; d < size; d++) g[d] -= a * V[q * size + d];
        }
        const double length = sqrt((double)NAME(product)(g, g, size));
        if (length > 1e-30)
            for (int64_t d = 0; d < size; d++) V[r * size + d] = (REAL)(g[d] / length);
    }
}

/* Who stands outside the others. */
static void NAME(review)(const NAME(Job) *job, int64_t j)
{
    const NAME(Clip) *guard = &job->guard;
    const int64_t size = job->map.size, methods = job->plans.methods, R = guard->directions;
    const int64_t clients = guard->rows;
    double *along = guard->along, *some = guard->some, *rest = guard->left_over;
    REAL *V = guard->V + j * R * size;
    int64_t known = 0;
    NAME(aim)(job, j);
    for (int64_t c = 0; c < clients; c++) {
        if (!guard->contacts[j * clients + c]) continue;
        const REAL *m = guard->memory + (c * methods + j) * size;
        double left = (double)NAME(product)(m, m, size);
        for (int64_t r = 0; r < R; r++) {
            const double a = (double)NAME(product)(m, V + r * size, size);
            along[r * clients + known] = a, left -= a * a;
        }
        rest[known] = left > 0 ? sqrt(left) : 0;
        some[known++] = guard->size[j * clients + c];
    }
    const double usual = NAME(middle)(some, known, guard->values);
    guard->usual[j] = usual < LOWEST ? LOWEST : usual > HIGHEST ? HIGHEST : usual;
    const double rho = NAME(middle)(rest, known, guard->values);
    for (int64_t i = 0; i < known; i++) some[i] = rest[i] / fmax(APART * rho, TINY);
    for (int64_t r = 0; r < R; r++) {
        double *a = along + r * clients, *away = guard->away;
        const double centre = NAME(middle)(a, known, guard->values);
        for (int64_t i = 0; i < known; i++) away[i] = fabs(a[i] - centre);
        double width = 1.4826 * NAME(middle)(away, known, guard->values);
        width = ASIDE * fmax(width, guard->floor * rho);
        for (int64_t i = 0; i < known; i++) some[i] = fmax(some[i], away[i] / fmax(width, TINY));
    }
    for (int64_t c = 0, i = 0; c < clients; c++)
        if (guard->contacts[j * clients + c]) guard->weight[j * clients + c] = NAME(fallen)(some[i++]);
}

/* U_k on the window of method j: its M values, and where they are; nothing where that is all. */
INLINE int64_t NAME(gathered)(const NAME(Job) *job, int64_t j, int64_t p, const REAL *w_k, REAL *U,
                              int32_t *at)
{
    const int64_t size = job->map.size, shared = job->plans.shared[j];
    const REAL *w = job->models.w + j * size;
    if (shared == job->plans.dim) {
        for (int64_t d = 0; d < size; d++) U[d] = w_k[d] - w[d];
        return size;
    }
    const NAME(Window) window = NAME(window)(job, j, job->data.members[p], p, 1);
    for (int64_t m = 0; m < shared; m++) {
        at[m] = NAME(entry)(window, m);
        U[m] = w_k[at[m]] - w[at[m]];
    }
    return shared;
}

/* The part of member i in the sum of eq. (11), after clip and weight; what it did is remembered. */
static void NAME(admit)(const NAME(Job) *job, int64_t j, int64_t c, double ratio, double s, REAL *U,
                        const int32_t *at, int64_t count)
{
    const NAME(Clip) *guard = &job->guard;
    const int64_t size = job->map.size, methods = job->plans.methods, clients = guard->rows;
    const int whole = job->plans.shared[j] == job->plans.dim;
    REAL *m = guard->memory + (c * methods + j) * size, *change = job->pad.change + j * size;
    double *q = guard->size + j * clients + c;
    const double held = ratio < LARGEST ? ratio : LARGEST;
    *q += (guard->contacts[j * clients + c]++ ? SIZES : 1) * (held * held - *q);
    const double weight = guard->weight[j * clients + c] * NAME(fallen)(sqrt(*q / guard->usual[j]) / BIGGEST);
    const double part = ratio > guard->clip ? guard->clip / ratio : 1;
    if (part < 1)
        for (int64_t d = 0; d < count; d++) U[d] = isfinite(U[d]) ? U[d] * (REAL)part : 0;
    const REAL unit = (REAL)(CHANGES / s), kept = (REAL)(1 - CHANGES), a = (REAL)weight;
    if (whole)
        for (int64_t d = 0; d < size; d++) m[d] = kept * m[d] + unit * U[d], change[d] += a * U[d];
    else
        for (int64_t d = 0; d < count; d++) {
            m[at[d]] = kept * m[at[d]] + unit * U[d];
            change[at[d]] += a * U[d];
        }
}

/* Which entries of method j change in round n, for those whose test error is followed. */
static void NAME(note_entries)(const NAME(Job) *job, int64_t j, int64_t n, const int32_t *at, int64_t count)
{
    const int64_t dim = job->plans.dim;
    int64_t *stamp = job->pad.stamp + j * dim, *touched = job->pad.touched + j * (dim + 1);
    int64_t found = job->pad.counts[j];
    for (int64_t m = 0; m < count; m++) {
        touched[found] = at[m];
        found += stamp[at[m]] != n;
        stamp[at[m]] = n;
    }
    job->pad.counts[j] = found;
}

/* Eq. (11) of a round with the defence: `models` are what its members upload from. */
static void NAME(guarded)(const NAME(Job) *job, int64_t begin, int64_t last, int64_t n,
                          const REAL *const *models)
{
    const NAME(Clip) *guard = &job->guard;
    const int64_t size = job->map.size, members = last - begin;
    for (int64_t j = 0; j < job->plans.methods; j++) {
        int64_t count = 0;
        for (int64_t i = 0; i < members; i++) {
            REAL *U = guard->changes + i * size;
            count = NAME(gathered)(job, j, begin + i, models[i] + j * size, U, guard->at + i * size);
            const double square = (double)NAME(product)(U, U, count);
            guard->sizes[i] = square == square ? sqrt(square / job->plans.shared[j]) : INFINITY;
        }
        for (int64_t i = 0; i < members; i++)
            if (guard->sizes[i] > 0)
                guard->latest[j * guard->rows + job->data.members[begin + i]] = guard->sizes[i];
        const double s = NAME(scaled)(guard, j, guard->sizes, members);
        for (int64_t i = 0; i < members; i++) {
            REAL *U = guard->changes + i * size;
            const int32_t *at = guard->at + i * size;
            if (!(s > 0 && guard->sizes[i] > 0)) continue; /* who sends back what it got */
            NAME(admit)(job, j, job->data.members[begin + i], guard->sizes[i] / s, s, U, at, count);
            if (!job->plans.dense[j]) NAME(note_entries)(job, j, n, at, count);
            guard->waiting[j] += 1;
        }
        if (guard->waiting[j] >= guard->often) {
            guard->waiting[j] = 0;
            NAME(review)(job, j);
        }
    }
}
