/* The compiled engine: the verbs that numpy.py defines, with the same bits.

   This file contains, in this order: the cells of the grid, formulas, ranked labels, the verbs for each row, and the
   functions that Python calls. rows.h has the loops over the entries of a row. native.py calls these functions. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if !defined(__GNUC__)
#error "The compiled engine requires GNU C (GCC or Clang). Without it nacp uses the NumPy engine."
#endif
#if UINTPTR_MAX < UINT64_MAX || FLT_EVAL_METHOD != 0
#error "The compiled engine requires a 64-bit platform without excess precision. Otherwise nacp uses the NumPy engine."
#endif

/* A function that is compiled for several instruction sets; the processor determines which version is called. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

typedef int64_t i64;

enum { VECTOR_SIZE = 32 }; /* in bytes */

/* ---- The cells of the grid: see grid.py ---- */

enum {
    CELL_BITS = 10,
    LOWEST = -40,
    HIGHEST = 20,
    ALL = (HIGHEST - LOWEST + 1) << CELL_BITS, /* the number of distances from 0 or 1 */
    SMALL = (-1 - LOWEST) << CELL_BITS,        /* the number of distances below 1/2 */
    ZERO_CELL = ALL,
    HALF_CELL = ZERO_CELL + 1 + SMALL,
    ONE_CELL = HALF_CELL + 1 + SMALL,
    CELLS = ONE_CELL + 1 + ALL + 1
};

