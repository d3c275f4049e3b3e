/* The job in C: lazy clients, features by a polynomial, all methods fused on the same features.

   Compiled for one shape: D features (a multiple of 8), TAPS inputs, J methods that learn when idle
   (fewer than 8). One more method shares everything and does not learn when idle: Online-Fed. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX__
#include <immintrin.h>
#define NEAREST(t) ((v8)_mm256_round_ps((__m256)(t), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#else /* adding 1.5 * 2^23 rounds */
#define NEAREST(t) (((t) + 12582912.0f) - 12582912.0f)
#endif

enum { V = D / 8, BLOCK = 4, MODELS = 12, WIDE = 16 };

typedef float v8 __attribute__((vector_size(32), may_alias));
typedef int32_t i8 __attribute__((vector_size(32), may_alias));
typedef int32_t i8u __attribute__((vector_size(32), may_alias, aligned(4)));
#define INLINE static inline __attribute__((always_inline))

/* Loads once and keeps it in a register: the compiler would rather load again for each use. */
INLINE v8 load(const v8 *from)
{
    v8 value = *from;
#ifdef __AVX__
    __asm__("" : "+x"(value));
#endif
    return value;
}

/* ---- features: sqrt(2/D) cos(2 pi t), t in turns ---- */

/* r = t - nearest integer, and cos(2 pi r) = sin(2 pi (1/4 - |r|)) by an odd polynomial. Several
   vectors at a time, stage by stage, so that no stage waits for the one before. */
INLINE void waves(v8 *z, const int count)
{
    static const float c[] = {SCALE * 39.536706727807157, SCALE * -76.549782386454099,
                              SCALE * 81.601004077554929, SCALE * -41.341655031489118,
                              SCALE * 6.2831851600897856};
    v8 s[4], q[4], p[4];
    for (int m = 0; m < count; m++) {
        v8 r = z[m] - NEAREST(z[m]);
        s[m] = 0.25f - (v8)((i8)r & 0x7fffffff);
    }
    for (int m = 0; m < count; m++) q[m] = s[m] * s[m];
    for (int m = 0; m < count; m++) p[m] = q[m] * c[0] + c[1];
    for (int i = 2; i < 5; i++)
        for (int m = 0; m < count; m++) p[m] = p[m] * q[m] + c[i];
    for (int m = 0; m < count; m++) z[m] = s[m] * p[m];
}

/* Phases first, two samples at a time, then cosines: each loop keeps its constants in registers. */
INLINE void fill(const float *x, const v8 *slope, const v8 *offset, v8 *z, const int count)
{
    for (int i = 0; i < count; i += 2) {
        v8 a[2][TAPS];
        for (int l = 0; l < TAPS; l++) {
            a[0][l] = x[i * TAPS + l] - (v8){0};
            a[1][l] = x[(i + (i + 1 < count)) * TAPS + l] - (v8){0};
        }
        for (int v = 0; v < V; v++) {
            v8 first = offset[v], second = first;
            for (int l = 0; l < TAPS; l++) {
                v8 s = load(slope + l * V + v);
                first += a[0][l] * s, second += a[1][l] * s;
            }
            z[i * V + v] = first;
            if (i + 1 < count) z[(i + 1) * V + v] = second;
        }
    }
    int v = 0;
    for (; v + 4 <= count * V; v += 4) waves(z + v, 4);
    for (; v < count * V; v++) waves(z + v, 1);
}

void features(int count, const float *x, const v8 *slope, const v8 *offset, v8 *z)
{
    int i = 0;
    for (; i + BLOCK <= count; i += BLOCK) fill(x + i * TAPS, slope, offset, z + i * V, BLOCK);
    for (; i < count; i++) fill(x + i * TAPS, slope, offset, z + i * V, 1);
}

/* ---- LMS ---- */

