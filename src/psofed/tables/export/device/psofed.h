/* A client of PSO-Fed or Online-Fed for microcontrollers: C99, float32, no allocation, no library.

       #include "config.h"    what this client needs to know, and its features: see main.c
       #include "psofed.h"

       static psofed_client me;
       psofed_begin(&me);                          or psofed_load(&me, &flash)
       y = psofed_predict(&me, x);
       psofed_learn(&me, x, y);                    eq. (10), if the sample passes the check
       psofed_receive(&me, frame, length);         eq. (9), with the last frame of a window
       psofed_upload(&me, part, frame);            what travels in eq. (11), frame by frame
       psofed_hello(&me, frame);                   after each start, how far it is

   A frame is at most PSOFED_FRAME bytes: a byte with the number of the part, and PSOFED_FRESH for a
   client that starts over, or a hello; three bytes with the round n; then values. In round n a
   client receives window n, learns from sample n, if there is one, and uploads window n + 1; in
   blocks of PSOFED_PACE rounds, it uploads after as many samples. On a live clock samples come at
   any time, so it uploads at once, and says with two more bytes, its signs, what it has learned.

   psofed_pack and psofed_byte carry frames over a serial line.

   Compile it with -ffp-contract=off, or the last bits depend on the compiler. */
#ifndef PSOFED_H
#define PSOFED_H

#include <stddef.h>
#include <stdint.h>

#define PSOFED_HEAD 4                                      /* bytes before the values */
#define PSOFED_EACH ((PSOFED_FRAME - PSOFED_HEAD) / PSOFED_WIRE) /* values in a frame */
#define PSOFED_PARTS(values) (((values) + PSOFED_EACH - 1) / PSOFED_EACH)
#define PSOFED_ROOM (PSOFED_EACH * PSOFED_WIRE)
#define PSOFED_ANSWERS /* frames of an answer */ \
    ((PSOFED_SHARED * PSOFED_WIRE + PSOFED_SIGNS + PSOFED_ROOM - 1) / PSOFED_ROOM)
#define PSOFED_MOST_PARTS 128
#define PSOFED_FRESH 0x80
#define PSOFED_WHOLE(fresh) ((fresh) && PSOFED_IDLE) /* whether all of w comes down */
#define PSOFED_NEVER UINT32_MAX
#define PSOFED_BIGGEST 3.4028235e38f

/* What becomes of a sample; all but the first two are not learned from. */
enum {
    PSOFED_LEARNED, PSOFED_CLIPPED, PSOFED_EARLY, PSOFED_BROKEN, PSOFED_OUTSIDE, PSOFED_FAR,
    PSOFED_STUCK, PSOFED_VERDICTS
};

/* What becomes of a frame. Negative: it is refused, and nothing has changed. */
enum {
    PSOFED_MORE = 0,   /* other frames of the window are to come */
    PSOFED_OPEN = 1,   /* the window is here: learn from the sample of this round, then upload */
    PSOFED_AGAIN = 2,  /* this round has been answered: upload the same once more */
    PSOFED_SIZE = -1,  /* another length, or a part that there is not */
    PSOFED_LATE = -2,  /* of a round before the last one that was answered */
    PSOFED_VALUE = -3  /* a value that is not finite, or too large */
};

typedef struct {
    float w[PSOFED_DIM];         /* w_k */
    float values[PSOFED_SHARED]; /* the window that comes down; once answered, the one that goes up */
    uint32_t round;              /* to which they belong */
    uint32_t last;               /* the last one that was answered */
    uint32_t since;              /* samples since the window came */
    uint32_t come[PSOFED_MOST_PARTS / 32]; /* parts that have come, a bit each */
    uint32_t counts[PSOFED_VERDICTS];      /* samples by verdict */
    float label;                           /* the last one */
    uint8_t fresh, open, answered;
#if PSOFED_SIGNS
    uint8_t signs[PSOFED_SIGNS]; /* of the last answer */
    uint32_t told[2];            /* samples that were learned, and others, as answers have said */
#endif
#if PSOFED_CHECK == 2
    float errors[PSOFED_WINDOW]; /* the last ones, as a ring */
    float sample[PSOFED_INPUTS + 1];
    uint32_t judged, again;
#endif
#if PSOFED_MIX
    float memory[2][3]; /* of w_k and of the last label: L, V, the largest |r| */
#endif
    float z[PSOFED_DIM]; /* the features of one sample: not saved, so the last */
} psofed_client;