static inline int32_t clip(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Return the cell of a score, given also 1 - score without rounding errors. */
static inline int32_t cell_of(double score, double to_one)
{
    int low = score < 0.5;
    double distance = low ? score : to_one;
    int rising = low ? distance > 0 : !(to_one >= 0);
    double magnitude = fabs(distance);
    uint64_t word;
    memcpy(&word, &magnitude, sizeof word);
    word -= (uint64_t)(rising & (magnitude > 0));
    int32_t steps = clip((int32_t)(word >> (52 - CELL_BITS)) - ((1023 + LOWEST) << CELL_BITS) + 1, 0, ALL);
    return (low ? ZERO_CELL : ONE_CELL) + (rising ? steps + 1 : -steps);
}

WIDE static void cells_of(const double *restrict scores, i64 n, int32_t *restrict cells)
{
    for (i64 i = 0; i < n; i++) cells[i] = cell_of(scores[i], 1 - scores[i]);
}

/* ---- Rows ---- */

/* Round a probability to a multiple of 2^-52; numbers above 1 become 1. */
static inline double on_grid(double p) { return ((p < 1 ? p : 1.0) + 1.0) - 1.0; }

/* The functions of rows.h for rows of floats or of doubles. */
typedef struct {
    size_t size;
    int (*is_distribution)(const void *values, i64 k, double tolerance);
    double (*largest)(const void *values, i64 k);
    void (*fetch)(const void *values, const i64 *columns, i64 number, double *found);
    void (*widen)(const void *values, i64 k, double *found);
    i64 (*collect)(const void *values, i64 k, double limit, int below, int32_t *columns, double *found);
    void (*cells_of_probabilities)(const void *values, i64 k, int32_t *cells);
    void (*descend)(const void *ascending, i64 k, double *sorted);
    void (*sort)(const double *entries, const int32_t *columns, i64 n, void *room, double *sorted, int32_t *places);
    void (*stand)(const void *values, i64 k, double own, double *found);
    void (*top_two)(const void *values, i64 k, double *found);
} Entries;

#ifdef __SSE2__
static inline __m128i four_floats(const float *p, float bound, int below)
{
    __m128 x = _mm_loadu_ps(p), y = _mm_set1_ps(bound);
    return _mm_castps_si128(below ? _mm_cmple_ps(x, y) : _mm_cmpnlt_ps(x, y));
}

static inline __m128 two_doubles(const double *p, double bound, int below)
{
    __m128d x = _mm_loadu_pd(p), y = _mm_set1_pd(bound);
    return _mm_castpd_ps(below ? _mm_cmple_pd(x, y) : _mm_cmpnlt_pd(x, y));
}

static inline __m128i four_doubles(const double *p, double bound, int below)
{
    __m128 first = two_doubles(p, bound, below), second = two_doubles(p + 2, bound, below);
    return _mm_castps_si128(_mm_shuffle_ps(first, second, 0x88));
}
#endif

static struct {
    uint8_t places[8];
    int32_t number;
} bits_of[256]; /* the places of the bits of each byte, filled in when the module is imported */

/* Write `from` plus the places of the bits of a byte, in room for eight numbers; return the number of these bits. */
static inline int write_places(unsigned byte, int32_t from, int32_t *places)
{
    for (int i = 0; i < 8; i++) places[i] = from + bits_of[byte].places[i];
    return bits_of[byte].number;
}

#define REAL float
#define WORD int32_t
#define FRACTION 23
#define BIAS 127
#define EPSILON FLT_EPSILON
#define NEXT nextafterf
#define FOUR four_floats
#define NAME(name) name##_float
#include "rows.h"

#define REAL double
#define WORD int64_t
#define FRACTION 52
#define BIAS 1023
#define EPSILON DBL_EPSILON
#define NEXT nextafter
#define FOUR four_doubles
#define NAME(name) name##_double
#include "rows.h"

/* ---- The arguments of a verb (a block of rows and a score) and its working memory ---- */

enum { HPS, ENTRIES, RANKED };

/* The codes of formulas, as in codes.py. Codes up to U load a quantity. */
enum {
    P, ABOVE, UPTO, N_ABOVE, N_UPTO, TOP, SECOND, U, CONSTANT,
    ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM, EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL,
    NEGATIVE, ABSOLUTE, SQRT, WHERE, CODES,
    REPEAT /* an operation of `evaluate` that formulas do not contain */
};
enum { PER_LABEL = N_UPTO + 1, QUANTITIES = U + 1, LONGEST_FORMULA = 64, CHUNK = 256 };

typedef struct {
    int kernel;
    const int32_t *codes; /* pairs of a code and its argument */
    i64 length;
    const double *constants;
    const i64 *columns; /* the columns that are hashed for u */
    const uint64_t *keys;
    i64 hashed;
    int uses[QUANTITIES]; /* whether the formula contains each quantity */
} Score;

/* The labels of one row in descending order, and the quantities of formulas. */
typedef struct {
    double *entry, *p, *mass, *place; /* the entry and probability of each label; mass and number of those before it */
    int32_t *column;                /* the column of each label */
    i64 before;                     /* the number of larger labels, which are not ranked, and the smallest entry of them */
    double least;
    double *some;                   /* memory for entries that are not yet in order, and their columns */
    int32_t *some_columns;
    char *equal;                    /* whether each label equals the one before it */
    double *tied[PER_LABEL];        /* memory for the quantities of labels if there are ties */
    const double *label[PER_LABEL]; /* the quantities of each label */
    double row[QUANTITIES];         /* the quantities of the row */
    double *score;
    double *chunk[LONGEST_FORMULA]; /* the results of each step of the formula */
} Ranks;

/* The cells of some labels of one row. */
typedef struct {
    i64 labels;
    int32_t *cell, *column; /* If there are no columns, label j is in column j. */
} Cells;

enum { MOST_VIEWS = 16, MOST_MEMORY = 96, WORK_PER_ROW = 1 << 14, EXTRA_ROWS = 8, AT_ONCE = 32 };

typedef struct {
    const char *values, *ascending; /* the rows, and the sorted rows if the score is ranked */
    const i64 *order;               /* the columns of the sorted entries, or NULL */
    i64 rows, k;
    const Entries *entries;
    Score score;
    Ranks ranks;
    Cells cells;
    int32_t *columns; /* the columns of the entries of a row that were collected */
    double *found;    /* these entries */
    void *room;       /* memory for k entries */
    Py_buffer views[MOST_VIEWS];
    int n_views;
    void *memory[MOST_MEMORY];
    int n_memory, no_memory, falls; /* whether memory is missing, or scores fall along a row */
    i64 collected;                  /* the number of labels in `columns` and `found` */
    i64 work;                       /* of sorting: the sum of the squared numbers of labels */
    int unsorted;                   /* whether it is too much */
} Call;

/* Allocate memory that is freed at the end of the call; return NULL if there is none. */
static void *take(Call *call, i64 number, size_t size, int cleared)
{
    size_t all = (size_t)number;
    void *found = cleared ? calloc(all, size) : malloc((all ? all : 1) * size);
    if (!found) call->no_memory = 1;
    return found ? call->memory[call->n_memory++] = found : NULL;
}

static const void *row_of(const Call *call, i64 i)
{
    return call->values + (size_t)(i * call->k) * call->entries->size;
}

/* Load the row behind row i into the cache, while row i is processed. */
static void prefetch_next(const Call *call, i64 i)
{
    if (i + 1 == call->rows) return;
    const char *values = call->ascending ? call->ascending : call->values;
    const char *next = values + (size_t)((i + 1) * call->k) * call->entries->size;
    const char *end = next + (size_t)call->k * call->entries->size;
    for (; next < end; next += 64) __builtin_prefetch(next);
}

/* Allocate the memory for cells and scores of one row. */
static int prepare(Call *call)
{
    Ranks *ranks = &call->ranks;
    i64 k = call->k;
    call->cells.cell = take(call, k, sizeof(int32_t), 0);
    call->columns = take(call, k + 8, sizeof(int32_t), 0);
    call->found = take(call, k, sizeof(double), 0);
    call->room = take(call, k, sizeof(double), 0);
    if (call->score.kernel != RANKED) return !call->no_memory;
    ranks->equal = take(call, k, 1, 0);
    ranks->entry = take(call, k, sizeof(double), 0);
    ranks->column = take(call, k, sizeof(int32_t), 1); /* `sort` does not write all places if there are NaN. */
    ranks->some = take(call, k, sizeof(double), 0);
    ranks->some_columns = take(call, k, sizeof(int32_t), 0);
    ranks->p = take(call, k, sizeof(double), 0);
    ranks->mass = take(call, k + 1, sizeof(double), 1);
    ranks->place = take(call, k + 1, sizeof(double), 0);
    ranks->score = take(call, k, sizeof(double), 0);
    for (int q = ABOVE; q < PER_LABEL; q++) ranks->tied[q] = take(call, k, sizeof(double), 0);
    for (i64 step = 0; step < call->score.length; step++)
        ranks->chunk[step] = take(call, CHUNK, sizeof(double), 0);
    if (call->no_memory) return 0;
    for (i64 j = 0; j <= k; j++) ranks->place[j] = (double)j;
    for (i64 step = 0; step < call->score.length; step++)
        if (call->score.codes[2 * step] == CONSTANT)
            for (i64 i = 0; i < CHUNK; i++)
                ranks->chunk[step][i] = call->score.constants[call->score.codes[2 * step + 1]];
    return 1;
}

/* ---- The uniform number u of a row: see hashing.py ---- */

static uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static uint64_t hash_of(double value, uint64_t key)
{
    uint64_t word;
    value += 0.0; /* This turns -0.0 into 0.0. */
    memcpy(&word, &value, sizeof word);
    return mixed(word ^ key);
}

static double uniform_of(const Call *call, i64 i, double largest)
{
    const Score *score = &call->score;
    const void *row = row_of(call, i);
    double value[CHUNK];
    call->entries->fetch(row, score->columns, score->hashed, value);
    uint64_t sum = hash_of(largest, score->keys[score->hashed]);
    for (i64 c = 0; c < score->hashed; c++) sum += hash_of(value[c], score->keys[c]);
    return (double)(mixed(sum) >> 11) * 0x1p-53;
}

/* ---- Formulas ---- */

/* Return the number of operands that an operation takes from the stack. */
static int operands_of(int code) { return code <= CONSTANT ? 0 : code < NEGATIVE ? 2 : code < WHERE ? 1 : 3; }

#define EACH(value)                                  \
    for (i64 i = 0; i < n; i++) out[i] = (value); \
    break

/* Apply one operation to the n labels of a chunk. */
WIDE static void operate(int code, i64 n, const double *restrict a, const double *restrict b, const double *restrict c,
                         double *restrict out)
{
    switch (code) {
    case ADD: EACH(a[i] + b[i]);
    case SUBTRACT: EACH(a[i] - b[i]);
    case MULTIPLY: EACH(a[i] * b[i]);
    case DIVIDE: EACH(a[i] / b[i]);
    case MAXIMUM: EACH(a[i] >= b[i] || a[i] != a[i] ? a[i] : b[i]);
    case MINIMUM: EACH(a[i] <= b[i] || a[i] != a[i] ? a[i] : b[i]);
    case EQUAL: EACH(a[i] == b[i] ? 1.0 : 0.0);
    case NOT_EQUAL: EACH(a[i] != b[i] ? 1.0 : 0.0);
    case LESS: EACH(a[i] < b[i] ? 1.0 : 0.0);
    case LESS_EQUAL: EACH(a[i] <= b[i] ? 1.0 : 0.0);
    case GREATER: EACH(a[i] > b[i] ? 1.0 : 0.0);
    case GREATER_EQUAL: EACH(a[i] >= b[i] ? 1.0 : 0.0);
    case NEGATIVE: EACH(-a[i]);
    case ABSOLUTE: EACH(fabs(a[i]));
    case SQRT: EACH(sqrt(a[i]));
    case WHERE: EACH(a[i] != 0 ? b[i] : c[i]);
    case REPEAT: EACH(*a);
    default: break;
    }
}

/* Score the first n labels; a score of -inf becomes the lowest finite number. */
static void evaluate(Call *call, i64 n)
{
    Ranks *ranks = &call->ranks;
    const Score *score = &call->score;
    for (i64 from = 0; from < n; from += CHUNK) {
        const double *stack[LONGEST_FORMULA + 3] = {NULL};
        i64 depth = 0, number = n - from < CHUNK ? n - from : CHUNK;
        for (i64 step = 0; step < score->length; step++) {
            int code = score->codes[2 * step];
            double *out = code > CONSTANT && step + 1 == score->length ? ranks->score + from : ranks->chunk[step];
            depth -= operands_of(code);
            if (code > CONSTANT) operate(code, number, stack[depth], stack[depth + 1], stack[depth + 2], out);
            else if (code >= PER_LABEL && code < CONSTANT && !from) operate(REPEAT, number, ranks->row + code, NULL, NULL, out);
            stack[depth++] = code < PER_LABEL ? ranks->label[code] + from : out;
        }
        if (stack[0] != ranks->score + from) memcpy(ranks->score + from, stack[0], (size_t)number * sizeof(double));
    }
    for (i64 j = 0; j < n && ranks->score[j] < -DBL_MAX; j++) ranks->score[j] = -DBL_MAX; /* Scores do not fall. */
}

/* ---- Ranked labels ---- */

/* Give equal labels equal quantities, from the first and the last label of their run. */
static void share_ranks(Ranks *ranks, i64 n, const double *place)
{
    const double *mass = ranks->mass;
    for (i64 first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && ranks->equal[end];) end++;
        for (i64 j = first; j < end; j++) {
            ranks->tied[ABOVE][j] = mass[first], ranks->tied[UPTO][j] = mass[end];
            ranks->tied[N_ABOVE][j] = place[first], ranks->tied[N_UPTO][j] = place[end];
        }
    }
    for (int q = ABOVE; q < PER_LABEL; q++) ranks->label[q] = ranks->tied[q];
}