/* Sums of pairs: lanes of a and b side by side. */
INLINE v8 pair1(v8 a, v8 b)
{
    return __builtin_shuffle(a, b, (i8){0, 8, 2, 10, 4, 12, 6, 14})
         + __builtin_shuffle(a, b, (i8){1, 9, 3, 11, 5, 13, 7, 15});
}
INLINE v8 pair2(v8 a, v8 b)
{
    return __builtin_shuffle(a, b, (i8){0, 1, 8, 9, 4, 5, 12, 13})
         + __builtin_shuffle(a, b, (i8){2, 3, 10, 11, 6, 7, 14, 15});
}
INLINE v8 pair4(v8 a, v8 b)
{
    return __builtin_shuffle(a, b, (i8){0, 1, 2, 3, 8, 9, 10, 11})
         + __builtin_shuffle(a, b, (i8){4, 5, 6, 7, 12, 13, 14, 15});
}

/* Lane i of the result is the sum of a[i]. */
INLINE v8 sums(const v8 *a)
{
    return pair4(pair2(pair1(a[0], a[1]), pair1(a[2], a[3])),
                 pair2(pair1(a[4], a[5]), pair1(a[6], a[7])));
}

INLINE float dot(const v8 *a, const v8 *b)
{
    v8 even = {0}, odd = {0};
    for (int v = 0; v + 1 < V; v += 2) even += a[v] * b[v], odd += a[v + 1] * b[v + 1];
    if (V % 2) even += a[V - 1] * b[V - 1];
    even += odd;
    float total = 0;
    for (int i = 0; i < 8; i++) total += even[i];
    return total;
}

/* Products of `wide` models with `count` samples; lanes of out[sample][model] are to be summed. */
INLINE void products(const v8 *w, const v8 *z, v8 (*out)[8], const int wide, const int count)
{
    v8 sum[3][BLOCK] = {0};
    for (int v = 0; v < V; v++) {
        v8 model[3];
        for (int j = 0; j < wide; j++) model[j] = load(w + j * V + v);
        for (int i = 0; i < count; i++) {
            v8 sample = load(z + i * V + v);
            for (int j = 0; j < wide; j++) sum[j][i] += model[j] * sample;
        }
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < wide; j++) out[i][j] = sum[j][i];
}

/* w_j += sum_i e[i][j] z_i for `wide` models. */
INLINE void add(v8 *w, const v8 *z, const float *e, const int wide, const int count)
{
    v8 scaled[3][BLOCK];
    for (int j = 0; j < wide; j++)
        for (int i = 0; i < count; i++) scaled[j][i] = e[8 * i + j] - (v8){0};
    for (int v = 0; v < V; v++) {
        v8 model[3];
        for (int j = 0; j < wide; j++) model[j] = w[j * V + v];
        for (int i = 0; i < count; i++) {
            v8 sample = load(z + i * V + v);
            for (int j = 0; j < wide; j++) model[j] += scaled[j][i] * sample;
        }
        for (int j = 0; j < wide; j++) w[j * V + v] = model[j];
    }
}

/* z_i^T z_k for k < i: (1,0), (2,0), (2,1), (3,0), ... */
INLINE v8 gram(const v8 *z, const int count)
{
    v8 sum[8] = {0};
    for (int v = 0; v < V; v++) {
        v8 sample[BLOCK];
        for (int i = 0; i < count; i++) sample[i] = load(z + i * V + v);
        for (int i = 1, m = 0; i < count; i++)
            for (int k = 0; k < i; k++, m++) sum[m] += sample[i] * sample[k];
    }
    return count > 1 ? sums(sum) : sum[0];
}

/* `count` steps of LMS for all J models in two passes over them. The error of a sample depends on
   the earlier ones only through z^T z: e_1 = mu (y_1 - w^T z_1 - e_0 z_0^T z_1), and so on.
   Lanes of e are methods. */
