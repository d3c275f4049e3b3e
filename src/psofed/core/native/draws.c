/* Random numbers: those of core/seeds.py, many streams at once, and the AR(1) series of them.

   Every number here has the bits of NumPy's; tests compare them. So nothing is fused. */

#include <math.h>
#include <stdint.h>
#include "ziggurat.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif

enum { ROUNDS = 10, WORDS = 64 };
#define SIZES 0xfffffffffffffu

/* One stream: its keys, its place, and words of it that were made ahead. */
typedef struct {
    uint64_t key[ROUNDS][2], run, client, round, block, words[WORDS];
    int next;
} Stream;

static void begin(Stream *s, uint64_t key0, uint64_t key1)
{
    for (int i = 0; i < ROUNDS; i++) {
        s->key[i][0] = key0 + i * 0x9E3779B97F4A7C15u;
        s->key[i][1] = key1 + i * 0xBB67AE8584CAA73Bu;
    }
}

static void move(Stream *s, uint64_t run, uint64_t client, uint64_t round)
{
    s->run = run, s->client = client, s->round = round;
    s->block = 0, s->next = WORDS; /* NumPy counts before it draws: the first block is number 1 */
}

/* Philox 4x64-10 of Salmon et al. (2011): `count` blocks of four words. They are independent of
   each other, so the processor works on several at once. */
static void philox(Stream *s, uint64_t *out, int count)
{
    for (int b = 0; b < count; b++, out += 4) {
        uint64_t x0 = ++s->block, x1 = s->round, x2 = s->client, x3 = s->run;
        for (int i = 0; i < ROUNDS; i++) {
            unsigned __int128 p = (unsigned __int128)x0 * 0xD2E7470EE14C6C93u;
            unsigned __int128 q = (unsigned __int128)x2 * 0xCA5A826395121157u;
            x0 = (uint64_t)(q >> 64) ^ x1 ^ s->key[i][0], x1 = (uint64_t)q;
            x2 = (uint64_t)(p >> 64) ^ x3 ^ s->key[i][1], x3 = (uint64_t)p;
        }
        out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
    }
}

static inline double unit(uint64_t word) { return (double)(int64_t)(word >> 11) * 0x1p-53; }

static inline uint64_t word(Stream *s)
{
    if (s->next == WORDS) philox(s, s->words, WORDS / 4), s->next = 0;
    return s->words[s->next++];
}

/* `count` numbers in [0, 1) for each item, out [item][count]; places has its run, its client and its
   round: [3][item]. */
void psofed_uniforms(uint64_t key0, uint64_t key1, const uint64_t *places, int64_t items,
                     int64_t count, double *out)
{
    Stream s;
    begin(&s, key0, key1);
    for (int64_t k = 0; k < items; k++) {
        move(&s, places[k], places[items + k], places[2 * items + k]);
        for (int64_t left = count; left > 0;) {
            const int some = left < WORDS ? (int)left : WORDS;
            philox(&s, s.words, (some + 3) / 4);
            for (int i = 0; i < some; i++) *out++ = unit(s.words[i]);
            left -= some;
        }
    }
}

/* Beyond the ziggurat's last layer, by Marsaglia's method. */
static double tail(Stream *s, int negative)
{
    for (;;) {
        const double x = -(1 / EDGE) * log1p(-unit(word(s))), y = -log1p(-unit(word(s)));
        if (y + y > x * x) return negative ? -(EDGE + x) : EDGE + x;
    }
}

/* The signed place in its layer that a word says; 52 bits are its size. */
static inline double place(uint64_t r)
{
    union { double x; uint64_t bits; } number = {(double)(int64_t)(r >> 9 & SIZES) * WIDTH[r & 0xff]};
    number.bits |= r >> 8 << 63;
    return number.x;
}

static inline int is_inside(uint64_t r) { return (r >> 9 & SIZES) < INSIDE[r & 0xff]; }