/* Find the probabilities of n labels and which of them equal the one before them. Return whether some do. */
WIDE static int prepare_labels(Ranks *ranks, i64 n)
{
    double *restrict p = ranks->p;
    const double *restrict entry = ranks->entry;
    char *restrict equal = ranks->equal;
    int some = 0;
    for (i64 j = 0; j < n; j++) p[j] = on_grid(entry[j]);
    for (i64 j = 1; j < n; j++) some |= entry[j] == entry[j - 1];
    for (i64 j = 1; some && j < n; j++) equal[j] = entry[j] == entry[j - 1];
    return some;
}

/* Return whether some score is lower than the one before it, or is NaN. */
WIDE static int falls(const double *score, i64 n)
{
    i64 found = 0;
    for (i64 j = 1; j < n; j++) found |= !(score[j] >= score[j - 1]);
    return found != 0;
}

/* Score n labels of a row, whose entries are in descending order, after `before` others with a sum of `sum`. */
static void score_ranked(Call *call, i64 n, double sum, i64 before)
{
    Ranks *ranks = &call->ranks;
    double *p = ranks->p, *mass = ranks->mass;
    const double *place = ranks->place + before;
    i64 j = 0;
    int ties = prepare_labels(ranks, n);
    for (mass[0] = sum; j + 8 <= n; j += 8) { /* Sums are exact in any order. */
        double first[4] = {p[j], p[j] + p[j + 1], p[j + 2], p[j + 2] + p[j + 3]};
        double second[4] = {p[j + 4], p[j + 4] + p[j + 5], p[j + 6], p[j + 6] + p[j + 7]};
        double four = first[1] + first[3], six = four + second[1];
        mass[j + 1] = sum + first[0], mass[j + 2] = sum + first[1];
        mass[j + 3] = sum + (first[1] + first[2]), mass[j + 4] = sum + four;
        mass[j + 5] = sum + (four + second[0]), mass[j + 6] = sum + six;
        mass[j + 7] = sum + (six + second[2]), mass[j + 8] = sum += six + second[3];
    }
    for (; j < n; j++) mass[j + 1] = sum += p[j];
    ranks->label[P] = p, ranks->label[ABOVE] = mass, ranks->label[UPTO] = mass + 1;
    ranks->label[N_ABOVE] = place, ranks->label[N_UPTO] = place + 1;
    if (ties) share_ranks(ranks, n, place);
    evaluate(call, n);
    call->falls |= falls(ranks->score, n) || ranks->score[0] != ranks->score[0];
}

/* Return the score of a label with a probability and a standing: see `stand`. */
static double score_one(Call *call, double p, const double *standing)
{
    Ranks *ranks = &call->ranks;
    ranks->p[0] = p, ranks->label[P] = ranks->p;
    for (int q = ABOVE; q < PER_LABEL; q++) ranks->label[q] = standing + (q - ABOVE);
    evaluate(call, 1);
    return ranks->score[0];
}

/* Keep the labels that are larger or smaller than a pivot. Return their number. */
static i64 keep_labels(const double *entries, const int32_t *columns, i64 n, double pivot, int larger, Ranks *ranks)
{
    i64 kept = 0;
    for (i64 j = 0; j < n; j++) { /* The arrays may be the same: `kept` is at most j. */
        double entry = entries[j];
        ranks->some[kept] = entry, ranks->some_columns[kept] = columns[j];
        kept += larger ? entry > pivot : entry < pivot;
    }
    return kept;
}

/* Return whether the labels that were not collected, all smaller, have scores above `high`. */
static int rest_is_above(Call *call, double high)
{
    const double *entry = call->found;
    double least = entry[0], standing[4];
    if (call->collected == call->k) return 1;
    for (i64 j = 1; j < call->collected; j++) least = entry[j] < least ? entry[j] : least;
    entries_double.stand(entry, call->collected, least, standing);
    return score_one(call, on_grid(least), standing) > high;
}

/* Rank collected labels of row i: those with scores between two limits, and a few others. Those before them have scores
   up to `low`. Return their number. */
static i64 rank_between(Call *call, i64 i, double low, double high)
{
    Ranks *ranks = &call->ranks;
    const double *entry = call->found;
    const int32_t *column = call->columns;
    double base[4] = {0}, standing[4]; /* the mass and number of the labels before those that are left */
    i64 n = call->collected;
    while (n > AT_ONCE) { /* Choose a label, and find on which side of it the limits are. */
        double pivot = entry[n / 2];
        entries_double.stand(entry, n, pivot, standing);
        for (int q = 0; q < 4; q++) standing[q] += base[q & 2];
        double score = score_one(call, on_grid(pivot), standing);
        if (!(score <= low || score > high)) break;
        int larger = score > high;
        n = keep_labels(entry, column, n, pivot, larger, ranks), entry = ranks->some, column = ranks->some_columns;
        if (!larger) base[0] = standing[1], base[2] = standing[3], ranks->least = pivot;
    }
    call->work += n * n;
    ranks->before = (i64)base[2];
    if (call->work > (i + EXTRA_ROWS) * WORK_PER_ROW) return call->unsorted = 1, 0;
    call->entries->sort(entry, column, n, call->room, ranks->entry, ranks->column);
    if (n) score_ranked(call, n, base[0], ranks->before);
    return n;
}

/* Rank the labels of row i, at least those with scores from `low` to `high`. Scores do not decrease in this order.
   Return the number of these labels, or 0 if the rows should be sorted first: `sort` takes long for many. */
static i64 rank_row(Call *call, i64 i, double low, double high)
{
    Ranks *ranks = &call->ranks;
    const void *row = row_of(call, i);
    i64 k = call->k;
    ranks->before = 0, ranks->least = INFINITY, call->collected = 0;
    if (call->ascending) {
        call->entries->descend(call->ascending + (size_t)(i * k) * call->entries->size, k, ranks->entry);
        if (call->order)
            for (i64 j = 0; j < k; j++) ranks->column[j] = (int32_t)call->order[(i + 1) * k - 1 - j];
        ranks->row[TOP] = on_grid(ranks->entry[0]), ranks->row[SECOND] = k > 1 ? on_grid(ranks->entry[1]) : 0;
        if (call->score.keys) ranks->row[U] = uniform_of(call, i, ranks->entry[0]);
        return score_ranked(call, k, 0, 0), k;
    }
    if (call->score.uses[TOP] || call->score.uses[SECOND]) call->entries->top_two(row, k, ranks->row + TOP);
    for (double cut = 1.0 / (double)k;; cut = cut * (double)k > 1e-4 ? cut / 16 : -INFINITY) {
        int first = !call->collected;
        call->collected = call->entries->collect(row, k, cut, 0, call->columns, call->found);
        if (!call->collected) continue;
        if (first && call->score.keys) ranks->row[U] = uniform_of(call, i, entries_double.largest(call->found, call->collected));
        if (rest_is_above(call, high)) return rank_between(call, i, low, high);
    }
}