/* cos(2 pi t) = sin(2 pi (1/4 - |t - nearest integer|)), by an odd polynomial. */
static inline float psofed_wave(float t)
{
    float s, q;
    if (!(t < 8388608.0f && t > -8388608.0f)) t = 0.0f; /* from there on, all floats are integers */
    t -= (float)(int32_t)t;
    t = t < 0.0f ? -t : t;
    s = 0.25f - (t > 0.5f ? 1.0f - t : t);
    q = s * s;
    return s * ((((PSOFED_SINE4 * q + PSOFED_SINE3) * q + PSOFED_SINE2) * q + PSOFED_SINE1) * q
                + PSOFED_SINE0);
}

/* Eq. (2): z = sqrt(2/D) cos(W x + b), and w^T z. */
static inline float psofed_features(psofed_client *me, const float *x)
{
    float sum = 0.0f;
    for (int d = 0; d < PSOFED_DIM; d++) {
        float t = psofed_offset[d];
        for (int l = 0; l < PSOFED_INPUTS; l++) t += x[l] * psofed_slope[d][l];
        me->z[d] = psofed_wave(t);
        sum += me->w[d] * me->z[d];
    }
    return sum;
}

static inline float psofed_size(float v) { return v < 0.0f ? -v : v; }

/* The square root by Newton's rule, from half of the exponent. */
static inline float psofed_root(float v)
{
    union { float f; uint32_t bits; } a = {v};
    if (!(v > 0.0f)) return 0.0f;
    a.bits = (a.bits >> 1) + 0x1fbd1df5u;
    for (int i = 0; i < 3; i++) a.f = 0.5f * (a.f + v / a.f);
    return a.f;
}

/* e^v: 2 to an integer, times a polynomial of what remains. */
static inline float psofed_power(float v)
{
    union { uint32_t bits; float f; } whole;
    float p = 1.0f;
    int n;
    if (v < -80.0f) return 0.0f;
    if (v > 80.0f) v = 80.0f;
    n = (int)(v * 1.44269504f + (v < 0.0f ? -0.5f : 0.5f));
    v = (v - (float)n * 0.693145752f) - (float)n * 1.42860677e-6f;
    for (int i = 7; i > 0; i--) p = 1.0f + v / (float)i * p;
    whole.bits = (uint32_t)(n + 127) << 23;
    return whole.f * p;
}

#if PSOFED_MIX
/* eta of one of the two models, and its B: Bernstein online aggregation (Wintenberger, 2017). */
static inline float psofed_rate(const float *memory, float *bound)
{
    union { float f; uint32_t bits; } b = {memory[2]};
    float slow;
    if (!(memory[2] > 0.0f)) return *bound = 0.0f;
    if (b.bits & 0x7fffffu) b.bits = (b.bits | 0x7fffffu) + 1; /* the next power of two */
    *bound = b.f;
    slow = psofed_root(0.693147181f / memory[1]);
    return slow < 1.0f / b.f ? slow : 1.0f / b.f;
}

/* The weight of w_k; the rest is that of the last label. */
static inline float psofed_weight(const psofed_client *me)
{
    float bound, own = psofed_rate(me->memory[0], &bound), last = psofed_rate(me->memory[1], &bound);
    if (own == 0.0f) own = last;
    if (last == 0.0f) last = own;
    if (own == 0.0f) return 0.5f;
    return 1.0f / (1.0f + last / own * psofed_power(last * me->memory[1][0] - own * me->memory[0][0]));
}

