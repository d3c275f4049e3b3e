/* What one core can do at best: float32 multiply-adds, and features from the first-level cache. */

#include "kernel.c"

float multiply_adds(long repeat) /* 12 chains of 8 lanes: enough to hide the latency */
{
    v8 a[12];
    for (int i = 0; i < 12; i++) a[i] = 1.0f + 0.1f * i - (v8){0};
    v8 b = 0.999f - (v8){0}, c = 0.001f - (v8){0};
    for (long n = 0; n < repeat; n++)
        for (int i = 0; i < 12; i++) a[i] = a[i] * b + c;
    float total = 0;
    for (int i = 0; i < 12; i++) total += a[i][0];
    return total;
}

float cosines(long repeat) /* blocks of 4 samples, each D features, with their phases */
{
    static v8 slope[TAPS * V], offset[V], z[BLOCK * V];
    float x[BLOCK * TAPS], total = 0;
    for (int i = 0; i < TAPS * D; i++) ((float *)slope)[i] = 0.001f * i;
    for (int i = 0; i < BLOCK * TAPS; i++) x[i] = 0.1f * i;
    for (long n = 0; n < repeat; n++) {
        features(BLOCK, x, slope, offset, z);
        x[0] += 0.01f; /* so that no round can be left out */
        total += z[0][0];
    }
    return total;
}