/* ---- The cells of a row ---- */

/* Find the cells of the labels of row i, at least of those with scores from `low` to `limit`. Labels with lower scores
   are in `cells`, or they are the collected labels whose entry is at least ranks.least. */
static void cells_of_row(Call *call, i64 i, double low, double limit)
{
    Cells *cells = &call->cells;
    const Entries *entries = call->entries;
    prefetch_next(call, i);
    if (call->score.kernel == RANKED) {
        cells->labels = rank_row(call, i, low, limit), cells->column = call->ranks.column;
        cells_of(call->ranks.score, cells->labels, cells->cell);
        return;
    }
    int is_hps = call->score.kernel == HPS;
    i64 n = call->k;
    cells->column = NULL;
    if (limit < INFINITY) {
        n = entries->collect(row_of(call, i), call->k, is_hps ? -limit : limit, !is_hps, call->columns, call->found);
        cells->column = call->columns;
    } else if (!is_hps) {
        entries->widen(row_of(call, i), n, call->found);
    }
    cells->labels = n;
    if (is_hps && n > call->k / 8) {
        entries->cells_of_probabilities(row_of(call, i), call->k, cells->cell);
        cells->labels = call->k, cells->column = NULL;
    } else if (is_hps) {
        for (i64 j = 0; j < n; j++) cells->cell[j] = cell_of(1 - call->found[j], call->found[j]);
    } else {
        for (i64 j = 0; j < n; j++) call->found[j] = call->found[j] < -DBL_MAX ? -DBL_MAX : call->found[j];
        cells_of(call->found, n, cells->cell);
    }
}

/* ---- tally ---- */

/* Histograms over all cells: pairs, and the sums of positive and of negative weights. */
typedef struct {
    uint32_t *pairs;
    uint64_t (*weights)[2];
} Counts;

static void count_row(const Cells *cells, const i64 *weights, Counts *counts)
{
    const int32_t *cell = cells->cell;
    for (i64 j = 0; j < cells->labels; j++) counts->pairs[cell[j]]++;
    for (i64 j = 0; weights && j < cells->labels; j++) {
        i64 weight = weights[cells->column ? cells->column[j] : j], negative = weight >> 63;
        /* Sums wrap around as in NumPy. */
        counts->weights[cell[j]][negative & 1] += (uint64_t)(weight ^ negative) - (uint64_t)negative;
    }
}

typedef struct {
    const i64 *which, *table; /* Row i has the weights table[which[i]]; if table is NULL, all weights are 1. */
} Weights;

static const i64 *weights_of(const Weights *weights, const Call *call, i64 i)
{
    return weights->table ? weights->table + weights->which[i] * call->k : NULL;
}

/* Count pairs by cell, from the first to the last cell that contains a pair: one histogram, or three with weights. Return
   the number of these cells, or -1 if there is no memory. */
static i64 tally_rows(Call *call, const Weights *weights, i64 *first, i64 **found)
{
    i64 last = CELLS, measures = weights->table ? 3 : 1;
    Counts counts = {take(call, CELLS, sizeof *counts.pairs, 1), NULL};
    if (weights->table) counts.weights = take(call, CELLS, sizeof *counts.weights, 1);
    if (!prepare(call)) return -1;
    for (i64 i = 0; i < call->rows; i++) {
        cells_of_row(call, i, -INFINITY, INFINITY);
        count_row(&call->cells, weights_of(weights, call, i), &counts);
    }
    while (last > 0 && !counts.pairs[last - 1]) last--;
    for (*first = 0; *first < last && !counts.pairs[*first];) ++*first;
    i64 n = last - *first, *out = *found = take(call, measures * n, sizeof *out, 0);
    for (i64 j = 0, c = *first; out && j < n; j++, c++) {
        out[j] = (i64)counts.pairs[c];
        for (i64 m = 1; m < measures; m++) out[m * n + j] = (i64)counts.weights[c][m - 1];
    }
    return out ? n : -1;
}

/* ---- shares ---- */

enum { COARSE_BITS = 3 };

/* Thresholds as ascending cells, with a lookup table: for every 8th cell, the first threshold that is not below it. */
typedef struct {
    const i64 *cells;
    i64 number, start;
    int32_t *first;
    double low, high; /* the smallest and the largest native threshold */
} Thresholds;

static int index_thresholds(Call *call, Thresholds *thresholds)
{
    const i64 *cells = thresholds->cells;
    i64 first = cells[0] >> COARSE_BITS, last = cells[thresholds->number - 1] >> COARSE_BITS;
    thresholds->start = first;
    thresholds->first = take(call, last - first + 1, sizeof(int32_t), 0);
    if (!thresholds->first) return 0;
    for (i64 c = first, t = 0; c <= last; c++) {
        while (cells[t] < c << COARSE_BITS) t++;
        thresholds->first[c - first] = (int32_t)t;
    }
    return 1;
}

/* Return the first threshold that is not below a cell; the number of thresholds if all are below. */
static inline i64 threshold_of(const Thresholds *thresholds, i64 cell)
{
    const i64 *cells = thresholds->cells;
    if (cell <= cells[0]) return 0;
    if (cell > cells[thresholds->number - 1]) return thresholds->number;
    i64 t = thresholds->first[(cell >> COARSE_BITS) - thresholds->start];
    while (cells[t] < cell) t++;
    return t;
}

/* Add the weight of each label of a row to the first threshold that is not below its cell. */
static void weigh_row(const Call *call, const i64 *weights, const Thresholds *thresholds, uint64_t *weight)
{
    const Cells *cells = &call->cells;
    if (call->score.kernel == RANKED && !weights) weight[0] += (uint64_t)call->ranks.before;
    for (i64 j = 0; call->score.kernel == RANKED && weights && call->ranks.before && j < call->collected; j++)
        if (call->found[j] >= call->ranks.least) weight[0] += (uint64_t)weights[call->columns[j]];
    for (i64 j = 0; j < cells->labels; j++) {
        i64 own = weights ? weights[cells->column ? cells->column[j] : j] : 1;
        weight[threshold_of(thresholds, cells->cell[j])] += (uint64_t)own;
    }
}

typedef struct {
    const double *own;
    const i64 *cells;
    i64 number; /* per row */
} Given;

/* Write the prefix sums of integers, multiplied by `scale`, and set the integers to 0. */
WIDE static void write_sums(uint64_t *restrict weight, i64 number, double scale, double *restrict out)
{
    uint64_t sum = 0;
    for (i64 t = 0; t < number; t++) weight[t] = sum += weight[t];
    for (i64 t = 0; t < number; t++) out[t] = (double)(i64)weight[t] * scale + 0.0; /* no -0.0 */
    memset(weight, 0, (size_t)number * sizeof *weight);
}