static inline void psofed_gain(float *memory, float r)
{
    float bound, eta;
    memory[1] += r * r;
    if (psofed_size(r) > memory[2]) memory[2] = psofed_size(r);
    eta = psofed_rate(memory, &bound);
    memory[0] += 0.5f * (r - eta * r * r + (eta * r > 0.5f ? bound : 0.0f));
}

/* A label that the models had guessed. */
static inline void psofed_compare(psofed_client *me, float own, float y)
{
    float a = psofed_weight(me), mixed = a * own + (1.0f - a) * me->label, twice = 2.0f * (mixed - y);
    psofed_gain(me->memory[0], twice * (mixed - own));
    psofed_gain(me->memory[1], twice * (mixed - me->label));
}
#endif

/* What the client says of x [PSOFED_INPUTS]. */
static inline float psofed_predict(psofed_client *me, const float *x)
{
    float own = psofed_features(me, x);
#if PSOFED_MIX
    if (me->counts[PSOFED_LEARNED] + me->counts[PSOFED_CLIPPED]) {
        float a = psofed_weight(me);
        return a * own + (1.0f - a) * me->label;
    }
#endif
    return own;
}

static inline int psofed_finite(float v) { return v >= -PSOFED_BIGGEST && v <= PSOFED_BIGGEST; }

#if PSOFED_CHECK == 2
/* The lower median of the last errors. */
static inline float psofed_scale(const psofed_client *me)
{
    int there = me->judged < PSOFED_WINDOW ? (int)me->judged : PSOFED_WINDOW;
    for (int i = 0; i < there; i++) {
        int less = 0, equal = 0;
        for (int j = 0; j < there; j++) {
            less += me->errors[j] < me->errors[i];
            equal += me->errors[j] == me->errors[i];
        }
        if (less <= (there - 1) / 2 && (there - 1) / 2 < less + equal) return me->errors[i];
    }
    return 0.0f;
}

/* Whether this sample has come more than PSOFED_REPEATS times in a row. */
static inline int psofed_stuck(psofed_client *me, const float *x, float y)
{
    int same = me->again && me->sample[PSOFED_INPUTS] == y;
    for (int l = 0; l < PSOFED_INPUTS; l++) same = same && me->sample[l] == x[l];
    me->again = same ? me->again + 1 : 1;
    for (int l = 0; l < PSOFED_INPUTS; l++) me->sample[l] = x[l];
    me->sample[PSOFED_INPUTS] = y;
    return me->again > PSOFED_REPEATS;
}
#endif

/* The verdict on a sample; *error becomes what is learned. */
static inline int psofed_judge(psofed_client *me, const float *x, float y, float *error)
{
    (void)me, (void)x, (void)error;
#if PSOFED_CHECK == 2
    int stuck = psofed_stuck(me, x, y);
    float size = psofed_size(*error), limit;
#endif
#if PSOFED_CHECK
    if (y < PSOFED_LOW || y > PSOFED_HIGH) return PSOFED_OUTSIDE;
#endif
#if PSOFED_CHECK == 2
    if (stuck) return PSOFED_STUCK;
    if (!psofed_finite(size)) return PSOFED_LEARNED; /* the model's fault, not the sample's */
    me->errors[me->judged++ % PSOFED_WINDOW] = size;
    limit = PSOFED_FACTOR * psofed_scale(me);
    if (me->judged < 3) return PSOFED_EARLY;
    if (size > limit && !PSOFED_CLIP) return PSOFED_FAR;
    if (size > limit) {
        *error = *error < 0.0f ? -limit : limit;
        return PSOFED_CLIPPED;
    }
#endif
    (void)y;
    return PSOFED_LEARNED;
}