INLINE void learn(v8 *w, const v8 *z, const float *y, v8 step, const int count)
{
    v8 partial[BLOCK][8], e[BLOCK], g = gram(z, count);
    for (int j = 0; j < J; j += 3)
        products(w + j * V, z, (v8(*)[8])(partial[0] + j), J - j < 3 ? J - j : 3, count);
    for (int i = 0, m = 0; i < count; i++) {
        for (int j = J; j < 8; j++) partial[i][j] = (v8){0};
        v8 error = y[i] - sums(partial[i]);
        for (int k = 0; k < i; k++, m++) error -= e[k] * g[m];
        e[i] = step * error;
    }
    for (int j = 0; j < J; j += 3)
        add(w + j * V, z, (float *)e + j, J - j < 3 ? J - j : 3, count);
}

/* ---- one run ---- */

typedef struct {
    int K, N, cohort;
    const float *x, *y;       /* [K][N][TAPS], [K][N] */
    const v8 *slope, *offset; /* [TAPS][D], [D], in turns */
    const int32_t *members;   /* [N][cohort] */
    const float *step;        /* [8]: of the J methods, then of Online-Fed at [J] */
    const int32_t *shared, *shift, *common, *sparse; /* [J] */
    const int32_t *const *start;                     /* [J] -> [K or 1][M] */
    const v8 *R, *r; /* [D][D], [D]: moments of the test set */
    double power;
    double *mse; /* [J + 1][N + 1] */
} Job;

/* Idle learning of client k on samples from..to-1; returns the features of sample `to`. */
static const v8 *catch_up(const Job *job, v8 *w, int k, int from, int to, v8 step, v8 *z)
{
    const float *x = job->x + (size_t)k * job->N * TAPS, *y = job->y + (size_t)k * job->N;
    const v8 *slope = job->slope, *offset = job->offset;
    int n = from;
    for (; n + BLOCK <= to; n += BLOCK) {
        fill(x + n * TAPS, slope, offset, z, BLOCK);
        learn(w, z, y + n, step, BLOCK);
    }
    switch (to - n) { /* constants, so that each case is unrolled */
    case 3: fill(x + n * TAPS, slope, offset, z, 4); learn(w, z, y + n, step, 3); break;
    case 2: fill(x + n * TAPS, slope, offset, z, 3); learn(w, z, y + n, step, 2); break;
    case 1: fill(x + n * TAPS, slope, offset, z, 2); learn(w, z, y + n, step, 1); break;
    case 0: fill(x + n * TAPS, slope, offset, z, 1); break;
    }
    return z + (to - n) * V;
}

typedef struct {
    float w[J + 1][D], change[J + 1][D];
    float slope[J][D]; /* R w - r, half the gradient of the test error, of sparse methods */
    float recent[J + 1][MODELS][D]; /* models that wait for their test error, of the others */
    int32_t *mask[J]; /* windows of more than WIDE entries as [K or 1][2 D], else NULL */
} __attribute__((aligned(64))) Server;

/* S_{k,n} of method j: its positions go to `out`. */
INLINE int window(const Job *job, int j, int k, int n, int32_t *out)
{
    int shared = job->shared[j], shift = (int)((int64_t)job->shift[j] * n % D);
    const int32_t *start = job->start[j] + (job->common[j] ? 0 : k * shared);
    for (int m = 0; m < shared; m++) {
        int i = start[m] + shift;
        out[m] = i < D ? i : i - D;
    }
    return shared;
}

/* The same as -1 or 0 for each entry: S_{k,0} written twice, read from the middle. */
INLINE const i8u *wide_window(const Job *job, const Server *server, int j, int k, int n)
{
    int shift = (int)((int64_t)job->shift[j] * n % D);
    return (const i8u *)(server->mask[j] + (job->common[j] ? 0 : (size_t)k * 2 * D) + D - shift);
}

INLINE v8 where(i8u mask, v8 yes, v8 no) { return (v8)(((i8)yes & mask) | ((i8)no & ~mask)); }