/* Write the shares of rows at one or more thresholds. */
static int share_rows(Call *call, const Weights *weights, Thresholds *thresholds, const Given *given, double scale,
                      double *out)
{
    i64 number = thresholds->number;
    uint64_t *weight = take(call, number + 1, sizeof *weight, 1);
    if (!prepare(call) || !index_thresholds(call, thresholds)) return 0;
    for (i64 i = 0; i < call->rows; i++, out += number) {
        const i64 *own = weights_of(weights, call, i);
        cells_of_row(call, i, thresholds->low, thresholds->high);
        if (call->unsorted) return 1;
        weigh_row(call, own, thresholds, weight);
        write_sums(weight, number, scale, out);
        for (i64 g = i * given->number; g < (i + 1) * given->number; g++) {
            for (i64 t = threshold_of(thresholds, given->cells[g]); t < number; t++) out[t] += given->own[g];
        }
    }
    return 1;
}

/* ---- sets ---- */

typedef struct {
    const double *value;
    i64 rows, labels; /* their numbers; 1 if the thresholds are the same for all rows or labels */
} Limits;

/* Write the labels of row i whose native score is at most the threshold of the label. */
static i64 set_by_label(Call *call, i64 i, const double *limits, int32_t *labels)
{
    i64 n = 0;
    call->entries->widen(row_of(call, i), call->k, call->found);
    for (i64 j = 0; j < call->k; j++) {
        double entry = call->found[j], score = call->score.kernel == HPS ? -entry : entry < -DBL_MAX ? -DBL_MAX : entry;
        labels[n] = (int32_t)j;
        n += score <= limits[j];
    }
    return n;
}

/* Write the set of row i for a ranked score and one threshold. */
static i64 ranked_set(Call *call, i64 i, double limit, int32_t *labels)
{
    const Ranks *ranks = &call->ranks;
    i64 n = rank_row(call, i, limit, limit), inside = 0;
    while (inside < n && ranks->score[inside] <= limit) inside++;
    if (!inside && !ranks->before) return 0;
    double least = inside ? ranks->entry[inside - 1] : ranks->least;
    if (call->ascending || call->collected > call->k / 4)
        return call->entries->collect(row_of(call, i), call->k, least, 0, labels, NULL);
    i64 size = 0;
    for (i64 j = 0; j < call->collected; j++) {
        labels[size] = call->columns[j];
        size += call->found[j] >= least;
    }
    return size;
}

static i64 set_of_row(Call *call, i64 i, const Limits *limits, int allow_empty, int32_t *labels)
{
    const void *row = row_of(call, i);
    double limit = limits->value[limits->rows > 1 ? i : 0];
    int kernel = call->score.kernel, below = kernel == ENTRIES;
    i64 n = 0;
    prefetch_next(call, i);
    if (limits->labels > 1) n = set_by_label(call, i, limits->value, labels);
    else if (kernel == RANKED) n = ranked_set(call, i, limit, labels);
    else if (limit >= (below ? -DBL_MAX : -INFINITY)) /* This is false for NaN. */
        n = call->entries->collect(row, call->k, below ? limit : -limit, below, labels, NULL);
    if (n || allow_empty) return n;
    double best = below ? INFINITY : call->entries->largest(row, call->k);
    if (below) {
        call->entries->widen(row, call->k, call->found);
        for (i64 j = 0; j < call->k; j++) best = call->found[j] < best ? call->found[j] : best;
        best = best < -DBL_MAX ? -DBL_MAX : best;
    }
    return call->entries->collect(row, call->k, best, below, labels, NULL);
}

/* Write the sizes of sets; return their labels, row by row, in memory that the caller frees. */
static int32_t *set_rows(Call *call, const Limits *limits, int allow_empty, i64 *sizes, i64 *total)
{
    i64 room = call->k + 8 + 8 * call->rows;
    int32_t *labels = malloc((size_t)room * sizeof *labels);
    *total = 0;
    call->no_memory |= !labels || !prepare(call);
    for (i64 i = 0; i < call->rows && !call->no_memory && !call->unsorted; i++) {
        if (room - *total < call->k + 8) {
            room = room * 2 + call->k + 8;
            int32_t *larger = realloc(labels, (size_t)room * sizeof *labels);
            call->no_memory |= !larger;
            labels = larger ? larger : labels;
            if (!larger) break;
        }
        *total += sizes[i] = set_of_row(call, i, limits, allow_empty, labels + *total);
    }
    return labels;
}

/* ---- label_scores ---- */

static double score_of_label(Call *call, i64 i, i64 column)
{
    const void *row = row_of(call, i);
    double own, standing[4];
    Ranks *ranks = &call->ranks;
    call->entries->fetch(row, &column, 1, &own);
    if (call->score.kernel != RANKED) return call->score.kernel == HPS ? -own : own < -DBL_MAX ? -DBL_MAX : own;
    call->entries->stand(row, call->k, own, standing);
    if (call->score.uses[TOP] || call->score.uses[SECOND]) call->entries->top_two(row, call->k, ranks->row + TOP);
    if (call->score.keys) ranks->row[U] = uniform_of(call, i, call->entries->largest(row, call->k));
    return score_one(call, on_grid(own), standing);
}

/* ---- bet: see betting.py ---- */

enum { OPEN, WON, LOST };
enum { BET_OCTAVES = 64, BET_BITS = 6, HEDGES = BET_OCTAVES << BET_BITS, BETS_AT_ONCE = 16 };
enum { WEALTH, SUMS, SQUARES, STAKE, GROWTH, HIGHEST_GROWTH, NEW_SUMS, NEW_SQUARES, STATE };

typedef struct {
    double *state[STATE]; /* for each quantity, its value for every bet */
    const double *most, *shares, *hedges, *slopes;
    const i64 *stops;
    const int8_t *changes;
    i64 *outcome, bets, points, seen, n_stops;
    double target, per_width, delta;
} Game;

/* Set the stakes of some bets to those that hedge the goal "wealth 1/delta after all points". */
WIDE static void change_stakes(const Game *game, i64 from, i64 to)
{
    const double seen = (double)game->seen, left = (double)(game->stops[game->n_stops - 1] - game->seen);
    const double *restrict wealth = game->state[WEALTH], *restrict sums = game->state[SUMS];
    const double *restrict squares = game->state[SQUARES], *restrict most = game->most;
    double *restrict stake = game->state[STAKE];
    for (i64 b = from; b < to; b++) {
        double reach = wealth[b] * game->delta < 1.0 ? wealth[b] * game->delta : 1.0;
        reach *= 1 / 1.05;
        reach = reach > 0x1p-64 ? reach : 0x1p-64;
        i64 word;
        memcpy(&word, &reach, sizeof word);
        i64 place = (word >> (52 - BET_BITS)) - ((i64)(1023 - BET_OCTAVES) << BET_BITS);
        double hedge = (game->hedges[place] + game->slopes[place] * reach) / sqrt(squares[b] / (seen + 1) * left);
        double growing = 0.5 * sums[b] / squares[b], half = 0.5 * most[b];
        growing = growing < half ? growing : half;
        hedge = hedge < most[b] ? hedge : most[b];
        stake[b] = sums[b] > 5.0 * sqrt(squares[b]) ? growing : hedge;
    }
}