/* Of a word that is not inside its layer: its place anyway, or one from the words after. */
static double outside(Stream *s, uint64_t r)
{
    for (;; r = word(s)) {
        const int layer = r & 0xff;
        const double x = place(r);
        if (is_inside(r)) return x;
        if (layer == 0) return tail(s, r >> 17 & 1);
        const double height = (HEIGHT[layer - 1] - HEIGHT[layer]) * unit(word(s)) + HEIGHT[layer];
        if (height < exp(-0.5 * x * x)) return x;
    }
}

/* `count` standard normals for each item, by the ziggurat of Marsaglia and Tsang (2000). */
void psofed_normals(uint64_t key0, uint64_t key1, const uint64_t *places, int64_t items,
                    int64_t count, double *out)
{
    Stream s;
    begin(&s, key0, key1);
    for (int64_t k = 0; k < items; k++) {
        move(&s, places[k], places[items + k], places[2 * items + k]);
        for (int64_t i = 0; i < count; i++) {
            const uint64_t r = word(&s);
            *out++ = __builtin_expect(is_inside(r), 1) ? place(r) : outside(&s, r);
        }
    }
}

/* A uniform random subset of 0..population-1 for each row, sorted: Floyd's method. `taken` has a
   bit for each number, all zero. */
void psofed_subsets(const double *uniforms, int64_t rows, int64_t size, int64_t population,
                    uint64_t *taken, int64_t *out)
{
    const int64_t words = (population + 63) / 64;
    for (int64_t r = 0; r < rows; r++, uniforms += size, out += size) {
        for (int64_t j = 0; j < size; j++) {
            const int64_t last = population - size + j;
            int64_t pick = (int64_t)(uniforms[j] * (double)(last + 1));
            if (taken[pick / 64] >> pick % 64 & 1) pick = last;
            taken[pick / 64] |= (uint64_t)1 << pick % 64;
            out[j] = pick;
        }
        if (size * size > words) { /* many: they are in order in the bits */
            for (int64_t i = 0, j = 0; i < words; i++)
                for (; taken[i]; taken[i] &= taken[i] - 1) out[j++] = 64 * i + __builtin_ctzll(taken[i]);
            continue;
        }
        for (int64_t j = 0; j < size; j++) { /* few: each is put in its place */
            const int64_t pick = out[j];
            int64_t i = j;
            for (; i > 0 && out[i - 1] > pick; i--) out[i] = out[i - 1];
            out[i] = pick;
            taken[pick / 64] = 0;
        }
    }
}

/* x_n = theta x_{n-1} + (gain u_n + offset) along each row, from x_0 on, which is there. Rows go
   several at a time, because each waits for its own numbers. */
#define AUTOREGRESS(NAME, REAL)                                                                  \
    void NAME(const REAL *theta, const REAL *gain, const REAL *offset, const REAL *u, REAL *x,   \
              int64_t rows, int64_t count)                                                       \
    {                                                                                            \
        enum { SOME = 4 };                                                                       \
        for (int64_t k = 0; k < rows; k += SOME) {                                               \
            REAL last[SOME];                                                                     \
            int64_t row[SOME];                                                                   \
            for (int i = 0; i < SOME; i++) {                                                     \
                row[i] = k + i < rows ? k + i : rows - 1;                                        \
                last[i] = x[row[i] * count];                                                     \
            }                                                                                    \
            for (int64_t n = 1; n < count; n++)                                                  \
                for (int i = 0; i < SOME; i++) {                                                 \
                    const REAL input = u[row[i] * count + n] * gain[row[i]] + offset[row[i]];    \
                    last[i] = input + theta[row[i]] * last[i];                                   \
                    x[row[i] * count + n] = last[i];                                             \
                }                                                                                \
        }                                                                                        \
    }

AUTOREGRESS(psofed_autoregress_f32, float)
AUTOREGRESS(psofed_autoregress_f64, double)