/* Eq. (10): w <- w + mu z epsilon. Returns the verdict on the sample. */
static inline int psofed_learn(psofed_client *me, const float *x, float y)
{
    int verdict, good = psofed_finite(y);
    float own, error;
    for (int l = 0; l < PSOFED_INPUTS; l++) good = good && psofed_finite(x[l]);
    if (!good) {
        me->since++;
        me->counts[PSOFED_BROKEN]++;
        return PSOFED_BROKEN;
    }
    own = psofed_features(me, x);
    error = y - own;
    verdict = psofed_judge(me, x, y, &error);
    if (verdict <= PSOFED_CLIPPED) {
        float step = PSOFED_STEP * error;
        if (verdict == PSOFED_CLIPPED) y = own + error;
#if PSOFED_MIX
        if (me->counts[PSOFED_LEARNED] + me->counts[PSOFED_CLIPPED]) psofed_compare(me, own, y);
#endif
#if PSOFED_NORMALISED
        float squares = 0.0f;
        for (int d = 0; d < PSOFED_DIM; d++) squares += me->z[d] * me->z[d];
        step = step / (PSOFED_EPSILON + squares);
#endif
        for (int d = 0; d < PSOFED_DIM; d++) me->w[d] += step * me->z[d];
        me->label = y;
    }
    me->since++;
    me->counts[verdict]++;
    return verdict;
}

/* Entry j of S_{k,t}, the window of exchange t: the first one, shifted t times. */
static inline uint32_t psofed_entry(uint32_t j, uint32_t t)
{
    return (PSOFED_FIRST(j) + PSOFED_SHIFT * (t % PSOFED_DIM)) % PSOFED_DIM;
}

/* Whether the last round of a block is over, so that an answer is due. */
static inline int psofed_due(const psofed_client *me)
{
    return me->open && !me->answered && me->since + 1u > PSOFED_WAIT;
}

#if PSOFED_SIGNS
/* A count with a few digits, rounded down: what is left out goes with the next answer. */
static inline uint8_t psofed_sign(uint32_t count, uint32_t digits, uint32_t most, uint32_t *told)
{
    uint32_t shift = 0, code;
    count -= *told;
    while (count >> shift >= 2u << digits) shift++;
    code = (shift << digits) + (count >> shift);
    if (code > most) code = most;
    shift = code >> digits > 1 ? (code >> digits) - 1 : 0;
    *told += (code - (shift << digits)) << shift;
    return (uint8_t)code;
}

static inline void psofed_report(psofed_client *me)
{
    uint32_t learned = me->counts[PSOFED_LEARNED] + me->counts[PSOFED_CLIPPED], others = 0;
    for (int i = PSOFED_CLIPPED; i < PSOFED_VERDICTS; i++)
        if (i != PSOFED_EARLY) others += me->counts[i];
    me->signs[0] = psofed_sign(learned, 4, 255, &me->told[0]);
    me->signs[1] = (uint8_t)(psofed_sign(others, 2, 31, &me->told[1]) << 3);
}
#endif

/* A value as it travels, in 2 or 4 bytes, the lowest first. */
static inline void psofed_put(uint8_t *to, float v)
{
    union { float f; uint32_t bits; } a = {v};
    uint32_t bits = a.bits;
#if PSOFED_WIRE == 2
    uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu, shift = 13, odd;
    if (rest >= 0x47800000u) { /* 2^16 and more, and what is not finite */
        bits = sign | (rest > 0x7f800000u ? 0x7e00u : 0x7c00u);
    } else {
        if (rest < 0x38800000u) { /* below 2^-14 there is no leading one */
            shift = 126 - (rest >> 23);
            rest = shift > 24 ? 0 : (rest & 0x7fffffu) | 0x800000u;
            shift = shift > 24 ? 24 : shift;
        } else {
            rest -= 0x38000000u;
        }
        odd = rest >> shift & 1u; /* to the nearest, of two to the even one */
        bits = sign | (rest + (1u << (shift - 1)) - 1u + odd) >> shift;
    }
#endif
    for (int i = 0; i < PSOFED_WIRE; i++) to[i] = (uint8_t)(bits >> 8 * i);
}