/* Update some bets point by point, with their state in registers. */
static inline __attribute__((always_inline)) void place_bets(const Game *game, i64 from, i64 bets, i64 first, i64 points)
{
    double stake[BETS_AT_ONCE], grown[BETS_AT_ONCE], most[BETS_AT_ONCE], sum[BETS_AT_ONCE], square[BETS_AT_ONCE];
    const double *share = game->shares + first * game->bets + from;
    size_t size = sizeof(double) * (size_t)bets;
    memcpy(stake, game->state[STAKE] + from, size), memcpy(grown, game->state[GROWTH] + from, size);
    memcpy(most, game->state[HIGHEST_GROWTH] + from, size), memcpy(sum, game->state[NEW_SUMS] + from, size);
    memcpy(square, game->state[NEW_SQUARES] + from, size);
    for (i64 i = 0; i < points; i++, share += game->bets)
        for (i64 b = 0; b < bets; b++) {
            double gain = (share[b] - game->target) * game->per_width;
            grown[b] *= stake[b] * gain + 1;
            most[b] = grown[b] > most[b] ? grown[b] : most[b];
            sum[b] += gain;
            square[b] += gain * gain;
        }
    memcpy(game->state[GROWTH] + from, grown, size), memcpy(game->state[HIGHEST_GROWTH] + from, most, size);
    memcpy(game->state[NEW_SUMS] + from, sum, size), memcpy(game->state[NEW_SQUARES] + from, square, size);
}

WIDE static void bet_on_points(const Game *game, i64 from, i64 to, i64 first, i64 points)
{
    for (; from + BETS_AT_ONCE <= to; from += BETS_AT_ONCE) place_bets(game, from, BETS_AT_ONCE, first, points);
    place_bets(game, from, to - from, first, points);
}

/* Determine which bets are won or lost, and reset the growth and the new sums. */
static void judge(const Game *game, i64 from, i64 to)
{
    double *const *state = game->state;
    for (i64 b = from; b < to; b++) {
        int won = state[WEALTH][b] * state[HIGHEST_GROWTH][b] >= 1 / game->delta;
        state[WEALTH][b] *= state[GROWTH][b];
        state[SQUARES][b] += state[NEW_SQUARES][b];
        state[SUMS][b] += state[NEW_SUMS][b];
        int lost = state[WEALTH][b] < 1e-200 || state[SUMS][b] < -8.0 * sqrt(state[SQUARES][b]);
        state[GROWTH][b] = 1;
        state[HIGHEST_GROWTH][b] = state[NEW_SUMS][b] = state[NEW_SQUARES][b] = 0;
        if (game->outcome[b] == OPEN) game->outcome[b] = won ? WON : lost ? LOST : OPEN;
    }
}

static void play_points(Game *game)
{
    i64 place = 0, played = 0, from = 0, to = game->bets;
    while (place + 1 < game->n_stops && game->stops[place + 1] <= game->seen) place++;
    while (played < game->points) {
        while (from < to && game->outcome[from] != OPEN) from++;
        while (from < to && game->outcome[to - 1] != OPEN) to--;
        if (from == to || place + 1 == game->n_stops) break;
        if (game->seen == game->stops[place] && game->changes[place]) change_stakes(game, from, to);
        i64 until = game->stops[place + 1] - game->seen, left = game->points - played;
        i64 points = left < until ? left : until;
        bet_on_points(game, from, to, played, points);
        played += points, game->seen += points;
        if (points < until) break;
        place++;
        judge(game, from, to);
    }
}

/* ---- Functions that Python calls ---- */

static int refuse(const char *what)
{
    PyErr_SetString(PyExc_ValueError, what);
    return 0;
}

/* Release the buffers and the memory of a call. */
static void call_end(Call *call)
{
    while (call->n_views) PyBuffer_Release(&call->views[--call->n_views]);
    while (call->n_memory) free(call->memory[--call->n_memory]);
    free(call);
}

enum { READ, WRITE };

/* Return the buffer of an array whose type is one of `types`, which are format characters of the module struct. */
static const Py_buffer *array_of(Call *call, PyObject *object, const char *types, int dimensions, int use)
{
    Py_buffer *view = &call->views[call->n_views];
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT | (use == WRITE ? PyBUF_WRITABLE : 0)) < 0)
        return NULL;
    call->n_views++;
    const char *type = view->format;
    if (!type || !type[0] || type[1] || !strchr(types, type[0]) || view->ndim != dimensions ||
        !PyBuffer_IsContiguous(view, 'C') || (uintptr_t)view->buf % (uintptr_t)view->itemsize) {
        refuse("an array has the wrong type or number of dimensions, or is not contiguous and aligned");
        return NULL;
    }
    return view;
}

/* Return the items of a vector. Check its length, or write it if *length is -1. */
static void *vector_of(Call *call, PyObject *object, const char *types, int use, i64 *length)
{
    const Py_buffer *view = array_of(call, object, types, 1, use);
    if (!view || (*length >= 0 && *length != view->shape[0] && !refuse("an array has the wrong length"))) return NULL;
    *length = view->shape[0];
    return view->buf;
}

#define INT64 "lq"

static void *ints_of(Call *call, PyObject *object, i64 length, i64 least, i64 end)
{
    i64 *found = vector_of(call, object, INT64, READ, &length);
    for (i64 i = 0; found && i < length; i++)
        if (found[i] < least || found[i] >= end) return refuse("an index is out of range"), NULL;
    return found;
}

static void *outputs_of(Call *call, PyObject *object, const char *types, i64 length)
{
    return vector_of(call, object, types, WRITE, &length);
}

static Call *call_begin(void)
{
    Call *call = calloc(1, sizeof *call);
    if (!call) PyErr_NoMemory();
    return call;
}

static int rows_open(Call *call, PyObject *values)
{
    const Py_buffer *view = array_of(call, values, "fd", 2, READ);
    if (!view) return 0;
    call->values = view->buf, call->rows = view->shape[0], call->k = view->shape[1];
    call->entries = view->format[0] == 'f' ? &entries_float : &entries_double;
    if (call->k < 1 || call->k > INT32_MAX / 4) return refuse("rows have no entries, or too many");
    return call->rows <= UINT32_MAX / call->k || refuse("a block has too many pairs");
}

/* Read the columns that are hashed for u and their keys, of which there is one more; or None and None. */
static int hashing_open(Call *call, PyObject *columns, PyObject *keys)
{
    Score *score = &call->score;
    i64 number = -1;
    if (columns == Py_None) return 1;
    score->columns = vector_of(call, columns, INT64, READ, &number);
    if (!score->columns) return 0;
    for (i64 c = 0; c < number; c++)
        if (score->columns[c] < 0 || score->columns[c] >= call->k) return refuse("a hashed column does not exist");
    if (number > CHUNK) return refuse("too many columns are hashed");
    score->hashed = number++;
    score->keys = vector_of(call, keys, "LQ", READ, &number);
    return score->keys != NULL;
}

