/* Cells of a table as numbers: the plain ones, exactly as strtod would; see streams/data/columns.py. */

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

/* A cell, quoted or not, and what comes after it; NULL if it is not a plain one. */
static const char *cell(const char *at, const char *last, char sep, const char **begin,
                        const char **end)
{
    const int quoted = at < last && *at == '"';
    *begin = at += quoted;
    for (; at < last && *at != '\n' && (quoted ? *at != '"' : *at != sep); at++)
        if (*at == '"' || (*at == '\r' && (quoted || at + 1 == last || at[1] != '\n'))) return 0;
    *end = !quoted && at > *begin && at[-1] == '\r' ? at - 1 : at;
    if (!quoted) return at;
    if (at == last || *at++ != '"') return 0; /* a line break within quotes */
    if (at + 1 < last && *at == '\r' && at[1] == '\n') at++;
    return at == last || *at == '\n' || *at == sep ? at : 0;
}

/* A text of `rows` lines with `columns` cells each, column by column: one cell in each line, and
   ends[c] is where column c ends. Returns 0 if that is not all there is to it: quotes within quotes,
   lines with more or fewer cells, or cells longer than `longest`. */
int64_t psofed_transpose(const char *text, int64_t length, int64_t separator, int64_t rows,
                         int64_t columns, int64_t longest, char *out, int64_t *ends)
{
    const char *last = text + length, sep = (char)separator;
    for (int64_t c = 0; c < columns; c++) ends[c] = 0;
    for (int writing = 0; writing < 2; writing++) { /* first how long each column is, then itself */
        const char *at = text;
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t c = 0; c < columns; c++, at++) {
                const char *begin, *end;
                if (!(at = cell(at, last, sep, &begin, &end))) return 0;
                const int ends_line = at == last || *at == '\n';
                if (ends_line != (c == columns - 1) || end - begin > longest) return 0;
                if (columns == 1 && end == begin) return 0; /* an empty line has no cells */
                if (!writing) {
                    ends[c] += end - begin + 1;
                    continue;
                }
                char *to = out + ends[c];
                for (const char *from = begin; from < end;) *to++ = *from++;
                *to = '\n', ends[c] += end - begin + 1;
            }
        }
        if (at < last) return 0;
        for (int64_t c = 0, begin = 0; c < columns && !writing; c++) { /* where each begins */
            const int64_t size = ends[c];
            ends[c] = begin, begin += size;
        }
    }
    return 1;
}