static inline float psofed_get(const uint8_t *from)
{
    union { uint32_t bits; float f; } a = {0};
    for (int i = 0; i < PSOFED_WIRE; i++) a.bits |= (uint32_t)from[i] << 8 * i;
#if PSOFED_WIRE == 2
    {
        uint32_t sign = (a.bits & 0x8000u) << 16, rest = a.bits & 0x7fffu;
        if (rest >= 0x7c00u) a.bits = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
        else if (rest >= 0x400u) a.bits = sign | ((rest << 13) + 0x38000000u);
        else {
            a.f = (float)rest * 5.9604644775390625e-8f; /* 2^-24 */
            a.bits |= sign;
        }
    }
#endif
    return a.f;
}

/* Before the first sample: w_{k,0} = 0. */
static inline void psofed_begin(psofed_client *me)
{
    unsigned char *bytes = (unsigned char *)me;
    for (size_t i = 0; i < sizeof *me; i++) bytes[i] = 0;
    me->round = me->last = PSOFED_NEVER;
}

/* The first frame of a window: those of another are forgotten; who starts over forgets all. */
static inline void psofed_turn(psofed_client *me, uint32_t n, uint8_t fresh)
{
    if (fresh) {
        uint32_t last = me->last;
        psofed_begin(me);
        me->last = last;
    }
    for (int i = 0; i < PSOFED_MOST_PARTS / 32; i++) me->come[i] = 0;
    me->round = n, me->fresh = fresh, me->open = me->answered = 0;
}

/* A frame that has come down. */
static inline int psofed_receive(psofed_client *me, const uint8_t *frame, size_t length)
{
    uint32_t n, part, first, parts, count;
    uint8_t fresh;
    if (length < PSOFED_HEAD) return PSOFED_SIZE;
    n = frame[1] | (uint32_t)frame[2] << 8 | (uint32_t)frame[3] << 16;
    fresh = frame[0] >> 7, part = frame[0] & 0x7fu;
    count = PSOFED_WHOLE(fresh) ? PSOFED_DIM : PSOFED_SHARED;
    parts = PSOFED_PARTS(count), first = part * PSOFED_EACH;
    if (part >= parts || n % PSOFED_PACE) return PSOFED_SIZE;
    count = count - first < PSOFED_EACH ? count - first : PSOFED_EACH;
    if (length != PSOFED_HEAD + count * PSOFED_WIRE) return PSOFED_SIZE;
    if (me->last != PSOFED_NEVER && n < me->last) return PSOFED_LATE;
    if (n == me->last) return me->answered ? PSOFED_AGAIN : PSOFED_LATE;
    for (uint32_t j = 0; j < count; j++) {
        float v = psofed_get(frame + PSOFED_HEAD + j * PSOFED_WIRE);
        if (!(v >= -PSOFED_BOUND && v <= PSOFED_BOUND)) return PSOFED_VALUE;
    }
    if (n != me->round || fresh != me->fresh || me->answered) psofed_turn(me, n, fresh);
    if (me->open) return PSOFED_OPEN;
    for (uint32_t j = 0; j < count; j++) {
        float v = psofed_get(frame + PSOFED_HEAD + j * PSOFED_WIRE);
        if (PSOFED_WHOLE(fresh)) me->w[first + j] = v;
        else me->values[first + j] = v;
    }
    me->come[part / 32] |= (uint32_t)1 << part % 32;
    for (part = 0; part < parts; part++)
        if (!(me->come[part / 32] >> part % 32 & 1u)) return PSOFED_MORE;
    if (!PSOFED_WHOLE(fresh)) /* eq. (9) */
        for (uint32_t j = 0; j < PSOFED_SHARED; j++) me->w[psofed_entry(j, n / PSOFED_PACE)] = me->values[j];
    me->open = 1, me->since = 0;
    return PSOFED_OPEN;
}