/* Return whether the codes and constants are a valid formula. */
static int formula_fits(Score *score, i64 codes, i64 constants)
{
    i64 depth = 0;
    if (codes % 2 || score->length > LONGEST_FORMULA) return 0;
    for (i64 step = 0; step < score->length; step++) {
        int code = score->codes[2 * step], argument = score->codes[2 * step + 1];
        if (code < 0 || code >= CODES || (code == U && !score->keys)) return 0;
        if (code < QUANTITIES) score->uses[code] = 1;
        if (code == CONSTANT && (argument < 0 || argument >= constants)) return 0;
        depth -= operands_of(code);
        if (depth < 0) return 0;
        depth++;
    }
    return depth == 1;
}

/* Read rows and a score: (kernel, codes, constants, columns, keys). */
static int block_open(Call *call, PyObject *values, PyObject *described)
{
    PyObject *codes, *constants, *columns, *keys;
    Score *score = &call->score;
    i64 number = -1, number_of_constants = -1;
    if (!PyTuple_Check(described)) return refuse("a score is described by a tuple");
    if (!rows_open(call, values) ||
        !PyArg_ParseTuple(described, "iOOOO", &score->kernel, &codes, &constants, &columns, &keys))
        return 0;
    if (score->kernel < HPS || score->kernel > RANKED) return refuse("there is no such kernel");
    if (score->kernel != RANKED) return 1;
    if (!hashing_open(call, columns, keys)) return 0;
    score->codes = vector_of(call, codes, "i", READ, &number);
    if (!score->codes) return 0;
    score->constants = vector_of(call, constants, "d", READ, &number_of_constants);
    if (!score->constants) return 0;
    score->length = number / 2;
    return formula_fits(score, number, number_of_constants) || refuse("a formula is not well formed");
}

/* Read sorted rows and the columns of their entries, or None: (ascending, columns), or None. */
static int order_open(Call *call, PyObject *sorted)
{
    PyObject *ascending, *columns;
    if (sorted == Py_None) return 1;
    if (!PyTuple_Check(sorted)) return refuse("sorted rows are not a tuple");
    if (!PyArg_ParseTuple(sorted, "OO", &ascending, &columns)) return 0;
    const Py_buffer *view = array_of(call, ascending, call->entries == &entries_float ? "f" : "d", 2, READ);
    if (!view) return 0;
    call->ascending = view->buf;
    if (view->shape[0] != call->rows || view->shape[1] != call->k) return refuse("sorted rows have another shape");
    if (columns == Py_None) return 1;
    if (!(view = array_of(call, columns, INT64, 2, READ))) return 0;
    call->order = view->buf;
    if (view->shape[0] != call->rows || view->shape[1] != call->k) return refuse("columns have another shape");
    for (i64 i = 0; i < call->rows * call->k; i++)
        if (call->order[i] < 0 || call->order[i] >= call->k) return refuse("a column does not exist");
    return 1;
}

static int weights_open(Call *call, PyObject *which, PyObject *table, Weights *weights)
{
    if (table == Py_None) return 1;
    const Py_buffer *view = array_of(call, table, INT64, 2, READ);
    if (!view) return 0;
    if (view->shape[1] != call->k) return refuse("a table of weights needs one column per label");
    if (call->ascending && !call->order) return refuse("weights need the columns of sorted entries");
    weights->table = view->buf;
    weights->which = ints_of(call, which, call->rows, 0, view->shape[0]);
    return weights->which != NULL;
}

/* End a call: return the result (None if it is NULL or rows should be sorted), or raise an error if it failed. */
static PyObject *finish(Call *call, int good, PyObject *result)
{
    int no_memory = call->no_memory;
    if (call->unsorted) Py_CLEAR(result);
    if (call->falls && !PyErr_Occurred()) PyErr_SetString(PyExc_ArithmeticError, "scores fall along a row");
    call_end(call);
    if (good && !no_memory && !PyErr_Occurred()) return result ? result : Py_NewRef(Py_None);
    Py_XDECREF(result);
    if (!PyErr_Occurred()) PyErr_NoMemory();
    return NULL;
}

static PyObject *native_check(PyObject *module, PyObject *arguments)
{
    PyObject *values;
    double tolerance;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Od", &values, &tolerance)) return NULL;
    Call *call = call_begin();
    if (!call) return NULL;
    if (!rows_open(call, values)) return finish(call, 0, NULL);
    int good = 1;
    Py_BEGIN_ALLOW_THREADS
    for (i64 i = 0; i < call->rows && good; i++)
        good = call->entries->is_distribution(row_of(call, i), call->k, tolerance);
    Py_END_ALLOW_THREADS
    return finish(call, 1, PyBool_FromLong(good));
}

static PyObject *native_uniforms(PyObject *module, PyObject *arguments)
{
    PyObject *values, *columns, *keys, *out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOO", &values, &columns, &keys, &out)) return NULL;
    Call *call = call_begin();
    if (!call) return NULL;
    double *u = NULL;
    if (!rows_open(call, values) || !hashing_open(call, columns, keys) ||
        (!call->score.keys && !refuse("keys are missing")) || !(u = outputs_of(call, out, "d", call->rows)))
        return finish(call, 0, NULL);
    Py_BEGIN_ALLOW_THREADS
    for (i64 i = 0; i < call->rows; i++) u[i] = uniform_of(call, i, call->entries->largest(row_of(call, i), call->k));
    Py_END_ALLOW_THREADS
    return finish(call, 1, NULL);
}

static PyObject *native_label_scores(PyObject *module, PyObject *arguments)
{
    PyObject *values, *score, *labels, *out;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOO", &values, &score, &labels, &out)) return NULL;
    Call *call = call_begin();
    if (!call) return NULL;
    const i64 *label = NULL;
    double *scores = NULL;
    if (!block_open(call, values, score) || !(label = ints_of(call, labels, call->rows, 0, call->k)) ||
        !(scores = outputs_of(call, out, "d", call->rows)))
        return finish(call, 0, NULL);
    int good;
    Py_BEGIN_ALLOW_THREADS
    good = prepare(call);
    for (i64 i = 0; good && i < call->rows; i++) scores[i] = score_of_label(call, i, label[i]);
    Py_END_ALLOW_THREADS
    return finish(call, good, NULL);
}

static PyObject *native_tally(PyObject *module, PyObject *arguments)
{
    PyObject *values, *sorted, *score, *which, *table;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOO", &values, &sorted, &score, &which, &table)) return NULL;
    Call *call = call_begin();
    if (!call) return NULL;
    Weights weights = {NULL, NULL};
    if (!block_open(call, values, score) || !order_open(call, sorted) || !weights_open(call, which, table, &weights))
        return finish(call, 0, NULL);
    if (call->score.kernel == RANKED && !call->ascending) return finish(call, 1, NULL); /* All labels are ranked. */
    i64 *found = NULL, first = 0, n;
    Py_BEGIN_ALLOW_THREADS
    n = tally_rows(call, &weights, &first, &found);
    Py_END_ALLOW_THREADS
    if (n < 0) return finish(call, 0, NULL);
    Py_ssize_t size = (Py_ssize_t)sizeof *found * n * (weights.table ? 3 : 1);
    PyObject *counts = PyByteArray_FromStringAndSize((const char *)found, size);
    return finish(call, 1, counts ? Py_BuildValue("(LN)", (long long)first, counts) : NULL);
}

