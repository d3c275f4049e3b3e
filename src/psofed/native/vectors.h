/* Vectors of 32 bytes, of one precision: included once for float and once for double.

   REAL is the number, LANES how many are in a vector, TERMS those of the sine's polynomial, NAME(f) the name of f in this precision.
   Sums go by fixed lanes, in a fixed order, so that 256 and 512 bit machines give the same bits. */

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
typedef REAL VEC __attribute__((vector_size(32), may_alias, aligned(sizeof(REAL))));

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

/* The nearest integer of each lane, ties to even, for |t| far below 2^22 (float) or 2^51. */
INLINE VEC NAME(nearest)(VEC t)
{
#if defined(__AVX__) && SINGLE
    return (VEC)_mm256_round_ps((__m256)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX__)
    return (VEC)_mm256_round_pd((__m256d)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    VEC out;
    for (int i = 0; i < LANES; i++) out[i] = SINGLE ? (REAL)rintf((float)t[i]) : (REAL)rint(t[i]);
    return out;
#endif
}

INLINE VEC NAME(magnitude)(VEC t)
{
    const MASK sign = (MASK)NAME(all)((REAL)-0.0);
    return (VEC)((MASK)t & ~sign);
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

/* out[i] = the sum of a[i], for four vectors at once; the same order as in `sum`. */
INLINE void NAME(sum_four)(const VEC *a, REAL *out)
{
#if SINGLE
    const MASK even = {0, 8, 2, 10, 4, 12, 6, 14}, odd = {1, 9, 3, 11, 5, 13, 7, 15};
    const MASK low = {0, 1, 8, 9, 4, 5, 12, 13}, high = {2, 3, 10, 11, 6, 7, 14, 15};
    VEC p = __builtin_shuffle(a[0], a[1], even) + __builtin_shuffle(a[0], a[1], odd);
    VEC q = __builtin_shuffle(a[2], a[3], even) + __builtin_shuffle(a[2], a[3], odd);
    VEC r = __builtin_shuffle(p, q, low) + __builtin_shuffle(p, q, high);
    for (int i = 0; i < 4; i++) out[i] = r[i] + r[i + 4];
#else
    const MASK even = {0, 4, 2, 6}, odd = {1, 5, 3, 7};
    const MASK low = {0, 1, 4, 5}, high = {2, 3, 6, 7};
    VEC p = __builtin_shuffle(a[0], a[1], even) + __builtin_shuffle(a[0], a[1], odd);
    VEC q = __builtin_shuffle(a[2], a[3], even) + __builtin_shuffle(a[2], a[3], odd);
    NAME(store)(out, __builtin_shuffle(p, q, low) + __builtin_shuffle(p, q, high));
#endif
}