/* Part 0, 1, ... of the answer, into PSOFED_FRAME bytes; returns its length, 0 after the last. */
static inline size_t psofed_upload(psofed_client *me, uint32_t part, uint8_t *frame)
{
    uint32_t n = me->round, next = n / PSOFED_PACE + 1, last;
    size_t length = PSOFED_HEAD;
    if (!me->open || part >= PSOFED_ANSWERS) return 0;
    if (!me->answered) {
        for (uint32_t j = 0; j < PSOFED_SHARED; j++) me->values[j] = me->w[psofed_entry(j, next)];
#if PSOFED_SIGNS
        psofed_report(me);
#endif
    }
    me->answered = 1, me->last = n;
    frame[0] = (uint8_t)part;
    for (int i = 0; i < 3; i++) frame[1 + i] = (uint8_t)(n >> 8 * i);
    last = (part + 1) * PSOFED_EACH < PSOFED_SHARED ? (part + 1) * PSOFED_EACH : PSOFED_SHARED;
    for (uint32_t j = part * PSOFED_EACH; j < last; j++, length += PSOFED_WIRE)
        psofed_put(frame + length, me->values[j]);
#if PSOFED_SIGNS
    for (uint32_t i = 0; i < PSOFED_SIGNS; i++)
        if ((PSOFED_SHARED * PSOFED_WIRE + i) / PSOFED_ROOM == part) frame[length++] = me->signs[i];
#endif
    return length;
}

/* What a client says when it begins: the round after the last one that it has answered, and of
   which run it is. */
static inline size_t psofed_hello(const psofed_client *me, uint8_t *frame)
{
    uint32_t n = me->last + 1; /* 0 after PSOFED_NEVER */
    frame[0] = PSOFED_FRESH;
    for (int i = 0; i < 3; i++) frame[1 + i] = (uint8_t)(n >> 8 * i);
    for (int i = 0; i < 4; i++) frame[PSOFED_HEAD + i] = (uint8_t)(PSOFED_DIGEST >> 8 * i);
    return PSOFED_HEAD + 4;
}

