/* Moments of the test set: sums of products of all pairs of columns, in double precision. */

#include <stdint.h>
#include <string.h>

enum { COLUMNS = 12, ROWS = 4, SAMPLES = 128 };

typedef double vec __attribute__((vector_size(32), may_alias, aligned(8)));
typedef double Panel[SAMPLES][COLUMNS]; /* some columns of some samples */

/* out[i][j] += sum_n a[n][i] b[n][j]: the sums of a tile stay in registers. */
static inline __attribute__((always_inline)) void tile(const double *a, const double *b,
                                                       int64_t samples, double *out, int64_t width)
{
    vec sum[ROWS][3] = {0};
    for (const double *end = b + samples * COLUMNS; b < end; a += COLUMNS, b += COLUMNS) {
        vec column[3];
        for (int k = 0; k < 3; k++) {
            column[k] = *(const vec *)(b + 4 * k);
#ifdef __AVX__ /* loaded once: the compiler would rather load again for each use */
            __asm__("" : "+x"(column[k]));
#endif
        }
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < 3; k++) sum[i][k] += a[i] * column[k];
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 3; k++) *(vec *)(out + i * width + 4 * k) += sum[i][k];
}

/* Add the products of some samples, above the diagonal: out is [width][width]. */
static void add_products(const Panel *panels, int64_t samples, int64_t width, double *out)
{
    for (int64_t j = 0; j < width; j += COLUMNS)
        for (int64_t i = 0; i < j + COLUMNS; i += ROWS)
            tile(panels[i / COLUMNS][0] + i % COLUMNS, panels[j / COLUMNS][0], samples,
                 out + i * width + j, width);
}

/* The sums over `count` samples of the products of any two columns, of z [sample][dim] and of
   further ones [sample][further]. `panels` is memory for width / COLUMNS panels; `out` is zero,
   and gets the upper triangle. The width is a multiple of COLUMNS, large enough for all. */
#define MOMENTS(NAME, REAL)                                                                      \
    void NAME(const REAL *z, int64_t count, int64_t dim, const double *more, int64_t further,  \
              Panel *panels, int64_t width, double *out)                                         \
    {                                                                                            \
        const int64_t whole = dim / COLUMNS * COLUMNS;                                           \
        memset(panels, 0, width / COLUMNS * sizeof(Panel));                                      \
        for (int64_t first = 0; first < count; first += SAMPLES) {                               \
            const int64_t samples = count - first < SAMPLES ? count - first : SAMPLES;           \
            for (int64_t n = 0; n < samples; n++, z += dim, more += further) {                   \
                for (int64_t d = 0; d < whole; d += COLUMNS)                                     \
                    for (int i = 0; i < COLUMNS; i++) panels[d / COLUMNS][n][i] = z[d + i];      \
                for (int64_t d = whole; d < dim + further; d++)                                  \
                    panels[d / COLUMNS][n][d % COLUMNS] = d < dim ? z[d] : more[d - dim];        \
            }                                                                                    \
            add_products(panels, samples, width, out);                                           \
        }                                                                                        \
    }

MOMENTS(psofed_moments_f32, float)
MOMENTS(psofed_moments_f64, double)