static void download(const Job *job, const Server *server, int j, float *local, int k, int n)
{
    const float *w = server->w[j];
    if (server->mask[j]) {
        const i8u *mask = wide_window(job, server, j, k, n);
        for (int v = 0; v < V; v++)
            ((v8 *)local)[v] = where(mask[v], ((v8 *)w)[v], ((v8 *)local)[v]);
        return;
    }
    int32_t at[WIDE];
    for (int m = window(job, j, k, n, at) - 1; m >= 0; m--) local[at[m]] = w[at[m]];
}

static void upload(const Job *job, Server *server, int j, const float *local, int k, int n)
{
    float *w = server->w[j], *change = server->change[j];
    if (server->mask[j]) {
        const i8u *mask = wide_window(job, server, j, k, n);
        for (int v = 0; v < V; v++)
            ((v8 *)change)[v] += where(mask[v], ((v8 *)local)[v] - ((v8 *)w)[v], (v8){0});
        return;
    }
    int32_t at[WIDE];
    for (int m = window(job, j, k, n, at) - 1; m >= 0; m--)
        change[at[m]] += local[at[m]] - w[at[m]];
}

/* Client k takes part in round n: download, learn, upload. */
static void take_part(const Job *job, Server *server, float *local, int k, int n, const v8 *z,
                      v8 step)
{
    float y = job->y[(size_t)k * job->N + n];
    for (int j = 0; j < J; j++) download(job, server, j, local + j * D, k, n);
    learn((v8 *)local, z, &y, step, 1);
    for (int j = 0; j < J; j++) upload(job, server, j, local + j * D, k, n + 1);
    float scaled = job->step[J] * (y - dot((v8 *)server->w[J], z));
    for (int v = 0; v < V; v++) ((v8 *)server->change[J])[v] += scaled * z[v];
}

/* Eq. (11) where few entries changed: the test error follows from their rows of R alone. */
static double fold_sparse(const Job *job, Server *server, int j, int n)
{
    float *w = server->w[j], *change = server->change[j], share = 1.0f / job->cohort;
    v8 *slope = (v8 *)server->slope[j];
    int32_t at[D], used[D];
    float delta[D];
    int count = 0;
    for (int c = 0; c < (job->common[j] ? 1 : job->cohort); c++) {
        int k = job->members[n * job->cohort + c];
        for (int m = window(job, j, k, n + 1, at) - 1; m >= 0; m--) {
            float d = change[at[m]] * share;
            if (d == 0) continue; /* two members uploaded it, and it is done */
            change[at[m]] = 0, w[at[m]] += d;
            used[count] = at[m], delta[count++] = d;
        }
    }
    double difference = 0; /* of the quadratic form: delta^T (slope before + slope after) */
    for (int m = 0; m < count; m++) difference += delta[m] * server->slope[j][used[m]];
    int m = 0;
    for (; m + 4 <= count; m += 4) {
        const v8 *a = job->R + used[m] * V, *b = job->R + used[m + 1] * V;
        const v8 *c = job->R + used[m + 2] * V, *d = job->R + used[m + 3] * V;
        const float *e = delta + m;
        for (int v = 0; v < V; v++)
            slope[v] += e[0] * a[v] + e[1] * b[v] + e[2] * c[v] + e[3] * d[v];
    }
    for (; m < count; m++)
        for (int v = 0; v < V; v++) slope[v] += delta[m] * job->R[used[m] * V + v];
    for (m = 0; m < count; m++) difference += delta[m] * server->slope[j][used[m]];
    return difference;
}

static void fold_dense(const Job *job, Server *server, int j)
{
    v8 *w = (v8 *)server->w[j], *change = (v8 *)server->change[j];
    for (int v = 0; v < V; v++) w[v] += change[v] * (1.0f / job->cohort), change[v] = (v8){0};
}

/* w^T R w for MODELS models at once, with half of R: column blocks of 8, on and below the diagonal;
   what is above it is counted by doubling. */
