/* Rows of probabilities and their scores: the compiled twin of ranks.py, cells.py and hashing.py. No Python here.

   A row is looked at from its most probable label down, and only as far as somebody wants to know: its entries
   above a cut are collected, sorted and scored; if the scores have not passed the limit by then, the cut is
   lowered. Sums of probabilities are whole multiples of 2^-52, so they are exact in any order. */

#ifndef NACP_ROWS_H
#define NACP_ROWS_H

#include <math.h>
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Functions for wider vectors, among which the processor chooses. */
#if defined(__x86_64__) && !defined(__clang__)
#define WIDER 1
#include <immintrin.h>
#define SIXTEEN _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#endif

#if !defined(__GNUC__)
#error "written in GNU C; without it, the NumPy engine serves"
#endif
#if UINTPTR_MAX < UINT64_MAX || FLT_EVAL_METHOD != 0
#error "written for 64 bits and for numbers that are rounded to their own width; else the NumPy engine serves"
#endif

typedef int64_t word;

static inline word least_of(word a, word b) { return a < b ? a : b; }

#include "network.h"

/* A function that is compiled for wider vectors, too, where the linker can choose between several. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#if __GNUC__ >= 12
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define WIDE __attribute__((target_clones("avx2", "default")))
#endif
#else
#define WIDE
#endif

/* ---- A block of rows ---- */

static inline double least(double a, double b) { return a < b ? a : b; }

static inline double most(double a, double b) { return a > b ? a : b; }

#define CUTS 4 /* of the entries beyond a limit, so many at a time, */
#define MOST_CUTS 32
#define SWEPT (1 << 16) /* entries that are looked at in one pass at the most, where the score is -p, */
#define SWEPT_ROWS 64    /* and rows: they should stay in the cache */

/* Where an entry stands in its row. */
typedef struct {
    double mass;       /* of the entries above it */
    word above, equal; /* how many are above it, and how many are as large, with itself */
} Standing;

/* What a row holds. */
typedef struct {
    double sum, most; /* of its entries, and the largest; infinity if nobody has looked for it */
    int sign;         /* whether one has a sign, and be it that of -0.0 */
} Overview;

/* Rows that are looked at in one pass: what each holds, and how many of its entries are collected. */
typedef struct {
    word rows;
    const void *row[SWEPT_ROWS];
    Overview found[SWEPT_ROWS];
    word collected[SWEPT_ROWS];
} Swept;

/* Weights of labels that are added up, positive and negative ones. */
typedef struct {
    word gain, loss;
} Weight;

/* What is done to every entry of a row: lanes.h has it, for rows of floats and of doubles. */
typedef struct {
    Overview (*overview)(const void *row, word k);
    Standing (*standing)(const void *row, word k, double entry);
    void (*numbers)(const void *row, word k, const double *cuts, word *number);
    void (*tails)(const void *row, word k, const double *cuts, double below, word *number, double *mass);
    void (*weigh)(const void *row, word k, const double *cuts, double below, const word *weights, Weight *found);
    word (*collect)(const void *row, word k, double low, double high, uint64_t *words);
    void (*sweep)(Swept *swept, word k, double low, const double *cuts, uint64_t *words, word *number); /* of floats */
    word (*columns)(const void *row, word k, double low, int32_t *columns, Overview *found);
    Weight (*weight_above)(const void *row, word k, double entry, const word *weights);
    word network; /* how many words a network sorts here */
} Lanes;

/* Scores of some rows that were kept: row after row, up to a limit, and the labels that have them; ascending, but
   for -p. */
typedef struct {
    const word *starts, *order; /* where each row begins, and which rows are meant */
    const double *scores;
    const int32_t *columns; /* none if nobody wants to know the labels */
} Kept;

/* How a row becomes a uniform number: some of its entries and the largest, each hashed with a key of its own. */
typedef struct {
    const word *columns;
    const uint64_t *keys;
    word number;
} Hashing;

typedef struct {
    const char *values; /* rows x k, float or double */
    const word *order;  /* which of these rows are meant, if not all as they come */
    word rows, k;
    int width; /* bytes of an entry: 4 or 8 */
    const Lanes *lanes;
    const int32_t *code; /* the score's formula; none where the score is -p */
    word length;
    const double *constants;
    double *u;       /* one per row, if the formula needs them */
    Hashing hashing; /* how to find them, if they are not known yet */
    char *good;      /* of each row whether it is one of probabilities, if that is not known yet, */
    double tolerance; /* and by how much its sum may miss 1 */
    int loads;       /* what the formula loads: a bit for each code; */
    int by_rank;     /* whether it counts labels only so that those of equal probability count as if they were before */
    int tops;        /* whether it asks for the largest entries */
    Kept kept;       /* if there are starts, in place of all that */
} Block;

static inline const void *row_at(const Block *block, word row)
{
    return block->values + (block->order ? block->order[row] : row) * block->k * block->width;
}

static inline double entry(const Block *block, word row, word column)
{
    const void *p = row_at(block, row);
    return block->width == 4 ? ((const float *)p)[column] : ((const double *)p)[column];
}

/* ---- Formulas: postfix codes, as native.py writes them ---- */

enum {
    LOAD_P, LOAD_ABOVE, LOAD_UPTO, LOAD_N_ABOVE, LOAD_N_UPTO, LOAD_TOP, LOAD_SECOND, LOAD_U, LOAD_CONSTANT,
    ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM, EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL,
    NEGATIVE, ABSOLUTE, SQRT, WHERE, CODES
};

#define DEPTH 16 /* of the stack; native.py leaves deeper formulas to NumPy */

typedef struct {
    double *p, *above, *upto, *n_above, *n_upto; /* of labels from the most probable down; what a formula loads of it */
    double top, second, u;
} Quantities;

typedef struct {
    const double *at; /* one number for each label, or one for all */
    int each;
} Operand;

#define BINARY(expression)                                                                       \
    do {                                                                                         \
        if (a.each && b.each)                                                                    \
            for (word i = 0; i < n; i++) { double x = a.at[i], y = b.at[i]; out[i] = expression; } \
        else if (a.each) {                                                                       \
            double y = *b.at;                                                                    \
            for (word i = 0; i < n; i++) { double x = a.at[i]; out[i] = expression; }             \
        } else {                                                                                 \
            double x = *a.at;                                                                    \
            for (word i = 0; i < n; i++) { double y = b.at[i]; out[i] = expression; }             \
        }                                                                                        \
    } while (0)

#define IS_NAN(x) ((x) != (x))

WIDE static void binary(int code, Operand a, Operand b, double *out, word n)
{
    switch (code) {
    case ADD: BINARY(x + y); break;
    case SUBTRACT: BINARY(x - y); break;
    case MULTIPLY: BINARY(x * y); break;
    case DIVIDE: BINARY(x / y); break;
    case MAXIMUM: BINARY(x >= y || IS_NAN(x) ? x : y); break;
    case MINIMUM: BINARY(x <= y || IS_NAN(x) ? x : y); break;
    case EQUAL: BINARY(x == y); break;
    case NOT_EQUAL: BINARY(x != y); break;
    case LESS: BINARY(x < y); break;
    case LESS_EQUAL: BINARY(x <= y); break;
    case GREATER: BINARY(x > y); break;
    case GREATER_EQUAL: BINARY(x >= y); break;
    }
}

