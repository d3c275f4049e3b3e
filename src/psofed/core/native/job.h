/* What Python prepares: the same fields, in the same order, as in simulate/kernel.py. */

typedef struct {
    int64_t first, clients, rounds;
    const REAL *x;                  /* [client][round][input], apart by x_strides */
    const int64_t *x_strides;       /* in numbers */
    const REAL *y;                  /* [client][round] */
    const int64_t *start, *members; /* the cohort of round i: members[start[i]..start[i + 1]] */
    const uint8_t *again;           /* [client]: selected in a later chunk */
} NAME(Data);

typedef struct {
    int64_t kind, taps, size; /* of inputs, and of models, padded */
    const REAL *slope, *offset, *scale;
    double constant;  /* of bumps: 1 / (2 sigma^2) */
    const REAL *sine; /* of waves: the polynomial, highest power first, times the scale */
    int64_t wide, turned; /* features before the basis, padded; whether there is one */
    const REAL *basis;    /* [wide][size]: T */
} NAME(Map);

typedef struct {
    int64_t dim, methods, idle;
    const REAL *step;
    const int64_t *rows, *shift, *shared, *first;
    const int32_t *table;
    const uint8_t *dense;
    const uint8_t *averaged; /* [method]: judged by the average of its models */
    const int64_t *masked; /* where the masks of method j begin, or -1 */
    const int8_t *masks;   /* [client, or one][length]: S_0 twice, as -1 and 0 */
    int64_t length;
    double epsilon; /* of normalised LMS: the step is divided by epsilon + |z|^2; 0: LMS */
} NAME(Plans);

typedef struct {
    REAL *w, *local;   /* [method][feature], [client][method][feature] */
    int64_t *position; /* [client]: its next sample */
    REAL *fit;         /* [method][row] */
    REAL *average;     /* [method][feature]: of those that are judged by it */
} NAME(Models);

typedef struct {
    REAL *z;      /* [BLOCK][feature] */
    REAL *change; /* [method][feature]: the sum of eq. (11) so far */
    int64_t *stamp, *touched, *counts;
    const int64_t *every;
    REAL *held;     /* [HOLD][feature]: models that wait for their test error */
    int64_t *owner; /* [HOLD][2]: the mark and the method of each */
    REAL *fits;     /* [HOLD][row] */
    int32_t *shift; /* [2][method]: of the windows of this round, down and up */
} NAME(Scratch);

typedef struct {
    int64_t rows, triangular, last;
    const REAL *factor, *target, *shift, *shares; /* [feature][row], [row], [row], [mark] */
    double scale;
    const double *rest;
    const int64_t *marks;
    double *mse; /* [mark][method] */
    int64_t keep;
    REAL *history; /* [mark][method][feature], or nothing */
} NAME(Judge);

typedef struct {
    NAME(Data) data;
    NAME(Map) map;
    NAME(Plans) plans;
    NAME(Models) models;
    NAME(Judge) judge;
    NAME(Scratch) pad;
} NAME(Job);

/* Of rounds whose windows and features are known ahead: as in tables/player.py. */
typedef struct {
    int64_t rounds, clients, dim, shared;
    REAL *w, *local;                /* [dim], [client][dim] */
    const REAL *fresh, *known;      /* [round][client][dim]: to be predicted, and to learn from */
    const REAL *y;                  /* [round][client]: labels of the latter; not a number: none */
    const uint8_t *what;            /* [round] */
    const int64_t *start, *members; /* the cohort of round i: members[start[i]..start[i + 1]] */
    const int64_t *down, *up;       /* [member][shared] of rounds that open, and that close */
    double step;
    REAL *of_server, *of_client; /* [round][client]: predictions by w, and by w_k */
    double *total;               /* [dim] zeros */
} NAME(Stretch);
