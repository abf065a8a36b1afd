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
#endif

#if !defined(__GNUC__)
#error "written in GNU C; without it, the NumPy engine serves"
#endif
#if UINTPTR_MAX < UINT64_MAX || FLT_EVAL_METHOD != 0
#error "written for 64 bits and for numbers that are rounded to their own width; else the NumPy engine serves"
#endif

typedef int64_t word;

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

static inline word least_of(word a, word b) { return a < b ? a : b; }

static inline double most(double a, double b) { return a > b ? a : b; }

#define CUTS 4 /* of the entries beyond a limit, so many at a time, */
#define MOST_CUTS 32
#define ON_GRID 0x1p-28 /* floats from here on are whole multiples of 2^-52 */

/* Where an entry stands in its row. */
typedef struct {
    double mass;       /* of the entries above it */
    word above, equal; /* how many are above it, and how many are as large, with itself */
    double most;       /* the largest entry */
} Standing;

/* Weights of labels that are added up, positive and negative ones. */
typedef struct {
    word gain, loss;
} Weight;

/* What is done to every entry of a row: lanes.h has it, for rows of floats and of doubles. */
typedef struct {
    double (*largest)(const void *row, word k);
    int (*checked)(const void *row, word k, double tolerance);
    Standing (*standing)(const void *row, word k, double entry);
    void (*numbers)(const void *row, word k, const double *cuts, word *number);
    void (*tails)(const void *row, word k, const double *cuts, double below, word *number, double *mass);
    void (*weigh)(const void *row, word k, const double *cuts, double below, const word *weights, Weight *found);
    word (*collect)(const void *row, word k, double low, double high, uint64_t *words);
    word network; /* how many words a network sorts here */
} Lanes;

/* Scores of some rows that were kept: row after row, up to a limit, and the labels that have them; ascending, but
   for -p. */
typedef struct {
    const word *starts, *order; /* where each row begins, and which rows are meant */
    const double *scores;
    const int32_t *columns;
} Kept;

typedef struct {
    const char *values; /* rows x k, float or double */
    word rows, k;
    int width; /* bytes of an entry: 4 or 8 */
    const Lanes *lanes;
    const int32_t *code; /* the score's formula; none where the score is -p */
    word length;
    const double *constants;
    const double *u; /* one per row, if the formula needs them */
    int counts;      /* whether it counts labels */
    Kept kept;       /* if there are starts, in place of all that */
} Block;

static inline const void *row_at(const Block *block, word row)
{
    return block->values + row * block->k * block->width;
}

static inline double entry(const Block *block, word row, word column)
{
    word at = row * block->k + column;
    return block->width == 4 ? ((const float *)block->values)[at] : ((const double *)block->values)[at];
}

/* ---- Formulas: postfix codes, as native.py writes them ---- */

enum {
    LOAD_P, LOAD_ABOVE, LOAD_UPTO, LOAD_N_ABOVE, LOAD_N_UPTO, LOAD_TOP, LOAD_SECOND, LOAD_U, LOAD_CONSTANT,
    ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM, EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL,
    NEGATIVE, ABSOLUTE, SQRT, WHERE, CODES
};

#define DEPTH 16 /* of the stack; native.py leaves deeper formulas to NumPy */

typedef struct {
    double *p, *above, *upto, *n_above, *n_upto; /* of the labels of a row, from the most probable down */
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

/* The best possible score is a number, too. */
WIDE static void lowest_finite(const double *restrict scores, double *restrict out, word n)
{
    for (word i = 0; i < n; i++) out[i] = scores[i] < -DBL_MAX ? -DBL_MAX : scores[i];
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
        else
            stack[top] = applied(code, stack + top, room + top * size, n);
        top++;
    }
    if (stack[0].each) {
        lowest_finite(stack[0].at, scores + start, n);
        return;
    }
    for (word i = 0; i < n; i++) lowest_finite(stack[0].at, scores + start + i, 1);
}

/* ---- The grid on which probabilities are added up ---- */

static inline word on_grid(double p) { return (word)(((p + 1.0) - 1.0) * 0x1p52); } /* p may be just above 1 */

