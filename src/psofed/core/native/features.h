/* Features of many samples at once. */

/* cos(2 pi t) = sin(2 pi (1/4 - |t - nearest integer|)), by an odd polynomial. */
INLINE BIG NAME(wave)(BIG t, const BIG *sine)
{
    BIG s = (REAL)0.25 - NAME(magnitude)(t - NAME(nearest)(t));
    BIG q = s * s, p = sine[0];
    for (int m = 1; m < TERMS; m++) p = p * q + sine[m];
    return s * p;
}

/* z = sqrt(2/D) cos(W x + b) of `count` samples, so that each slope is loaded once for all. The
   last vector may overlap the one before. */
INLINE void NAME(waves)(const NAME(Map) *map, const REAL *restrict x, int64_t stride, int64_t tap,
                        REAL *restrict z, const int64_t taps, const int count)
{
    const int64_t size = map->wide;
    BIG sine[TERMS];
    for (int m = 0; m < TERMS; m++) sine[m] = map->sine[m] - (BIG){0};
    for (int64_t next = 0; next < size; next += LONG) {
        const int64_t d = next + LONG <= size ? next : size - LONG;
        BIG t[4];
        for (int i = 0; i < count; i++) t[i] = *(const BIG *)(map->offset + d);
        for (int64_t l = 0; l < taps; l++) {
            BIG slope = NAME(load_big)(map->slope + l * size + d);
            for (int i = 0; i < count; i++) t[i] += x[i * stride + l * tap] * slope;
        }
        for (int i = 0; i < count; i++) *(BIG *)(z + i * size + d) = NAME(wave)(t[i], sine);
    }
}

/* z_i = exp(-|x - c_i|^2 / (2 sigma^2)) / sqrt(D). */
static void NAME(bumps)(const NAME(Map) *map, const REAL *x, int64_t tap, REAL *z)
{
    const int64_t size = map->wide;
    for (int64_t d = 0; d < size; d++) z[d] = 0;
    for (int64_t l = 0; l < map->taps; l++)
        for (int64_t d = 0; d < size; d++) {
            REAL apart = x[l * tap] - map->slope[l * size + d];
            z[d] += apart * apart;
        }
    for (int64_t d = 0; d < size; d++) {
        REAL power = -(REAL)map->constant * z[d];
        z[d] = map->scale[d] * (SINGLE ? (REAL)expf((float)power) : (REAL)exp(power));
    }
}

/* The features of `count` samples, which are `stride` apart, their inputs `tap`. */
static void NAME(plain)(const NAME(Map) *map, const REAL *x, int64_t stride, int64_t tap,
                        int64_t count, REAL *z)
{
    const int64_t size = map->wide, taps = map->taps;
    while (count > 0) {
        const int four = taps == 4; /* the paper's number of taps has code of its own */
        const int most = count >= AT_ONCE ? AT_ONCE : count >= 2 && four ? 2 : 1;
        const int some = map->kind == WAVES ? most : 1;
        if (map->kind == BUMPS) NAME(bumps)(map, x, tap, z);
        else if (map->kind == GIVEN)
            for (int64_t l = 0; l < size; l++) z[l] = l < taps ? x[l * tap] : 0;
        else if (four && some == AT_ONCE) NAME(waves)(map, x, stride, tap, z, 4, AT_ONCE);
        else if (four && some == 2) NAME(waves)(map, x, stride, tap, z, 4, 2);
        else if (four) NAME(waves)(map, x, stride, tap, z, 4, 1);
        else if (some == AT_ONCE) NAME(waves)(map, x, stride, tap, z, taps, AT_ONCE);
        else NAME(waves)(map, x, stride, tap, z, taps, 1);
        count -= some, x += some * stride, z += some * size;
    }
}

/* Entries d.. of u = T^T z, `some` vectors of them, of `count` samples. */
INLINE void NAME(turn)(const NAME(Map) *map, const REAL *restrict z, REAL *restrict u, int64_t d,
                       const int some, const int count)
{
    const int64_t size = map->size, wide = map->wide;
    BIG sum[4][3] = {0};
    for (int64_t l = 0; l < wide; l++) {
        BIG row[3];
        for (int v = 0; v < some; v++) row[v] = NAME(load_big)(map->basis + l * size + d + v * LONG);
        for (int i = 0; i < count; i++)
            for (int v = 0; v < some; v++) sum[i][v] += z[i * wide + l] * row[v];
    }
    for (int i = 0; i < count; i++)
        for (int v = 0; v < some; v++) *(BIG *)(u + i * size + d + v * LONG) = sum[i][v];
}

/* u = T^T z of `count` samples. Each number is a sum in the order of the features, whatever stands
   next to it. The last vector may overlap the one before. */
INLINE void NAME(turn_all)(const NAME(Map) *map, const REAL *z, REAL *u, const int count)
{
    const int64_t size = map->size;
    int64_t d = 0;
    for (; d + 3 * LONG <= size; d += 3 * LONG) NAME(turn)(map, z, u, d, 3, count);
    for (; d < size; d += LONG) NAME(turn)(map, z, u, d + LONG <= size ? d : size - LONG, 1, count);
}

/* The features of `count` samples in their basis. */
static void NAME(turned)(const NAME(Map) *map, const REAL *x, int64_t stride, int64_t tap,
                         int64_t count, REAL *u)
{
    REAL z[4 * map->wide];
    while (count > 0) {
        const int64_t some = count < 4 ? 1 : 4;
        NAME(plain)(map, x, stride, tap, some, z);
        if (some == 4) NAME(turn_all)(map, z, u, 4);
        else NAME(turn_all)(map, z, u, 1);
        count -= some, x += some * stride, u += some * map->size;
    }
}

/* What models are learned from: the features of `count` samples, in their basis if there is one. */
static void NAME(fill)(const NAME(Map) *map, const REAL *x, int64_t stride, int64_t tap,
                       int64_t count, REAL *z)
{
    if (map->turned) NAME(turned)(map, x, stride, tap, count, z);
    else NAME(plain)(map, x, stride, tap, count, z);
}

/* Features of `count` rows of x, for callers outside the recursion. */
void NAME(psofed_features)(const NAME(Map) *map, const REAL *x, int64_t count, REAL *z)
{
    NAME(fill)(map, x, map->taps, 1, count, z);
}

/* The same for several runs, each with its map: x [outer][run][row][tap], z [...][dim]. */
void NAME(psofed_features_of_runs)(const NAME(Map) *const *maps, const REAL *x, int64_t outer,
                                   int64_t runs, int64_t rows, int64_t dim, REAL *z)
{
    const int64_t size = maps[0]->size, taps = maps[0]->taps;
    REAL row[size == dim ? 1 : size];
    for (int64_t i = 0; i < outer * runs; i++, x += rows * taps, z += rows * dim) {
        const NAME(Map) *map = maps[i % runs];
        if (size == dim) {
            NAME(fill)(map, x, taps, 1, rows, z);
            continue;
        }
        for (int64_t c = 0; c < rows; c++) {
            NAME(fill)(map, x + c * taps, taps, 1, 1, row);
            memcpy(z + c * dim, row, dim * sizeof(REAL));
        }
    }
}
