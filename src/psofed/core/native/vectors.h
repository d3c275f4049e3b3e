/* Vectors of 32 bytes, of one precision: included once for float and once for double.

   REAL is the number, LANES how many are in a vector, TERMS those of the sine's polynomial, NAME(f)
   the name of f in this precision.
   Sums go by fixed lanes, in a fixed order, so that 256 and 512 bit machines give the same bits. */

/* What the other precision has defined. */
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
#undef EVEN
#undef ODD
#undef LOW
#undef HIGH

#define INLINE static inline __attribute__((always_inline))

#if SINGLE
#define REAL float
#define LANES 8
#define TERMS 4
#define NAME(f) f##_f32
typedef int32_t lanes_f32 __attribute__((vector_size(32)));
#else
#define REAL double
#define LANES 4
#define TERMS 8
#define NAME(f) f##_f64
typedef int64_t lanes_f64 __attribute__((vector_size(32)));
#endif

#define VEC NAME(vec)
#define MASK NAME(lanes)
#define FOUR NAME(four)
typedef REAL VEC __attribute__((vector_size(32), may_alias, aligned(sizeof(REAL))));
typedef REAL FOUR __attribute__((vector_size(4 * sizeof(REAL)), may_alias, aligned(sizeof(REAL))));

/* Loads once and keeps it in a register: the compiler would rather load again for each use. */
INLINE VEC NAME(load)(const REAL *from)
{
    VEC value = *(const VEC *)from;
#ifdef __AVX__
    __asm__("" : "+x"(value));
#endif
    return value;
}

INLINE void NAME(store)(REAL *to, VEC value) { *(VEC *)to = value; }

INLINE VEC NAME(all)(REAL value) { return value - (VEC){0}; }

/* Longer vectors where there are any, for what goes number by number: the bits are the same. */
#ifdef __AVX512F__
#define BIG NAME(big)
#define LONG (2 * LANES)
typedef REAL BIG __attribute__((vector_size(64), may_alias, aligned(sizeof(REAL))));
#else
#define BIG VEC
#define LONG LANES
#endif

INLINE BIG NAME(load_big)(const REAL *from)
{
    BIG value = *(const BIG *)from;
#if defined(__AVX512F__)
    __asm__("" : "+v"(value));
#elif defined(__AVX__)
    __asm__("" : "+x"(value));
#endif
    return value;
}

/* The nearest integer of each number, ties to even, for |t| far below 2^22 (float) or 2^51. */
INLINE BIG NAME(nearest)(BIG t)
{
#if defined(__AVX512F__) && SINGLE
    return (BIG)_mm512_roundscale_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX512F__)
    return (BIG)_mm512_roundscale_pd((__m512d)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX__) && SINGLE
    return (BIG)_mm256_round_ps((__m256)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX__)
    return (BIG)_mm256_round_pd((__m256d)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    BIG out;
    for (int i = 0; i < LANES; i++) out[i] = SINGLE ? (REAL)rintf((float)t[i]) : (REAL)rint(t[i]);
    return out;
#endif
}

INLINE BIG NAME(magnitude)(BIG t)
{
#if defined(__AVX512F__) && SINGLE
    return (BIG)_mm512_abs_ps((__m512)t);
#elif defined(__AVX512F__)
    return (BIG)_mm512_abs_pd((__m512d)t);
#else
    const MASK sign = (MASK)NAME(all)((REAL)-0.0);
    return (BIG)((MASK)t & ~sign);
#endif
}

/* Lanes whose byte is -1 are kept, those whose byte is 0 become zero. */
INLINE VEC NAME(where)(const int8_t *mask, VEC a)
{
#if defined(__AVX2__) && SINGLE
    MASK kept = (MASK)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)mask));
#elif defined(__AVX2__)
    MASK kept = (MASK)_mm256_cvtepi8_epi64(_mm_loadu_si32(mask));
#else
    MASK kept;
    for (int i = 0; i < LANES; i++) kept[i] = mask[i];
#endif
    return (VEC)((MASK)a & kept);
}

/* The sum of all lanes, pairs first. */
INLINE REAL NAME(sum)(VEC a)
{
#if SINGLE
    return ((a[0] + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]));
#else
    return (a[0] + a[1]) + (a[2] + a[3]);
#endif
}

/* Lanes of two vectors side by side: the even ones, the odd ones; pairs of them, low and high. */
#if SINGLE
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

/* Lane i is the sum of a[i], for four vectors at once; the same order as in `sum`. */
INLINE FOUR NAME(sum_four)(const VEC *a)
{
    VEC p = EVEN(a[0], a[1]) + ODD(a[0], a[1]), q = EVEN(a[2], a[3]) + ODD(a[2], a[3]);
    VEC r = LOW(p, q) + HIGH(p, q);
#if SINGLE
    return __builtin_shufflevector(r, r, 0, 1, 2, 3) + __builtin_shufflevector(r, r, 4, 5, 6, 7);
#else
    return r;
#endif
}

/* w^T z. */
INLINE REAL NAME(product)(const REAL *w, const REAL *z, int64_t dim)
{
    VEC a = {0}, b = {0};
    int64_t d = 0;
    for (; d + 2 * LANES <= dim; d += 2 * LANES) {
        a += NAME(load)(w + d) * NAME(load)(z + d);
        b += NAME(load)(w + d + LANES) * NAME(load)(z + d + LANES);
    }
    REAL sum = NAME(sum)(a + b);
    for (; d < dim; d++) sum += w[d] * z[d];
    return sum;
}

/* Eq. (10): w <- w + mu z epsilon, where e is mu epsilon. */
INLINE void NAME(step)(REAL *w, const REAL *z, REAL e, int64_t dim)
{
    for (int64_t d = 0; d < dim; d++) w[d] += e * z[d];
}