static inline uint32_t psofed_crc(uint32_t crc, const void *from, uint32_t count)
{
    const uint8_t *bytes = (const uint8_t *)from;
    while (count--) {
        crc ^= *bytes++;
        for (int i = 0; i < 8; i++) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return crc;
}

/* Frames on a serial line, by SLIP (RFC 1055), each with two bytes of its CRC. */
#define PSOFED_PACKED (2 * (PSOFED_FRAME + 2) + 2) /* bytes, at most */

typedef struct {
    uint8_t bytes[PSOFED_FRAME + 2];
    uint32_t count, escaped;
} psofed_line;

/* Into PSOFED_PACKED bytes; returns how many. */
static inline size_t psofed_pack(const uint8_t *frame, size_t length, uint8_t *to)
{
    uint32_t crc = ~psofed_crc(PSOFED_NEVER, frame, (uint32_t)length);
    size_t count = 0;
    to[count++] = 0xc0;
    for (size_t i = 0; i < length + 2; i++) {
        uint8_t one = i < length ? frame[i] : (uint8_t)(crc >> 8 * (i - length));
        if (one == 0xc0 || one == 0xdb) to[count++] = 0xdb, one = one == 0xc0 ? 0xdc : 0xdd;
        to[count++] = one;
    }
    to[count++] = 0xc0;
    return count;
}

/* A byte that has come. Returns the length of the frame in line->bytes that it ends, else 0. */
static inline size_t psofed_byte(psofed_line *line, uint8_t one)
{
    size_t length = line->escaped ? 0 : line->count;
    uint32_t crc;
    if (one == 0xc0) {
        line->count = line->escaped = 0;
        if (length <= 2 || length > PSOFED_FRAME + 2) return 0;
        length -= 2, crc = ~psofed_crc(PSOFED_NEVER, line->bytes, (uint32_t)length);
        if (line->bytes[length] != (crc & 0xffu)) return 0;
        return line->bytes[length + 1] == (crc >> 8 & 0xffu) ? length : 0;
    }
    if (line->escaped && one != 0xdc && one != 0xdd) line->count = PSOFED_FRAME + 3;
    if (one == 0xdb) {
        line->escaped = 1;
        return 0;
    }
    if (line->escaped) one = one == 0xdc ? 0xc0 : 0xdb;
    line->escaped = 0;
    if (line->count < PSOFED_FRAME + 2) line->bytes[line->count] = one;
    if (line->count < PSOFED_FRAME + 3) line->count++; /* too long stays too long */
    return 0;
}

/* Two slots of a flash, each of PSOFED_SLOT bytes: a slot is erased as a whole, then written from
   its beginning on. All functions return 0 if they succeed. */
typedef struct {
    int (*read)(unsigned slot, uint32_t at, void *to, uint32_t count);
    int (*erase)(unsigned slot);
    int (*write)(unsigned slot, uint32_t at, const void *from, uint32_t count);
} psofed_flash;

#define PSOFED_SAVED ((uint32_t)offsetof(psofed_client, z)) /* bytes of the state */
#define PSOFED_SLOT (PSOFED_SAVED + 12u)

/* The number of the save in a slot; 0: it has none that is whole and of this configuration. */
static inline uint32_t psofed_saved(const psofed_flash *flash, unsigned slot)
{
    uint32_t head[2], crc = PSOFED_NEVER, end;
    uint8_t some[32];
    if (flash->read(slot, 0, head, sizeof head) || head[0] != PSOFED_DIGEST) return 0;
    crc = psofed_crc(crc, head, sizeof head);
    for (uint32_t at = 0; at < PSOFED_SAVED; at += sizeof some) {
        uint32_t count = PSOFED_SAVED - at < sizeof some ? PSOFED_SAVED - at : sizeof some;
        if (flash->read(slot, sizeof head + at, some, count)) return 0;
        crc = psofed_crc(crc, some, count);
    }
    if (flash->read(slot, sizeof head + PSOFED_SAVED, &end, sizeof end) || end != crc) return 0;
    return head[1];
}

/* The newer of the two slots that are whole. Returns its number; without one, 0, and a beginning. */
static inline uint32_t psofed_load(psofed_client *me, const psofed_flash *flash)
{
    uint32_t saved[2] = {psofed_saved(flash, 0), psofed_saved(flash, 1)};
    unsigned slot = saved[1] > saved[0];
    psofed_begin(me);
    if (!saved[slot]) return 0;
    if (flash->read(slot, 8, me, PSOFED_SAVED)) {
        psofed_begin(me);
        return 0;
    }
    return saved[slot];
}

/* Into the older slot, so that a power cut at any byte leaves one of them whole. */
static inline int psofed_save(const psofed_client *me, const psofed_flash *flash)
{
    uint32_t saved[2] = {psofed_saved(flash, 0), psofed_saved(flash, 1)}, crc = PSOFED_NEVER;
    unsigned slot = saved[0] > saved[1];
    uint32_t head[2] = {PSOFED_DIGEST, saved[1 - slot] + 1};
    crc = psofed_crc(crc, head, sizeof head);
    crc = psofed_crc(crc, me, PSOFED_SAVED);
    return flash->erase(slot) || flash->write(slot, 0, head, sizeof head) ||
           flash->write(slot, sizeof head, me, PSOFED_SAVED) ||
           flash->write(slot, sizeof head + PSOFED_SAVED, &crc, sizeof crc);
}

#endif