INLINE void quadratic(const float *w, const v8 *half, float *out)
{
    v8 total[MODELS] = {0};
    for (int c = 0; c < V; c++) {
        v8 sum[MODELS] = {0};
        for (int d = 8 * c; d < D; d++, half++)
            for (int m = 0; m < MODELS; m++) sum[m] += w[m * D + d] * *half;
        for (int m = 0; m < MODELS; m++) total[m] += sum[m] * *(v8 *)(w + m * D + 8 * c);
    }
    for (int m = 0; m < MODELS; m++) {
        out[m] = 0;
        for (int i = 0; i < 8; i++) out[m] += total[m][i];
    }
}

/* The test error of `count` models of which any entry may have changed. */
static void judge(const Job *job, const v8 *half, const float *w, double *mse, int count)
{
    float out[MODELS];
    quadratic(w, half, out);
    for (int m = 0; m < count; m++)
        mse[m] = out[m] - 2 * dot((v8 *)(w + m * D), job->r) + job->power;
}

/* R as `quadratic` reads it. */
static void pack(const v8 *R, v8 *half)
{
    for (int c = 0; c < V; c++)
        for (int d = 8 * c; d < D; d++, half++)
            *half = R[d * V + c] * (d < 8 * c + 8 ? 1.0f : 2.0f);
}

static void *zeros(size_t bytes)
{
    bytes = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

/* The test error before round n: known at once, or as soon as enough models wait for theirs. */
static void note(const Job *job, Server *server, const v8 *half, const double *error, int n)
{
    int waiting = n % MODELS + 1;
    for (int j = 0; j <= J; j++) {
        double *mse = job->mse + (size_t)j * (job->N + 1) + n;
        if (j < J && job->sparse[j]) {
            *mse = error[j];
            continue;
        }
        memcpy(server->recent[j][waiting - 1], server->w[j], D * sizeof(float));
        if (waiting == MODELS || n == job->N)
            judge(job, half, server->recent[j][0], mse - waiting + 1, waiting);
    }
}

static int32_t *masks(const Job *job, int j)
{
    int rows = job->common[j] ? 1 : job->K, shared = job->shared[j];
    int32_t *mask = zeros((size_t)rows * 2 * D * sizeof *mask);
    for (int m = 0; mask && m < rows * shared; m++) {
        int32_t *row = mask + (size_t)(m / shared) * 2 * D + job->start[j][m];
        row[0] = row[D] = -1;
    }
    return mask;
}

int simulate(const Job *job)
{
    Server *server = zeros(sizeof *server);
    float *local = zeros((size_t)job->K * J * D * sizeof *local);
    int *next = zeros(job->K * sizeof *next);
    v8 *half = zeros((size_t)V * D * sizeof *half), z[(BLOCK + 1) * V], step;
    if (!server || !local || !next || !half) return 1;
    memcpy(&step, job->step, sizeof step);
    pack(job->R, half);
    double error[J];
    for (int j = 0; j < J; j++) {
        error[j] = job->power;
        if (job->shared[j] > WIDE && !(server->mask[j] = masks(job, j))) return 1;
        for (int v = 0; v < V; v++) ((v8 *)server->slope[j])[v] = -job->r[v];
    }
    for (int n = 0; n < job->N; n++) {
        note(job, server, half, error, n);
        for (int c = 0; c < job->cohort; c++) {
            int k = job->members[n * job->cohort + c];
            float *w = local + (size_t)k * J * D;
            const v8 *last = catch_up(job, (v8 *)w, k, next[k], n, step, z);
            take_part(job, server, w, k, n, last, step);
            next[k] = n + 1;
        }
        for (int j = 0; j <= J; j++)
            if (j < J && job->sparse[j]) error[j] += fold_sparse(job, server, j, n);
            else fold_dense(job, server, j);
    }
    note(job, server, half, error, job->N);
    for (int j = 0; j < J; j++) free(server->mask[j]);
    free(server), free(local), free(next), free(half);
    return 0;
}