static void unary(int code, Operand a, double *out, word n)
{
    for (word i = 0; i < n; i++) {
        double x = a.at[a.each ? i : 0];
        out[i] = code == NEGATIVE ? -x : code == ABSOLUTE ? fabs(x) : sqrt(x);
    }
}

static void where(const Operand *in, double *out, word n)
{
    double one = *in[0].at; /* a condition for all may lie where the first result goes */
    for (word i = 0; i < n; i++) {
        Operand chosen = (in[0].each ? in[0].at[i] : one) != 0 ? in[1] : in[2];
        out[i] = chosen.at[chosen.each ? i : 0];
    }
}

static int inputs_of(int code) { return code < ADD ? 0 : code == WHERE ? 3 : code >= NEGATIVE ? 1 : 2; }

/* An operation on n numbers; if none of its inputs has a number for each label, one is computed for all. */
static Operand applied(int code, const Operand *in, double *out, word n)
{
    int inputs = inputs_of(code), each = 0;
    for (int i = 0; i < inputs; i++) each |= in[i].each;
    n = each ? n : 1;
    if (code == WHERE)
        where(in, out, n);
    else if (inputs == 1)
        unary(code, in[0], out, n);
    else if (each)
        binary(code, in[0], in[1], out, n);
    else
        binary(code, (Operand){in[0].at, 1}, (Operand){in[1].at, 1}, out, n);
    return (Operand){out, each};
}

/* Add a product to numbers, in one pass. */
WIDE static void add_product(double factor, const double *numbers, const double *to, double *out, word n)
{
    for (word i = 0; i < n; i++) out[i] = to[i] + factor * numbers[i];
}

/* Whether operation c of a formula multiplies numbers by one, and the next adds that to others. */
static int adds_product(const Block *block, word c, const Operand *in)
{
    return block->code[2 * c] == MULTIPLY && c + 1 < block->length && block->code[2 * c + 2] == ADD &&
           in[-1].each && in[0].each != in[1].each;
}

/* The best possible score is a number, too. */
WIDE static void lowest_finite(double *scores, word n)
{
    for (word i = 0; i < n; i++) scores[i] = scores[i] < -DBL_MAX ? -DBL_MAX : scores[i];
}

/* Evaluate a block's formula for labels from `start` to `stop` of a row. `room` holds DEPTH arrays of `size`. */
static void evaluate(const Block *block, const Quantities *q, word start, word stop, double *room, word size,
                     double *scores)
{
    Operand stack[DEPTH + 1];
    const double *whole[] = {q->p, q->above, q->upto, q->n_above, q->n_upto};
    const double *single[] = {&q->top, &q->second, &q->u};
    word top = 0, n = stop - start;
    for (word c = 0; c < block->length; c++) {
        int code = block->code[2 * c], argument = block->code[2 * c + 1];
        top -= inputs_of(code);
        if (code <= LOAD_N_UPTO)
            stack[top] = (Operand){whole[code] + start, 1};
        else if (code <= LOAD_U)
            stack[top] = (Operand){single[code - LOAD_TOP], 0};
        else if (code == LOAD_CONSTANT)
            stack[top] = (Operand){block->constants + argument, 0};
        else if (top && adds_product(block, c, stack + top)) {
            const Operand *in = stack + top--;
            c++;
            double *out = c + 1 < block->length ? room + top * size : scores + start;
            add_product(*in[in[0].each].at, in[in[1].each].at, in[-1].at, out, n);
            stack[top] = (Operand){out, 1};
        } else /* the last one has the scores */
            stack[top] = applied(code, stack + top, c + 1 < block->length ? room + top * size : scores + start, n);
        top++;
    }
    double lowest = *stack[0].at; /* they ascend */
    for (word i = 0; !stack[0].each && i < n; i++) scores[start + i] = lowest;
    if (stack[0].each && stack[0].at != scores + start) memcpy(scores + start, stack[0].at, sizeof *scores * (size_t)n);
    if (lowest < -DBL_MAX) lowest_finite(scores + start, n);
}

/* ---- The grid on which probabilities are added up ---- */

static inline word on_grid(double p) { return (word)(((p + 1.0) - 1.0) * 0x1p52); } /* p may be just above 1 */

static inline double from_grid(word mass) { return (double)mass * 0x1p-52; }

/* ---- u, the uniform number of a row: see hashing.py ---- */