static PyObject *native_shares(PyObject *module, PyObject *arguments)
{
    PyObject *values, *sorted, *score, *cells, *own, *label_cells, *which, *table, *out;
    double scale, low, high;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO(Odd)(OOd)OOO", &values, &sorted, &score, &cells, &low, &high, &own,
                          &label_cells, &scale, &which, &table, &out))
        return NULL;
    Call *call = call_begin();
    if (!call) return NULL;
    Weights weights = {NULL, NULL};
    Thresholds thresholds = {NULL, -1, 0, NULL, low, high};
    Given given = {NULL, NULL, 0};
    const Py_buffer *view, *view_of_own, *view_of_cells;
    if (!block_open(call, values, score) || !order_open(call, sorted) ||
        !weights_open(call, which, table, &weights) || !(view = array_of(call, cells, INT64, 1, READ)) || !(view_of_own = array_of(call, own, "d", 2, READ)) ||
        !(view_of_cells = array_of(call, label_cells, INT64, 2, READ)))
        return finish(call, 0, NULL);
    thresholds.cells = view->buf, thresholds.number = view->shape[0];
    given.own = view_of_own->buf, given.cells = view_of_cells->buf, given.number = view_of_own->shape[1];
    int good = thresholds.number > 0 && thresholds.cells[0] >= 0 && thresholds.cells[thresholds.number - 1] < CELLS;
    for (i64 t = 1; t < thresholds.number; t++) good &= thresholds.cells[t - 1] <= thresholds.cells[t];
    if (!good) return finish(call, refuse("the cells of thresholds do not ascend, or do not exist"), NULL);
    if (view_of_own->shape[0] != call->rows || view_of_cells->shape[0] != call->rows ||
        view_of_cells->shape[1] != given.number)
        return finish(call, refuse("given labels must have rows of the same length for each row"), NULL);
    double *shares = NULL;
    if (!(view = array_of(call, out, "d", 2, WRITE))) return finish(call, 0, NULL);
    if (view->shape[0] != call->rows || view->shape[1] != thresholds.number)
        return finish(call, refuse("the output must have one row per row and one column per threshold"), NULL);
    shares = view->buf;
    Py_BEGIN_ALLOW_THREADS
    good = share_rows(call, &weights, &thresholds, &given, scale, shares);
    Py_END_ALLOW_THREADS
    return finish(call, good, PyBool_FromLong(1));
}

static PyObject *native_sets(PyObject *module, PyObject *arguments)
{
    PyObject *values, *sorted, *score, *thresholds, *sizes;
    int allow_empty;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOOpO", &values, &sorted, &score, &thresholds, &allow_empty, &sizes)) return NULL;
    Call *call = call_begin();
    if (!call) return NULL;
    const Py_buffer *view = NULL;
    i64 *size = NULL, total = 0;
    if (!block_open(call, values, score) || !order_open(call, sorted) ||
        !(view = array_of(call, thresholds, "d", 2, READ)) ||
        !(size = outputs_of(call, sizes, INT64, call->rows)))
        return finish(call, 0, NULL);
    Limits limits = {view->buf, view->shape[0], view->shape[1]};
    if ((limits.rows != 1 && limits.rows != call->rows) || (limits.labels != 1 && limits.labels != call->k) ||
        limits.labels == 0 || (limits.labels > 1 && (limits.rows > 1 || call->score.kernel == RANKED)))
        return finish(call, refuse("there must be one threshold, one per row, or one per label if not ranked"), NULL);
    int32_t *labels;
    Py_BEGIN_ALLOW_THREADS
    labels = set_rows(call, &limits, allow_empty, size, &total);
    Py_END_ALLOW_THREADS
    PyObject *found = PyByteArray_FromStringAndSize((const char *)labels, (Py_ssize_t)sizeof *labels * total);
    free(labels);
    return finish(call, 1, found);
}

static PyObject *native_play(PyObject *module, PyObject *arguments)
{
    PyObject *state, *most, *outcome, *shares, *stops, *changes, *hedges, *slopes;
    double target, width, delta;
    Py_ssize_t seen;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "(OOO)O(dd)n(OO)d(OO)", &state, &most, &outcome, &shares, &target, &width, &seen,
                          &stops, &changes, &delta, &hedges, &slopes))
        return NULL;
    Call *call = call_begin();
    if (!call) return NULL;
    Game game = {.bets = -1, .n_stops = -1, .seen = seen, .target = target, .per_width = 1 / width, .delta = delta};
    const Py_buffer *view_of_state, *view;
    i64 number = HEDGES;
    if (!(view_of_state = array_of(call, state, "d", 2, WRITE)) || !(view = array_of(call, shares, "d", 2, READ)) ||
        !(game.outcome = vector_of(call, outcome, INT64, WRITE, &game.bets)) ||
        !(game.most = vector_of(call, most, "d", READ, &game.bets)) ||
        !(game.stops = vector_of(call, stops, INT64, READ, &game.n_stops)) ||
        !(game.changes = vector_of(call, changes, "b", READ, &game.n_stops)) ||
        !(game.hedges = vector_of(call, hedges, "d", READ, &number)) ||
        !(game.slopes = vector_of(call, slopes, "d", READ, &number)))
        return finish(call, 0, NULL);
    if (view->shape[1] != game.bets) return finish(call, refuse("shares must have one column per bet"), NULL);
    game.shares = view->buf, game.points = view->shape[0];
    if (view_of_state->shape[0] != STATE || view_of_state->shape[1] != game.bets)
        return finish(call, refuse("the state must have eight numbers per bet"), NULL);
    for (int s = 0; s < STATE; s++) game.state[s] = (double *)view_of_state->buf + s * game.bets;
    for (i64 s = 1; s < game.n_stops; s++)
        if (game.stops[s] <= game.stops[s - 1]) return finish(call, refuse("stops must ascend"), NULL);
    if (game.n_stops < 2 || game.stops[0] != 0 || game.seen < 0)
        return finish(call, refuse("stops must begin at 0"), NULL);
    Py_BEGIN_ALLOW_THREADS
    play_points(&game);
    Py_END_ALLOW_THREADS
    return finish(call, 1, NULL);
}

static PyMethodDef methods[] = {
    {"check", native_check, METH_VARARGS, "check(values, tolerance) -> bool"},
    {"uniforms", native_uniforms, METH_VARARGS, "uniforms(values, columns, keys, out)"},
    {"label_scores", native_label_scores, METH_VARARGS, "label_scores(values, score, labels, out)"},
    {"tally", native_tally, METH_VARARGS, "tally(values, sorted, score, which, table) -> first cell, counts"},
    {"shares", native_shares, METH_VARARGS,
     "shares(values, sorted, score, (cells, low, high), (own, label_cells, scale), which, table, out) -> done"},
    {"sets", native_sets, METH_VARARGS, "sets(values, sorted, score, thresholds, allow_empty, sizes) -> labels"},
    {"play", native_play, METH_VARARGS,
     "play((state, most, outcome), shares, (target, width), seen, (stops, changes), delta, hedges)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    for (unsigned byte = 0; byte < 256; byte++)
        for (unsigned bit = 0; bit < 8; bit++)
            if (byte >> bit & 1) bits_of[byte].places[bits_of[byte].number++] = (uint8_t)bit;
    return PyModule_Create(&definition);
}