static inline double from_grid(word mass) { return (double)mass * 0x1p-52; }

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
    word first;     /* how many labels come before the words */
    word collected; /* how many have been, with those in the words */
    word number;    /* how many have been looked at */
    word mass;      /* of these, on the grid */
    double cut;     /* all entries from here on have been collected */
    double guess;   /* a cut to begin with */
    int in_order;   /* whether many labels are wanted in the order of their scores, where they need not be */
} Row;

static int row_open(Row *row, word k)
{
    memset(row, 0, sizeof *row);
    row->size = k;
    row->guess = 2.0 / (double)k;
    size_t n = (size_t)k + 4, sorted = n < NETWORK ? NETWORK : n; /* some more are written than there are */
    row->words = row->rooms[0] = malloc(2 * (sizeof(uint64_t) * sorted + sizeof(int32_t) * n));
    row->q.p = row->rooms[1] = malloc(sizeof(double) * n * (6 + DEPTH));
    if (!row->words || !row->q.p) return 0;
    row->spare = row->words + sorted;
    row->columns = (int32_t *)(row->spare + sorted);
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
#define EPSILON FLT_EPSILON
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
#undef NAME
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512dq,avx512bw")
#define BYTES 64
#define COMPARED(x, y, how) _mm512_cmp_ps_mask((__m512)(x), _mm512_set1_ps(y), how)
#define LOAD_SOME(x, from, n) _mm512_mask_loadu_ps((__m512)(x), (__mmask16)((1u << (n)) - 1), from)
#define LARGER(x, y) _mm512_max_ps((__m512)(x), (__m512)(y))
#define WHERE_MORE(numbers, x, y) _mm512_mask_sub_epi16((__m512i)(numbers), _mm512_cmpgt_epi16_mask((__m512i)(x), (__m512i)(y)), (__m512i)(numbers), _mm512_set1_epi16(-1))
#define ADD_AT_LEAST(sums, x, y) _mm512_mask_add_ps((__m512)(sums), COMPARED(x, y, _CMP_GE_OQ), (__m512)(sums), (__m512)(x))
#define NAME(name) name##_floats_avx512
#include "lanes.h"
#undef BYTES
#undef COMPARED
#undef LARGER
#undef LOAD_SOME
#undef WHERE_MORE
#undef ADD_AT_LEAST
#undef NAME
#pragma GCC pop_options
#endif
#undef TYPE
#undef HALVES
#undef MASK
#undef EPSILON
#undef NOT_BELOW

#define TYPE double
#define MASK int64_t
#define EPSILON DBL_EPSILON
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
#undef NAME
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512dq,avx512bw")
#define BYTES 64
#define COMPARED(x, y, how) _mm512_cmp_pd_mask((__m512d)(x), _mm512_set1_pd(y), how)
#define LOAD_SOME(x, from, n) _mm512_mask_loadu_pd((__m512d)(x), (__mmask8)((1u << (n)) - 1), from)
#define LARGER(x, y) _mm512_max_pd((__m512d)(x), (__m512d)(y))
#define ADD_AT_LEAST(sums, x, y) _mm512_mask_add_pd((__m512d)(sums), COMPARED(x, y, _CMP_GE_OQ), (__m512d)(sums), (__m512d)(x))
#define NAME(name) name##_doubles_avx512
#include "lanes.h"
#undef BYTES
#undef COMPARED
#undef LARGER
#undef LOAD_SOME
#undef WHERE_MORE
#undef ADD_AT_LEAST
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

/* Collect the labels of row i down to a cut. */
static void row_collect(Row *row, const Block *block, word i, double cut)
{
    word n = collect(block, i, cut, row->cut, row->spare);
    row->cut = cut;
    row->first = row->collected;
    row->collected += n;
    row->bucket = row->buckets = row->ordered = 0;
    if (n > VERY_FEW && n <= block->lanes->network) {
        sort_network(row->spare, row->words, n);
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
WIDE static double add_up(double *restrict p, double *restrict above, double *restrict upto, word n, double mass)
{
    word j = 0;
    for (word l = 0; l < n; l++) p[l] = (p[l] + 1.0) - 1.0;
    for (; j + 4 <= n; j += 4) { /* the sum waits for one addition in four */
        double two = p[j] + p[j + 1], three = two + p[j + 2], four = two + (p[j + 2] + p[j + 3]);
        above[j] = mass, above[j + 1] = mass + p[j], above[j + 2] = mass + two, above[j + 3] = mass + three;
        mass += four;
    }
    for (; j < n; j++) above[j] = mass, mass += p[j];
    for (word l = 0; l < n; l++) upto[l] = above[l] + p[l];
    return mass;
}

/* Numbers one after the other. */
WIDE static void number(double *out, word first, word n)
{
    for (int32_t l = 0; l < n; l++) out[l] = (double)first + l;
}

static void row_add_untied(Row *row, word start, word stop, int counts)
{
    const Quantities *q = &row->q;
    word n = stop - start;
    row->mass = (word)(add_up(q->p + start, q->above + start, q->upto + start, n, from_grid(row->mass)) * 0x1p52);
    if (!counts) return;
    number(q->n_above + start, start, n);
    number(q->n_upto + start, start + 1, n);
}

/* Add up from the most probable label down: labels of equal probability stand in the same place. */
static void row_add_up(Row *row, word start, word stop, int counts)
{
    const Quantities *q = &row->q;
    word tied = first_tied(q->p, start, stop);
    row_add_untied(row, start, tied, counts);
    for (word j = tied, last; j < stop; j = last) {
        word mass = on_grid(q->p[j]);
        for (last = j + 1; last < stop && q->p[last] == q->p[j];) last++;
        double above = from_grid(row->mass), upto = from_grid(row->mass += mass * (last - j));
        for (word l = j; l < last; l++) q->p[l] = from_grid(mass), q->above[l] = above, q->upto[l] = upto;
        for (word l = j; counts && l < last; l++) q->n_above[l] = (double)j, q->n_upto[l] = (double)last;
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
    row_add_up(row, start, stop, block->counts);
    row->number = stop;
    if (start == 0 && stop) q->top = q->p[0];
    if (start < 2 && stop >= 2) q->second = q->p[1];
    evaluate(block, q, start < 2 ? 0 : start, stop, row->room, row->size, row->scores);
}

#define SMALLEST_CUT 1e-20
#define FIRST_LOOK 16

/* Look at the labels of row i that were collected until their scores have passed a limit; return if they have. */
static int row_pass(Row *row, const Block *block, word i, double limit)
{
    for (word least = limit < INFINITY ? FIRST_LOOK : row->size; row->number < row->collected; least *= 2) {
        row_look(row, block, i, least);
        if (row->number >= 2 && row->score[row->number - 1] > limit) return 1;
    }
    return 0;
}

/* The scores of a row that were kept. */
static void row_kept(Row *row, const Kept *kept, word i)
{
    word start = kept->starts[kept->order[i]];
    row->number = row->collected = kept->starts[kept->order[i] + 1] - start;
    row->score = kept->scores + start, row->column = kept->columns + start;
}

/* Look at the labels of row i until their scores have passed a limit, or there are no more. */
static void row_until(Row *row, const Block *block, word i, double limit)
{
    double cut = limit < INFINITY ? row->guess : 0;
    row->collected = row->number = row->mass = 0;
    row->cut = INFINITY;
    row->q.u = block->u ? block->u[i] : 0;
    for (;;) {
        row_collect(row, block, i, cut);
        if (row_pass(row, block, i, limit) || cut == 0) break; /* what is no probability is never looked at */
        cut = cut > SMALLEST_CUT ? cut / 3 : 0;
    }
    /* Nothing but speed depends on the guess: one row in so many is to be looked at twice. */
    if (limit == INFINITY) return;
    if (cut < row->guess)
        row->guess = most(0.7 * row->guess, SMALLEST_CUT);
    else if (row->guess < 0.25)
        row->guess *= 1.1;
}

/* The score is -p: nothing has to be put in order. */
static void row_minus_p(Row *row, const Block *block, word i, double limit)
{
    row->cut = limit < INFINITY ? -limit : 0;
    row->number = row->collected = collect(block, i, row->cut, INFINITY, row->words);
    if (row->in_order && row->number > MANY) sort_many(row->words, row->spare, row->number);
    for (word j = 0; j < row->number; j++) {
        row->columns[j] = (int32_t)(uint32_t)row->words[j];
        row->scores[j] = -entry(block, i, row->columns[j]);
    }
}

/* Look at all labels of row i that score at most a limit, and perhaps at more. */
static void look(Row *row, const Block *block, word i, double limit)
{
    if (block->kept.starts)
        row_kept(row, &block->kept, i);
    else if (block->code)
        row_until(row, block, i, limit);
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

static inline Range range_of(double a, double b, double c, double d)
{
    int any_nan = IS_NAN(a + b + c + d); /* or infinities that differ */
    double low = least(least(a, b), least(c, d)), high = most(most(a, b), most(c, d));
    return (Range){any_nan ? -INFINITY : low, any_nan ? INFINITY : high};
}

static inline Range compared(int never, int always) { return (Range){always, !never}; }

static inline __attribute__((always_inline)) Range combined(int code, Range a, Range b)
{
    switch (code) {
    case ADD: return range_of(a.low + b.low, a.high + b.high, a.low + b.low, a.high + b.high);
    case SUBTRACT: return range_of(a.low - b.high, a.high - b.low, a.low - b.high, a.high - b.low);
    case MULTIPLY: return range_of(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high);
    case DIVIDE:
        if (b.low <= 0 && b.high >= 0) return (Range){-INFINITY, INFINITY};
        return range_of(a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high);
    case MAXIMUM: return (Range){most(a.low, b.low), most(a.high, b.high)};
    case MINIMUM: return (Range){least(a.low, b.low), least(a.high, b.high)};
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
        return range_of(fabs(a.low), fabs(a.high), fabs(a.low), fabs(a.high));
    }
}

static Range chosen(Range condition, Range if_so, Range if_not)
{
    if (condition.low > 0) return if_so;
    if (condition.high <= 0) return if_not;
    return (Range){least(if_so.low, if_not.low), most(if_so.high, if_not.high)};
}

/* The least score of labels that `number` labels, of this mass or more, are above, if they are below a cut.
   Operations that round keep the order, so a formula's value lies between those at the ends of ranges. */
static double least_score(const Block *block, const Quantities *q, word number, double mass, double cut)
{
    Range stack[DEPTH + 1] = {{0, 0}};
    double k = (double)block->k, all = 2, n = (double)number;
    Range known[] = {{0, from_grid(on_grid(cut))}, {mass, all}, {mass, all}, {n, k}, {n + 1, k},
                     {q->top, q->top}, {q->second, q->second}, {q->u, q->u}};
    word top = 0;
    for (word c = 0; c < block->length; c++) {
        int code = block->code[2 * c], argument = block->code[2 * c + 1];
        if (code < LOAD_CONSTANT) {
            stack[top++] = known[code];
        } else if (code == LOAD_CONSTANT) {
            stack[top++] = (Range){block->constants[argument], block->constants[argument]};
        } else if (code == WHERE) {
            top -= 2;
            stack[top - 1] = chosen(stack[top - 1], stack[top], stack[top + 1]);
        } else if (code >= NEGATIVE) {
            stack[top - 1] = combined(code, stack[top - 1], stack[top - 1]);
        } else {
            top--;
            stack[top - 1] = combined(code, stack[top - 1], stack[top]);
        }
    }
    return stack[0].low;
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
static double label_score(Row *row, const Block *block, word i, word label, Standing at, int tops)
{
    Quantities *q = &row->q;
    q->p[0] = from_grid(on_grid(entry(block, i, label)));
    q->above[0] = at.mass, q->upto[0] = at.mass + (double)at.equal * q->p[0];
    q->n_above[0] = (double)at.above, q->n_upto[0] = (double)(at.above + at.equal);
    q->u = block->u ? block->u[i] : 0;
    if (tops) {
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

#endif
