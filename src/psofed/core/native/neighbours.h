/* What neighbours say, in one precision; see neighbours.c. */

/* For each run w_k += sum_l c_lk S_l (said_l - w_k), where said_l is a number. Edge e leads from node
   near[e] to node rows[e]; windows [node][m], said [edge][m]. Sums go through `total`, [node][dim]. */
void NAME(psofed_combine)(REAL *w, const int64_t *rows, const int64_t *near, const double *shares,
                          const int64_t *windows, const REAL *said, double *total, int64_t runs,
                          int64_t nodes, int64_t senders, int64_t edges, int64_t m, int64_t dim)
{
    for (int64_t r = 0; r < runs; r++, w += nodes * dim, windows += senders * m) {
        memset(total, 0, nodes * dim * sizeof(double));
        for (int64_t e = 0; e < edges; e++, said += m) {
            const int64_t *at = windows + near[e] * m;
            const REAL *own = w + rows[e] * dim;
            double *to = total + rows[e] * dim;
            for (int64_t i = 0; i < m; i++) {
                const REAL apart = said[i] - own[at[i]];
                to[at[i]] += apart == apart ? shares[e] * apart : 0;
            }
        }
        for (int64_t d = 0; d < nodes * dim; d++) w[d] = (REAL)(w[d] + total[d]);
    }
}
