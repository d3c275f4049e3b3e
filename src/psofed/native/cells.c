/* Cells of a table as numbers: the plain ones, exactly as strtod would; see data/cells.py. */

#include <stdint.h>

enum { DIGITS = 15, POWER = 22 }; /* 10^15 < 2^53, and 10^22 is exact: one rounding */

static const double TENS[POWER + 1] = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static int is_digit(char sign) { return sign >= '0' && sign <= '9'; }

/* The number of a cell, if it is one that needs a single rounding; else 0. */
static int plain(const char *at, const char *end, char decimal, double *out)
{
    const int negative = at < end && *at == '-';
    int64_t value = 0, power = 0, digits = 0, any = 0, point = 0;
    if (at < end && (*at == '-' || *at == '+')) at++;
    for (; at < end && (is_digit(*at) || (*at == decimal && !point)); at++) {
        if (*at == decimal) point = 1;
        else {
            value = 10 * value + (*at - '0');
            digits += value != 0, power -= point, any = 1;
            if (digits > DIGITS || power < -POWER) return 0;
        }
    }
    if (any && at + 1 < end && (*at == 'e' || *at == 'E')) {
        int64_t shift = 0, down = *++at == '-';
        if (*at == '-' || *at == '+') at++;
        for (any = 0; at < end && is_digit(*at) && shift < 1000; at++, any = 1)
            shift = 10 * shift + (*at - '0');
        power += down ? -shift : shift;
    }
    if (!any || at < end || power > POWER || power < -POWER) return 0;
    const double size = power < 0 ? (double)value / TENS[-power] : (double)value * TENS[power];
    *out = negative ? -size : size;
    return 1;
}

/* The cells of a text, one in each line, to numbers [count]; `odd` are those that are not plain.
   Returns how many these are, or -1 if there are not `count` lines. */
int64_t psofed_cells(const char *text, int64_t length, int64_t decimal, int64_t count, double *out,
                     int64_t *odd)
{
    const char *at = text, *last = text + length;
    int64_t strange = 0;
    for (int64_t i = 0; i < count; i++, at++) {
        const char *end = at;
        while (end < last && *end != '\n') end++;
        if (!plain(at, end, (char)decimal, out + i)) odd[strange++] = i;
        at = end;
        if ((end == last) != (i == count - 1)) return -1;
    }
    return strange;
}
