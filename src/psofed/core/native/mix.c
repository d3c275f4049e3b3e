/* Bernstein online aggregation, round by round; core/mixing.py has the equations. */

#include <math.h>
#include <stdint.h>

enum { SUMS = 3 }; /* L, V and the largest |r| of an expert; the same in Python */

/* The smallest power of two that is not below a number above 0. */
static double rounded_up(double x)
{
    int power;
    const double part = frexp(x, &power);
    return ldexp(1.0, power - (part == 0.5));
}

static double rate(const double *of, double trust)
{
    return of[2] > 0 ? fmin(1 / rounded_up(of[2]), sqrt(-log(trust) / of[1])) : INFINITY;
}

/* a^T p of one client. */
static double answer(const double *memory, const double *trust, const double *p, int64_t experts)
{
    double fastest = 0, most = -INFINITY, above = 0, below = 0;
    for (int64_t j = 0; j < experts; j++) {
        const double eta = rate(memory + j * SUMS, trust[j]);
        if (isfinite(eta)) fastest = fmax(fastest, eta);
    }
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < experts; j++) {
            double eta = rate(memory + j * SUMS, trust[j]);
            if (!isfinite(eta)) eta = fastest > 0 ? fastest : 1;
            const double power = log(trust[j]) + log(eta) + eta * memory[j * SUMS];
            if (!pass) most = fmax(most, power);
            else {
                const double a = exp(power - most);
                above += a * p[j], below += a;
            }
        }
    return above / below;
}

static void learn(double *memory, const double *trust, const double *p, double m, double y,
                  int64_t experts)
{
    for (int64_t j = 0; j < experts; j++) {
        double *of = memory + j * SUMS;
        const double r = 2 * (m - y) * (m - p[j]);
        of[1] += r * r, of[2] = fmax(of[2], fabs(r));
        double eta = rate(of, trust[j]);
        if (!isfinite(eta)) eta = 0;
        const double extra = eta * r > 0.5 ? rounded_up(of[2]) : 0;
        of[0] += (r - eta * r * r + extra) / 2;
    }
}

/* Guesses p [delay + round][client][expert] and answers m [delay + round][client]; the label
   y [round][client] of round i belongs to the guesses i. Not a number: there is none. */
void psofed_mix(double *memory, const double *trust, const double *p, double *m, const double *y,
                int64_t rounds, int64_t clients, int64_t experts, int64_t delay)
{
    for (int64_t i = 0; i < rounds; i++)
        for (int64_t c = 0; c < clients; c++) {
            double *of = memory + c * experts * SUMS;
            const int64_t now = (delay + i) * clients + c, then = i * clients + c;
            m[now] = answer(of, trust, p + now * experts, experts);
            if (y[then] == y[then]) learn(of, trust, p + then * experts, m[then], y[then], experts);
        }
}