static inline uint64_t mixed(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline uint64_t hashed(double value, uint64_t key)
{
    uint64_t bits;
    value += 0.0; /* -0.0 counts as 0.0 */
    memcpy(&bits, &value, 8);
    return mixed(bits ^ key);
}

static double uniform(const Block *block, word i, double largest)
{
    const Hashing *hashing = &block->hashing;
    uint64_t sum = hashed(largest, hashing->keys[hashing->number]);
    for (word c = 0; c < hashing->number; c++) sum += hashed(entry(block, i, hashing->columns[c]), hashing->keys[c]);
    return (double)(mixed(sum) >> 11) * 0x1p-53;
}

/* ---- What is to be known of a row before it is scored ---- */

static int none_negative(const Block *block, word i)
{
    for (word column = 0; column < block->k; column++)
        if (!(entry(block, i, column) >= 0)) return 0;
    return 1;
}

/* Whether row i is one of probabilities: none negative, none above 1, and of sum 1; so none is NaN. */
static int good_row(const Block *block, word i, Overview found)
{
    double epsilon = block->width == 4 ? FLT_EPSILON : DBL_EPSILON;
    if (!(fabs(found.sum - 1) <= block->tolerance) || (found.sign && !none_negative(block, i))) return 0;
    if (found.sum <= 1 + 8 * epsilon) return 1;
    return (found.most < INFINITY ? found : block->lanes->overview(row_at(block, i), block->k)).most <= 1;
}

#define LARGEST_SUM 2 /* that any tolerance may allow */

/* Learn what is to be known of row i; return whether it can be scored at all: what is nothing like probabilities may not
   fit where these are added up. */
static int learn(const Block *block, word i, Overview found)
{
    if (block->hashing.keys) block->u[i] = uniform(block, i, found.most);
    if (!block->good) return 1;
    block->good[i] = (char)good_row(block, i, found);
    return block->good[i] || (found.sum <= LARGEST_SUM && (!found.sign || none_negative(block, i)));
}

/* Look at row i for the first time. */
static int look_over(const Block *block, word i)
{
    if (!block->good && !block->hashing.keys) return 1;
    return learn(block, i, block->lanes->overview(row_at(block, i), block->k));
}

/* ---- The labels of a row, from the most probable down ---- */

typedef struct {
    void *rooms[2];          /* all that is allocated */
    uint64_t *words, *spare; /* an entry's bits as a float, inverted, and its column: ascending words, descending p */
    int32_t *starts;         /* of the buckets that the words are in */
    word bucket, buckets;    /* the first that is not in order yet, and how many there are */
    word ordered;            /* how many words are in order */
    const int32_t *column;
    const double *score;
    int32_t *columns; /* room for these, if they are not kept */
    double *scores, *room;
    Quantities q;
    word size;      /* how many labels fit */
    word skipped;   /* how many labels nobody looks at, the most probable ones: they score too little, */
    double high;    /* as all do that are above this */
    word first;     /* how many labels come before the words */
    word collected; /* how many have been, with those in the words */
    word number;    /* how many have been looked at */
    word mass;      /* of these, on the grid */
    double cut;     /* all entries from here on have been collected */
    double guess;   /* a cut to begin with */
    double usual;   /* how many labels of a row could be skipped, about; */
    double aims[2]; /* and near which entries the lower and the upper limit are passed */
    int in_order;   /* whether labels are wanted in the order of their scores, where they need not be */
} Row;

#define MORE 16 /* numbers may be written after the last one */

static int row_open(Row *row, word k)
{
    memset(row, 0, sizeof *row);
    row->size = k;
    row->guess = 2.0 / (double)k;
    size_t n = (size_t)k + MORE; /* some more are written than there are */
    row->words = row->rooms[0] = malloc(2 * (sizeof(uint64_t) + sizeof(int32_t)) * n);
    row->q.p = row->rooms[1] = malloc(sizeof(double) * n * (6 + DEPTH));
    if (!row->words || !row->q.p) return 0;
    row->spare = row->words + n;
    row->columns = (int32_t *)(row->spare + n);
    row->starts = row->columns + n;
    row->q.above = row->q.p + n, row->q.upto = row->q.above + n;
    row->q.n_above = row->q.upto + n, row->q.n_upto = row->q.n_above + n;
    row->scores = row->q.n_upto + n, row->room = row->scores + n;
    row->column = row->columns, row->score = row->scores;
    return 1;
}

static void row_close(Row *row)
{
    free(row->rooms[0]);
    free(row->rooms[1]);
}

static inline uint64_t packed(double p, word column)
{
    float rounded = (float)p + 0.0f; /* -0.0 is 0.0; rounding keeps the order */
    uint32_t bits;
    memcpy(&bits, &rounded, 4);
    return (uint64_t)(~bits) << 32 | (uint64_t)column;
}

static inline uint32_t key_of(uint64_t packed) { return (uint32_t)(packed >> 32); }

static inline double probability(uint64_t packed) /* as a float */
{
    uint32_t bits = ~key_of(packed);
    float p;
    memcpy(&p, &bits, 4);
    return p;
}

/* The least float that is not below: floats are at least x if they are at least this. */
static float not_below(double x)
{
    float nearest = (float)x;
    return nearest < x ? nextafterf(nearest, INFINITY) : nearest;
}

/* The leading 16 bits of a float above 0; and a float without others that is not above x, nor far below. */
static int16_t leading_bits(double x)
{
    float nearest = (float)x;
    int32_t bits;
    memcpy(&bits, &nearest, 4);
    return (int16_t)(bits >> 16);
}

static double rounded_down(double x)
{
    int32_t bits = (int32_t)leading_bits(x * (1 - 0x1p-23)) << 16;
    float rounded;
    memcpy(&rounded, &bits, 4);
    return rounded;
}

/* lanes.h for each type and width of vectors. COMPARED has one bit for each entry: how it compares with y. */
#define TYPE float
#define HALVES
#define MASK int32_t
#define NOT_BELOW(x) not_below(x)
#define BYTES 16
#define NAME(name) name##_floats
#include "lanes.h"
#undef BYTES
#undef NAME
#ifdef WIDER
#pragma GCC push_options
#pragma GCC target("avx2")
#define BYTES 32
#define LARGER(x, y) _mm256_max_ps((__m256)(x), (__m256)(y))
#define COMPARED(x, y, how) _mm256_movemask_ps(_mm256_cmp_ps((__m256)(x), _mm256_set1_ps(y), how))
#define NAME(name) name##_floats_avx2
#include "lanes.h"
#undef BYTES
#undef COMPARED
#undef LARGER
#undef LOAD_SOME
#undef WHERE_MORE
#undef ADD_AT_LEAST
#undef COMPRESSED
#undef PACKED
#undef NAME
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512dq,avx512bw")
/* Write floats that are chosen, with their columns, as words; 16 of them, of which the first ones count. */
static inline void store_packed(uint64_t *words, __m512 x, __mmask16 which, word column)
{
    __m512i bits = _mm512_castps_si512(_mm512_add_ps(x, _mm512_setzero_ps())); /* -0.0 is 0.0 */
    __m512i keys = _mm512_maskz_compress_epi32(which, ~bits);
    __m512i columns = _mm512_maskz_compress_epi32(which, _mm512_add_epi32(SIXTEEN, _mm512_set1_epi32((int)column)));
    for (int half = 0; half < 2; half++) {
        __m256i key = half ? _mm512_extracti64x4_epi64(keys, 1) : _mm512_castsi512_si256(keys);
        __m256i low = half ? _mm512_extracti64x4_epi64(columns, 1) : _mm512_castsi512_si256(columns);
        __m512i high = _mm512_slli_epi64(_mm512_cvtepu32_epi64(key), 32);
        _mm512_storeu_si512(words + 8 * half, _mm512_or_si512(high, _mm512_cvtepu32_epi64(low)));
    }
}
/* `weigh` of lanes.h for floats, 16 at once: they are compared as they are, and not as doubles. */
static void weigh_16(const void *row, word k, const double *cuts, double below, const word *weights, Weight *found)
{
    const float *p = row;
    const __m512 high = _mm512_set1_ps(not_below(below));
    const __m512i none = _mm512_setzero_si512();
    __m512 lows[CUTS + 1];
    __m512i gains = none, losses[CUTS + 1];
    for (int j = 0; j <= CUTS; j++) lows[j] = _mm512_set1_ps(j < CUTS ? not_below(cuts[j]) : 0), losses[j] = none;
    for (word column = 0; column < k; column += 16) {
        __mmask16 left = k - column < 16 ? (__mmask16)((1 << (k - column)) - 1) : UINT16_MAX, which[CUTS + 1];
        __m512 x = _mm512_maskz_loadu_ps(left, p + column);
        left = _mm512_mask_cmp_ps_mask(_mm512_mask_cmp_ps_mask(left, x, high, _CMP_LT_OQ), x, lows[CUTS], _CMP_GE_OQ);
        for (int j = 0; j <= CUTS; j++) which[j] = _mm512_mask_cmp_ps_mask(left, x, lows[j], _CMP_GE_OQ);
        for (int half = 0; half < 16; half += 8) {
            __m512i weight = _mm512_maskz_loadu_epi64((__mmask8)(left >> half), weights + column + half);
            __m512i loss = _mm512_min_epi64(weight, none);
            gains = _mm512_add_epi64(gains, _mm512_max_epi64(weight, none));
            for (int j = 0; j <= CUTS; j++)
                losses[j] = _mm512_mask_sub_epi64(losses[j], (__mmask8)(which[j] >> half), losses[j], loss);
        }
    }
    for (int j = 0; j <= CUTS; j++) found[j] = (Weight){0, _mm512_reduce_add_epi64(losses[j])};
    found[CUTS].gain = _mm512_reduce_add_epi64(gains);
}
#define WEIGH weigh_16
#define BYTES 64
#define COMPARED(x, y, how) _mm512_cmp_ps_mask((__m512)(x), _mm512_set1_ps(y), how)
#define LOAD_SOME(x, from, n) _mm512_mask_loadu_ps((__m512)(x), (__mmask16)((1u << (n)) - 1), from)
#define LARGER(x, y) _mm512_max_ps((__m512)(x), (__m512)(y))
#define WHERE_MORE(numbers, x, y) _mm512_mask_sub_epi16((__m512i)(numbers), _mm512_cmpgt_epi16_mask((__m512i)(x), (__m512i)(y)), (__m512i)(numbers), _mm512_set1_epi16(-1))
#define ADD_AT_LEAST(sums, x, y) _mm512_mask_add_ps((__m512)(sums), COMPARED(x, y, _CMP_GE_OQ), (__m512)(sums), (__m512)(x))
#define COMPRESSED(out, which, first) _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(which, _mm512_add_epi32(_mm512_set1_epi32(first), SIXTEEN)))
#define PACKED(words, x, which, columns) store_packed(words, (__m512)(x), which, columns)
#define NAME(name) name##_floats_avx512
#include "lanes.h"
#undef BYTES
#undef COMPARED
#undef LARGER
#undef LOAD_SOME
#undef WHERE_MORE
#undef ADD_AT_LEAST
#undef COMPRESSED
#undef PACKED
#undef NAME
#pragma GCC pop_options
#endif
#undef TYPE
#undef HALVES
#undef MASK
#undef NOT_BELOW

#define TYPE double
#define MASK int64_t
#define NOT_BELOW(x) (x)
#define BYTES 16
#define NAME(name) name##_doubles
#include "lanes.h"
#undef BYTES
#undef NAME
#ifdef WIDER
#pragma GCC push_options
#pragma GCC target("avx2")
#define BYTES 32
#define LARGER(x, y) _mm256_max_pd((__m256d)(x), (__m256d)(y))
#define COMPARED(x, y, how) _mm256_movemask_pd(_mm256_cmp_pd((__m256d)(x), _mm256_set1_pd(y), how))
#define NAME(name) name##_doubles_avx2
#include "lanes.h"
#undef BYTES
#undef COMPARED
#undef LARGER
#undef LOAD_SOME
#undef WHERE_MORE
#undef ADD_AT_LEAST
#undef COMPRESSED
#undef PACKED
#undef NAME
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512dq,avx512bw")
#define BYTES 64
#define COMPARED(x, y, how) _mm512_cmp_pd_mask((__m512d)(x), _mm512_set1_pd(y), how)
#define LOAD_SOME(x, from, n) _mm512_mask_loadu_pd((__m512d)(x), (__mmask8)((1u << (n)) - 1), from)
#define LARGER(x, y) _mm512_max_pd((__m512d)(x), (__m512d)(y))
#define ADD_AT_LEAST(sums, x, y) _mm512_mask_add_pd((__m512d)(sums), COMPARED(x, y, _CMP_GE_OQ), (__m512d)(sums), (__m512d)(x))
#define COMPRESSED(out, which, first) _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(which, _mm512_add_epi32(_mm512_set1_epi32(first), SIXTEEN)))
#define NAME(name) name##_doubles_avx512
#include "lanes.h"
#undef BYTES
#undef COMPARED
#undef LARGER
#undef LOAD_SOME
#undef WHERE_MORE
#undef ADD_AT_LEAST
#undef COMPRESSED
#undef PACKED
#undef NAME
#pragma GCC pop_options
#endif

static int widest = 64; /* bytes of a vector; less only where tests want to see the narrower ones */

/* What this machine does to entries of so many bytes. */
static const Lanes *lanes_for(int width)
{
#ifdef WIDER
    if (widest >= 64 && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return width == 4 ? &lanes_floats_avx512 : &lanes_doubles_avx512;
    if (widest >= 32 && __builtin_cpu_supports("avx2"))
        return width == 4 ? &lanes_floats_avx2 : &lanes_doubles_avx2;
#endif
    return width == 4 ? &lanes_floats : &lanes_doubles;
}

/* The entries of row i in [low, high). */
static word collect(const Block *block, word i, double low, double high, uint64_t *words)
{
    return block->lanes->collect(row_at(block, i), block->k, low, high, words);
}

static void insertion_sort(uint64_t *words, word n)
{
    for (word i = 1; i < n; i++) {
        uint64_t moved = words[i];
        word j = i;
        for (; j > 0 && words[j - 1] > moved; j--) words[j] = words[j - 1];
        words[j] = moved;
    }
}

#define VERY_FEW 12
#define FEW 24
#define MANY 160
#define BUCKETS (2 * MANY + 1)

/* Sort words by 16 bits of how far their high halves are above `low`, in two digits; equal ones stay in order. */
static void sort_digits(uint64_t *words, uint64_t *spare, word n, uint32_t low, int shift)
{
    int32_t places[2][256] = {{0}};
    for (word i = 0; i < n; i++) {
        uint32_t digits = (key_of(words[i]) - low) >> shift;
        places[0][digits & 255]++, places[1][digits >> 8 & 255]++;
    }
    for (int d = 0; d < 2; d++) {
        int32_t place = 0;
        for (int value = 0; value < 256; value++) {
            int32_t number = places[d][value];
            places[d][value] = place;
            place += number;
        }
    }
    for (word i = 0; i < n; i++) spare[places[0][(key_of(words[i]) - low) >> shift & 255]++] = words[i];
    for (word i = 0; i < n; i++) words[places[1][(key_of(spare[i]) - low) >> shift >> 8 & 255]++] = spare[i];
}

/* Sort words by their high halves if that takes few moves; return if it did. Most are in order. */
static int sort_nearly(uint64_t *words, word n)
{
    word moves = 2 * n;
    uint64_t before = words[0];
    for (word i = 1; i < n; i++) {
        uint64_t moved = words[i];
        if (key_of(moved) >= key_of(before)) {
            before = moved;
            continue;
        }
        word j = i;
        for (; j > 0 && key_of(words[j - 1]) > key_of(moved); j--) words[j] = words[j - 1];
        words[j] = moved;
        if ((moves -= i - j) < 0) return 0;
    }
    return 1;
}

/* The least and the greatest high half of words. */
WIDE static void key_range(const uint64_t *words, word n, uint32_t *low, uint32_t *high)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (word i = 0; i < n; i++) {
        uint32_t key = key_of(words[i]);
        least = key < least ? key : least, most = key > most ? key : most;
    }
    *low = least, *high = most;
}

#define NOT_TOO_MANY (1 << 14)

/* Sort words by their high halves; where these are equal, the order stays. Unless there are very many, their leading
   bits mostly do. */
static void sort_many(uint64_t *words, uint64_t *spare, word n)
{
    uint32_t low, high;
    int shift = 0;
    key_range(words, n, &low, &high);
    while ((high - low) >> shift >> 16) shift++;
    if (shift && n <= NOT_TOO_MANY) {
        sort_digits(words, spare, n, low, shift);
        if (sort_nearly(words, n)) return;
    }
    sort_digits(words, spare, n, low, 0);
    if (shift) sort_digits(words, spare, n, low, 16);
}

/* Sort different words whose columns ascend: into buckets by their leading bits, of which most hold few. */
static void sort_words(uint64_t *words, uint64_t *spare, word n)
{
    if (n <= FEW) {
        insertion_sort(words, n);
        return;
    }
    if (n > MANY) {
        sort_many(words, spare, n);
        return;
    }
    uint64_t low = words[0], high = words[0];
    for (word i = 1; i < n; i++) {
        low = words[i] < low ? words[i] : low;
        high = words[i] > high ? words[i] : high;
    }
    int shift = 0;
    while ((high - low) >> shift >= 2 * (uint64_t)n) shift++;
    word buckets = (word)((high - low) >> shift) + 1;
    int32_t starts[BUCKETS + 1], places[BUCKETS];
    memset(starts, 0, sizeof(int32_t) * (size_t)(buckets + 1));
    for (word i = 0; i < n; i++) starts[((words[i] - low) >> shift) + 1]++;
    for (word b = 1; b <= buckets; b++) starts[b] += starts[b - 1];
    memcpy(places, starts, sizeof(int32_t) * (size_t)buckets);
    for (word i = 0; i < n; i++) spare[places[(words[i] - low) >> shift]++] = words[i];
    for (word b = 0; b < buckets; b++) /* the first and the last word are in different ones, so this ends */
        sort_words(spare + starts[b], words + starts[b], starts[b + 1] - starts[b]);
    memcpy(words, spare, sizeof(uint64_t) * (size_t)n);
}

/* Put some doubles in order, descending, and their columns along. */
static void order_few(double *p, int32_t *column, word n)
{
    for (word i = 1; i < n; i++) {
        double moved = p[i];
        int32_t its = column[i];
        word j = i;
        for (; j > 0 && p[j - 1] < moved; j--) p[j] = p[j - 1], column[j] = column[j - 1];
        p[j] = moved, column[j] = its;
    }
}

/* The same of many, by their lower and then by their upper 32 bits; where these are equal, the order stays. */
static void order_many(double *p, int32_t *column, word n, const Block *block, word row, uint64_t *words,
                       uint64_t *spare)
{
    for (int half = 0; half <= 32; half += 32) {
        for (word i = 0; i < n; i++) {
            double value = p[i] + 0.0; /* -0.0 is 0.0 */
            uint64_t bits;
            memcpy(&bits, &value, 8);
            words[i] = (~bits >> half) << 32 | (uint32_t)column[i];
        }
        sort_many(words, spare, n);
        for (word i = 0; i < n; i++) {
            column[i] = (int32_t)(uint32_t)words[i];
            p[i] = entry(block, row, column[i]);
        }
    }
}

/* Doubles that are the same as floats: put them in order, too. */
static void order_within(double *p, int32_t *column, word n, const Block *block, word row, uint64_t *words,
                         uint64_t *spare)
{
    for (word first = 0, last; first < n; first = last) {
        for (last = first + 1; last < n && (float)p[last] == (float)p[first];) last++;
        if (last - first <= MANY)
            order_few(p + first, column + first, last - first);
        else
            order_many(p + first, column + first, last - first, block, row, words, spare);
    }
}

/* Put n words from `spare` into buckets by their leading bits: of numbers that differ in size, most hold few. */
static void into_buckets(Row *row, word n)
{
    const uint64_t *from = row->spare;
    int32_t *starts = row->starts;
    uint32_t low, high;
    int shift = 0;
    key_range(from, n, &low, &high);
    while ((word)((high - low) >> shift) >= n) shift++;
    row->bucket = 0, row->buckets = (word)((high - low) >> shift) + 1;
    memset(starts, 0, sizeof *starts * (size_t)row->buckets);
    for (word i = 0; i < n; i++) starts[(key_of(from[i]) - low) >> shift]++;
    int32_t place = 0;
    for (word b = 0; b < row->buckets; b++) starts[b] = place += starts[b];
    for (word i = n; i-- > 0;) row->words[--starts[(key_of(from[i]) - low) >> shift]] = from[i];
    starts[row->buckets] = place;
}

/* Whether words are not in the order of their high halves. */
WIDE static int disordered(const uint64_t *words, word n)
{
    uint32_t wrong = 0;
    for (word i = 1; i < n; i++) wrong |= key_of(words[i]) < key_of(words[i - 1]);
    return wrong != 0;
}

/* Sort words by their high halves; where these are equal, the order stays. Their leading bits mostly do. */
static void sort_by_network(uint64_t *words, uint64_t *out, word n)
{
    uint32_t low, high;
    int shift = 0;
    key_range(words, n, &low, &high);
    while ((high - low) >> shift >> KEY_BITS) shift++;
    sort_network(words, out, n, low, shift);
    if (shift && disordered(out, n) && !sort_nearly(out, n)) sort_many(out, words, n);
}

/* Collect the labels of row i down to a cut. */
static void row_collect(Row *row, const Block *block, word i, double cut)
{
    word n = collect(block, i, cut, row->cut, row->spare);
    row->cut = cut;
    row->first = row->collected;
    row->collected += n;
    row->bucket = row->buckets = row->ordered = 0;
    if (n > VERY_FEW && n <= block->lanes->network) {
        sort_by_network(row->spare, row->words, n);
        row->ordered = n;
    } else if (n > MANY || n <= VERY_FEW) {
        uint64_t *found = row->spare;
        if (n > MANY)
            sort_many(found, row->words, n);
        else
            insertion_sort(found, n);
        row->spare = row->words, row->words = found;
        row->ordered = n;
    } else {
        into_buckets(row, n);
    }
}

/* Put some more words in order, at least so many if there are; return how many. Equal ones are not parted. */
static word row_order(Row *row, word least)
{
    word start = row->number - row->first, stop = start + least;
    for (; row->bucket < row->buckets && row->ordered < stop; row->bucket++) {
        word first = row->starts[row->bucket];
        row->ordered = row->starts[row->bucket + 1];
        if (row->ordered - first > 1) sort_words(row->words + first, row->spare + first, row->ordered - first);
    }
    if (stop > row->ordered) stop = row->ordered;
    while (stop < row->ordered && key_of(row->words[stop]) == key_of(row->words[stop - 1])) stop++;
    return stop - start;
}

/* Where the first of two labels is that are equally probable, one after the other; or the end. */
WIDE static word first_tied(const double *p, word start, word stop)
{
    word tied = 0;
    for (word j = start + 1; j < stop; j++) tied |= -(word)(p[j] == p[j - 1]);
    if (!tied) return stop;
    for (word j = start + 1;; j++)
        if (p[j] == p[j - 1]) return j - 1;
}

/* Add up from the most probable label down, where no two are equally probable; return the mass of all, which is
   exact in any order. */
WIDE static double add_up(double *restrict p, double *restrict above, double *restrict upto, word n, double mass,
                          int loads)
{
    word j = 0;
    for (word l = 0; l < n; l++) p[l] = (p[l] + 1.0) - 1.0;
    for (; j + 4 <= n; j += 4) { /* the sum waits for one addition in four */
        double two = p[j] + p[j + 1], three = two + p[j + 2], four = two + (p[j + 2] + p[j + 3]);
        above[j] = mass, above[j + 1] = mass + p[j], above[j + 2] = mass + two, above[j + 3] = mass + three;
        mass += four;
    }
    for (; j < n; j++) above[j] = mass, mass += p[j];
    for (word l = 0; loads >> LOAD_UPTO & 1 && l < n; l++) upto[l] = above[l] + p[l];
    return mass;
}

/* The same, where only what is up to each label is wanted. */
WIDE static double add_upto(double *restrict p, double *restrict upto, word n, double mass)
{
    word j = 0;
    for (word l = 0; l < n; l++) p[l] = (p[l] + 1.0) - 1.0;
    for (; j + 4 <= n; j += 4) {
        double two = p[j] + p[j + 1], three = two + p[j + 2], four = two + (p[j + 2] + p[j + 3]);
        upto[j] = mass + p[j], upto[j + 1] = mass + two, upto[j + 2] = mass + three, upto[j + 3] = mass + four;
        mass += four;
    }
    for (; j < n; j++) upto[j] = mass += p[j];
    return mass;
}

/* Numbers one after the other. */
WIDE static void number(double *out, word first, word n)
{
    for (int32_t l = 0; l < n; l++) out[l] = (double)first + l;
}

static void row_add_untied(Row *row, word start, word stop, int loads)
{
    const Quantities *q = &row->q;
    word n = stop - start;
    double *p = q->p + start, *upto = q->upto + start, mass = from_grid(row->mass);
    mass = loads >> LOAD_ABOVE & 1 ? add_up(p, q->above + start, upto, n, mass, loads) : add_upto(p, upto, n, mass);
    row->mass = (word)(mass * 0x1p52);
    if (loads >> LOAD_N_ABOVE & 1) number(q->n_above + start, start, n);
    if (loads >> LOAD_N_UPTO & 1) number(q->n_upto + start, start + 1, n);
}

/* Add up from the most probable label down: labels of equal probability stand in the same place. */
static void row_add_up(Row *row, word start, word stop, int loads)
{
    const Quantities *q = &row->q;
    word tied = first_tied(q->p, start, stop);
    row_add_untied(row, start, tied, loads);
    for (word j = tied, last; j < stop; j = last) {
        word mass = on_grid(q->p[j]);
        for (last = j + 1; last < stop && q->p[last] == q->p[j];) last++;
        double above = from_grid(row->mass), upto = from_grid(row->mass += mass * (last - j));
        for (word l = j; l < last; l++) q->p[l] = from_grid(mass), q->above[l] = above, q->upto[l] = upto;
        for (word l = j; l < last; l++) q->n_above[l] = (double)j, q->n_upto[l] = (double)last;
    }
}

/* The columns and, as floats, the probabilities of words. */
WIDE static void unpack(const uint64_t *restrict words, int32_t *restrict columns, double *restrict p, word n)
{
    for (word j = 0; j < n; j++) columns[j] = (int32_t)(uint32_t)words[j];
    for (word j = 0; j < n; j++) p[j] = probability(words[j]);
}

/* Look at some more labels of row i that have been collected: put them in order, add up and score them. */
static void row_look(Row *row, const Block *block, word i, word least)
{
    Quantities *q = &row->q;
    word start = row->number, stop = start + row_order(row, least);
    unpack(row->words + start - row->first, row->columns + start, q->p + start, stop - start);
    if (block->width == 8) { /* the room of words that have been taken is free */
        for (word j = start; j < stop; j++) q->p[j] = entry(block, i, row->columns[j]);
        order_within(q->p + start, row->columns + start, stop - start, block, i, row->words + start - row->first,
                     row->spare + start - row->first);
    }
    row_add_up(row, start, stop, block->loads);
    row->number = stop;
    if (start == 0 && stop) q->top = q->p[0];
    if (start < 2 && stop >= 2) q->second = q->p[1];
    evaluate(block, q, start < 2 ? 0 : start, stop, row->room, row->size, row->scores);
}

#define SMALLEST_CUT 1e-20
#define FIRST_LOOK 16

/* Look at the labels of row i that were collected, at least so many at first, until their scores have passed a limit;
   return if they have. */
static int row_pass(Row *row, const Block *block, word i, double limit, word least)
{
    for (; row->number < row->collected; least *= 2) {
        row_look(row, block, i, least);
        if ((row->number >= 2 || !block->tops) && row->score[row->number - 1] > limit) return 1;
    }
    return 0;
}

/* The scores of a row that were kept. */
static void row_kept(Row *row, const Kept *kept, word i)
{
    word start = kept->starts[kept->order[i]];
    row->number = row->collected = kept->starts[kept->order[i] + 1] - start;
    row->score = kept->scores + start;
    row->column = kept->columns ? kept->columns + start : row->columns; /* then whatever is there */
}

static void row_begin(Row *row, const Block *block, word i)
{
    row->skipped = row->collected = row->number = row->mass = 0;
    row->cut = INFINITY;
    row->q.u = block->u ? block->u[i] : 0;
}

/* Collect labels of row i down to a cut, and lower ones, until their scores have passed a limit, or there are no more;
   return the last cut. */
static double row_down(Row *row, const Block *block, word i, double cut, double limit, word least)
{
    for (;;) {
        row_collect(row, block, i, cut);
        if (row_pass(row, block, i, limit, least) || cut == 0) break; /* what is no probability is never looked at */
        cut = cut > SMALLEST_CUT ? cut / 3 : 0;
    }
    return cut;
}

/* Look at the labels of row i until their scores have passed a limit, or there are no more. */
static void row_until(Row *row, const Block *block, word i, double limit)
{
    word before = row->number; /* of the last row */
    row_begin(row, block, i);
    double cut = limit < INFINITY ? row->guess : 0;
    word least = limit == INFINITY ? row->size : before > FIRST_LOOK ? before : FIRST_LOOK;
    cut = row_down(row, block, i, cut, limit, least);
    /* Nothing but speed depends on the guess: one row in so many is to be looked at twice. */
    if (limit == INFINITY) return;
    if (cut < row->guess)
        row->guess = most(0.7 * row->guess, SMALLEST_CUT);
    else if (row->guess < 0.25)
        row->guess *= 1.1;
}

static void score_minus_p(Row *row, const Block *block, word i)
{
    for (word j = 0; j < row->number; j++) {
        row->columns[j] = (int32_t)(uint32_t)row->words[j];
        row->scores[j] = -entry(block, i, row->columns[j]);
    }
}

/* ---- Far down a row: labels that score too little to be of interest need not be put in order ---- */

#define FAR 128 /* labels: to put fewer in order takes less time than to find out that it is not needed */

/* Entries of a row: those above `high` score at most a lower limit, those below `cut` more than an upper one. As far as
   floats tell, so that it has to be seen whether they do. */
typedef struct {
    double high, cut;
} Between;

/* About what labels score at cuts: of the next ones below them the most, and after that, of the last ones above them
   the least. */
static const double *scores_at(Row *row, const Block *block, word i, const double *cuts)
{
    Quantities *q = &row->q;
    word number[CUTS];
    double mass[CUTS];
    block->lanes->tails(row_at(block, i), block->k, cuts, INFINITY, number, mass);
    for (int j = 0; j < 2 * CUTS; j++) {
        int at = j % CUTS, seen = j / CUTS;
        q->p[j] = cuts[at], q->above[j] = mass[at] - seen * cuts[at], q->upto[j] = q->above[j] + cuts[at];
        q->n_above[j] = (double)(number[at] - seen), q->n_upto[j] = q->n_above[j] + 1;
    }
    evaluate(block, q, 0, 2 * CUTS, row->room, row->size, row->scores);
    return row->scores;
}

static void narrow(Between *found, const double *cuts, const double *scores, double low, double limit)
{
    for (int j = 0; j < CUTS; j++) {
        if (scores[j] <= low) found->high = least(found->high, cuts[j]);
        if (scores[CUTS + j] > limit) found->cut = most(found->cut, cuts[j]);
    }
}

/* Near which entry scores pass a limit, from those at descending cuts. */
static double passed_at(const double *cuts, const double *scores, double limit)
{
    int j = 0;
    while (j < CUTS && scores[j] <= limit) j++;
    if (j == 0 || j == CUTS) return cuts[j ? CUTS - 1 : 0];
    return cuts[j - 1] + (cuts[j] - cuts[j - 1]) * (limit - scores[j - 1]) / (scores[j] - scores[j - 1]);
}

static double nearer_to(double entry, double aim)
{
    return entry > aim ? least(1.1 * aim, 1) : most(aim / 1.1, SMALLEST_CUT);
}

/* Find entries of row i between which it passes two limits: first near those where other rows did, then near those
   where it seems to. Most rows are like the others, and a few are sharper. */
static Between between(Row *row, const Block *block, word i, double low, double limit)
{
    double *aims = row->aims, middle = sqrt(aims[0]) * sqrt(aims[1]);
    double cuts[CUTS] = {2.7 * aims[0], most(0.55 * aims[0], 1.22 * middle), least(2.7 * aims[1], middle / 1.22),
                         0.55 * aims[1]};
    Between found = {INFINITY, cuts[CUTS - 1]};
    const double *scores = scores_at(row, block, i, cuts);
    narrow(&found, cuts, scores, low, limit);
    double first = passed_at(cuts, scores, low), last = passed_at(cuts, scores, limit);
    double nearer[CUTS] = {1.2 * first, 1.05 * first, last / 1.05, last / 1.2};
    narrow(&found, nearer, scores_at(row, block, i, nearer), low, limit);
    aims[0] = nearer_to(first, aims[0]), aims[1] = nearer_to(last, aims[1]);
    return found;
}

/* Skip the labels of row i that are above an entry: what they add up to is exact in any order. */
static void row_skip(Row *row, const Block *block, word i, double high)
{
    row->high = most(rounded_down(high * (1 + 0x1p-7)), not_below(high)); /* a float, of few bits as some entries are */
    Standing at = block->lanes->standing(row_at(block, i), block->k, row->high);
    row->skipped = row->number = row->collected = at.above;
    row->mass = (word)(at.mass * 0x1p52);
    row->cut = nextafter(row->high, INFINITY);
}

/* Look at labels of row i between two limits, if it can be done; return whether nothing was skipped that scores more
   than the lower one. Scores ascend, so that the first one that was not skipped tells. */
static int row_between(Row *row, const Block *block, word i, double low, double limit)
{
    row_begin(row, block, i);
    Between found = between(row, block, i, low, limit);
    if (!(found.cut <= found.high)) return 0;
    if (found.high < INFINITY) row_skip(row, block, i, found.high);
    row_down(row, block, i, found.cut, limit, row->size);
    return !row->skipped || (row->number > row->skipped && row->score[row->skipped] <= low);
}

/* Of ascending scores, from one on: the first that is above a limit. */
static word first_above(const Row *row, word low, double limit)
{
    word high = row->number;
    while (low < high) {
        word middle = (low + high) / 2;
        if (row->score[middle] <= limit) low = middle + 1; else high = middle;
    }
    return low;
}

/* Look at the labels of row i that score more than a lower limit, until their scores have passed an upper one, or
   there are no more. Others may be looked at, too, or skipped. */
static void row_within(Row *row, const Block *block, word i, double low, double limit)
{
    int far = row->usual > FAR && low > -INFINITY && limit < INFINITY && !block->tops;
    if (!far || !row_between(row, block, i, low, limit)) row_until(row, block, i, limit);
    word skipped = row->skipped || row->number <= FAR ? row->skipped : first_above(row, 0, low);
    row->usual += 0.1 * ((double)skipped - row->usual);
    if (far || row->number <= FAR) return;
    row->aims[0] = most(entry(block, i, row->column[least_of(skipped, row->number - 1)]), SMALLEST_CUT);
    row->aims[1] = most(entry(block, i, row->column[row->number - 1]), SMALLEST_CUT);
}

/* Put what was collected of a row in order. */
static void row_sort(Row *row, const Block *block)
{
    uint64_t *sorted = row->words;
    if (row->number > VERY_FEW && row->number <= block->lanes->network)
        sort_by_network(row->words, sorted = row->spare, row->number);
    else
        sort_words(row->words, row->spare, row->number);
    if (sorted == row->spare) row->spare = row->words, row->words = sorted;
}

/* The score is -p: nothing has to be put in order. */
static void row_minus_p(Row *row, const Block *block, word i, double limit)
{
    row->cut = limit < INFINITY ? -limit : 0;
    row->number = row->collected = collect(block, i, row->cut, INFINITY, row->words);
    if (row->in_order) row_sort(row, block);
    score_minus_p(row, block, i);
}

/* Look at all labels of row i that score at most a limit, and perhaps at more; those may be skipped that score at most
   `low`. */
static void look(Row *row, const Block *block, word i, double low, double limit)
{
    if (block->kept.starts)
        row_kept(row, &block->kept, i);
    else if (block->code)
        row_within(row, block, i, low, limit);
    else
        row_minus_p(row, block, i, limit);
}

/* ---- What has not been looked at ---- */

/* What the labels add up to that have been collected and not looked at. */
static double mass_not_seen(const Row *row)
{
    double sum = 0;
    for (word j = row->number - row->first; j < row->collected - row->first; j++) sum += probability(row->words[j]);
    return sum;
}

typedef struct {
    double low, high;
} Range;

static Range compared(int never, int always) { return (Range){always, !never}; }

static Range divided(Range a, Range b)
{
    double w = a.low / b.low, x = a.low / b.high, y = a.high / b.low, z = a.high / b.high;
    if (IS_NAN(w) || IS_NAN(x) || IS_NAN(y) || IS_NAN(z)) return (Range){-INFINITY, INFINITY};
    return (Range){least(least(w, x), least(y, z)), most(most(w, x), most(y, z))};
}

/* What an operation makes of ranges, but for those that are done to many at once. */
static Range combined(int code, Range a, Range b)
{
    switch (code) {
    case DIVIDE: return b.low <= 0 && b.high >= 0 ? (Range){-INFINITY, INFINITY} : divided(a, b);
    case EQUAL: return compared(a.high < b.low || b.high < a.low, a.low == a.high && b.low == b.high && a.low == b.low);
    case NOT_EQUAL: return compared(a.low == a.high && b.low == b.high && a.low == b.low,
                                    a.high < b.low || b.high < a.low);
    case LESS: return compared(a.low >= b.high, a.high < b.low);
    case LESS_EQUAL: return compared(a.low > b.high, a.high <= b.low);
    case GREATER: return compared(a.high <= b.low, a.low > b.high);
    case GREATER_EQUAL: return compared(a.high < b.low, a.low >= b.high);
    case NEGATIVE: return (Range){-a.high, -a.low};
    case SQRT: return (Range){a.low > 0 ? sqrt(a.low) : 0, a.high > 0 ? sqrt(a.high) : 0};
    default: /* ABSOLUTE */
        if (a.low <= 0 && a.high >= 0) return (Range){0, most(-a.low, a.high)};
        return (Range){least(fabs(a.low), fabs(a.high)), most(fabs(a.low), fabs(a.high))};
    }
}

#define PLACES 64

/* Places in a row: so many labels are before each, which add up to this or more, and those after it are below a cut. Some
   after it may be as probable as some before it, where a formula is `by_rank`. One after the other; the numbers and
   masses ascend, the cuts descend. */
typedef struct {
    word number;
    double before[PLACES], mass[PLACES], cut[PLACES];
} Places;

/* A range for each place. */
typedef struct {
    double low[PLACES], high[PLACES];
} Ranges;

static void set_ranges(Ranges *out, double low, double high, word n)
{
    for (word j = 0; j < n; j++) out->low[j] = low, out->high[j] = high;
}

/* What is known of the labels after places that a formula may load. */
static void load_ranges(int code, const Block *block, const Quantities *q, const Places *places, Ranges *out)
{
    word n = places->number;
    double k = (double)block->k, all = 2;
    const double single[] = {q->top, q->second, q->u};
    for (word j = 0; code == LOAD_P && j < n; j++) out->low[j] = 0, out->high[j] = (places->cut[j] + 1.0) - 1.0;
    for (word j = 0; (code == LOAD_ABOVE || code == LOAD_UPTO) && j < n; j++)
        out->low[j] = places->mass[j], out->high[j] = all;
    for (word j = 0; (code == LOAD_N_ABOVE || code == LOAD_N_UPTO) && j < n; j++)
        out->low[j] = places->before[j] + (code == LOAD_N_UPTO), out->high[j] = k;
    if (code >= LOAD_TOP) set_ranges(out, single[code - LOAD_TOP], single[code - LOAD_TOP], n);
}

#define EACH_PLACE _Pragma("GCC ivdep") for (word j = 0; j < n; j++)

/* An operation on ranges, of which the first ones are replaced by what comes out. */
WIDE static void combine(int code, Ranges *a, const Ranges *b, word n)
{
    double *low = a->low, *high = a->high;
    const double *l = b->low, *h = b->high;
    switch (code) {
    case ADD: EACH_PLACE low[j] += l[j], high[j] += h[j]; break;
    case SUBTRACT: EACH_PLACE low[j] -= h[j], high[j] -= l[j]; break;
    case MAXIMUM: EACH_PLACE low[j] = most(low[j], l[j]), high[j] = most(high[j], h[j]); break;
    case MINIMUM: EACH_PLACE low[j] = least(low[j], l[j]), high[j] = least(high[j], h[j]); break;
    case MULTIPLY:
        EACH_PLACE {
            double w = low[j] * l[j], x = low[j] * h[j], y = high[j] * l[j], z = high[j] * h[j];
            double any = w + x + y + z; /* is no number where one of them is none */
            low[j] = IS_NAN(any) ? any : least(least(w, x), least(y, z));
            high[j] = most(most(w, x), most(y, z));
        }
        break;
    default:
        for (word j = 0; j < n; j++) {
            Range found = combined(code, (Range){low[j], high[j]}, (Range){l[j], h[j]});
            low[j] = found.low, high[j] = found.high;
        }
    }
    EACH_PLACE { /* of what is no number nothing is known */
        int known = low[j] <= high[j];
        low[j] = known ? low[j] : -INFINITY, high[j] = known ? high[j] : INFINITY;
    }
}

static void choose(Ranges *condition, const Ranges *if_so, const Ranges *if_not, word n)
{
    for (word j = 0; j < n; j++) {
        int always = condition->low[j] > 0, never = condition->high[j] <= 0;
        double low = least(if_so->low[j], if_not->low[j]), high = most(if_so->high[j], if_not->high[j]);
        condition->low[j] = always ? if_so->low[j] : never ? if_not->low[j] : low;
        condition->high[j] = always ? if_so->high[j] : never ? if_not->high[j] : high;
    }
}

/* The least score of the labels after each place. Operations that round keep the order, so a formula's value lies
   between those at the ends of ranges. */
static void least_scores(const Block *block, const Quantities *q, const Places *places, double *scores)
{
    Ranges stack[DEPTH + 1];
    word top = 0, n = places->number;
    for (word c = 0; c < block->length; c++) {
        int code = block->code[2 * c];
        top -= inputs_of(code);
        Ranges *out = &stack[top];
        if (code < LOAD_CONSTANT) {
            load_ranges(code, block, q, places, out);
        } else if (code == LOAD_CONSTANT) {
            double constant = block->constants[block->code[2 * c + 1]];
            set_ranges(out, constant, constant, n);
        } else if (code == WHERE) {
            choose(out, out + 1, out + 2, n);
        } else {
            combine(code, out, code >= NEGATIVE ? out : out + 1, n);
        }
        top++;
    }
    memcpy(scores, stack[0].low, sizeof *scores * (size_t)n);
}

/* What entries add up to at least on the grid, if that is their sum in floats: each may round up half a unit. */
static double least_mass(double sum, word k)
{
    return most(0, sum * (1 - (double)k * 0x1p-24) - (double)k * 0x1p-53);
}

/* ---- One label of a row: nothing has to be sorted for that ---- */

/* The two largest entries of a row. */
static void two_largest(const Block *block, word i, double *top, double *second)
{
    *top = *second = -INFINITY;
    for (word column = 0; column < block->k; column++) {
        double p = entry(block, i, column);
        if (p > *top)
            *second = *top, *top = p;
        else if (p > *second)
            *second = p;
    }
}

/* The score of one label of row i, which stands there; `row` has room for it. */
static double label_score(Row *row, const Block *block, word i, word label, Standing at)
{
    Quantities *q = &row->q;
    q->p[0] = from_grid(on_grid(entry(block, i, label)));
    q->above[0] = at.mass, q->upto[0] = at.mass + (double)at.equal * q->p[0];
    q->n_above[0] = (double)at.above, q->n_upto[0] = (double)(at.above + at.equal);
    q->u = block->u ? block->u[i] : 0;
    if (block->tops) {
        two_largest(block, i, &q->top, &q->second);
        q->top = from_grid(on_grid(q->top)), q->second = from_grid(on_grid(q->second));
    }
    evaluate(block, q, 0, 1, row->room, row->size, row->scores);
    return row->scores[0];
}

/* ---- Cells: see cells.py ---- */

#define LEADING 0x8000 /* how many different leading bits a magnitude has */
typedef uint16_t __attribute__((may_alias)) Half;
#define HIGH_HALF (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) /* which half of a float holds them */
#define BELOW_HALF (0.5 - 0x1p-26)

static struct {
    int32_t codes[4 * LEADING]; /* by leading bits: see cells.py */
    word number;
} cells;

static inline word cell_of(double score)
{
    int lower = score < BELOW_HALF;
    float nearer = lower ? (float)score : (float)(1.0 - score);
    uint32_t bits;
    memcpy(&bits, &nearer, 4);
    return cells.codes[(bits >> 16) + (lower ? 2 * LEADING : 0)];
}

/* The cells of many scores. */
WIDE static void many_cells(const double *restrict scores, int32_t *restrict out, word n)
{
    for (word j = 0; j < n; j++) {
        int lower = scores[j] < BELOW_HALF;
        float nearer = (float)(lower ? scores[j] : 1.0 - scores[j]);
        uint32_t bits;
        memcpy(&bits, &nearer, 4);
        out[j] = (int32_t)(bits >> 16) + (lower ? 2 * LEADING : 0);
    }
    for (word j = 0; j < n; j++) out[j] = cells.codes[out[j]];
}

#endif
