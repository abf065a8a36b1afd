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

#if !defined(__GNUC__)
#error "written in GNU C; without it, the NumPy engine serves"
#endif
#if UINTPTR_MAX < UINT64_MAX || FLT_EVAL_METHOD != 0
#error "written for 64 bits and for numbers that are rounded to their own width; else the NumPy engine serves"
#endif

typedef int64_t word;

/* Sixteen bytes at a time: GNU C's vectors, which every machine with 64 bits has. */
#define FLOATS 4
#define DOUBLES 2
typedef float floats __attribute__((vector_size(16)));
typedef double doubles __attribute__((vector_size(16)));
typedef int32_t float_mask __attribute__((vector_size(16)));
typedef int64_t double_mask __attribute__((vector_size(16)));
typedef float half_floats __attribute__((vector_size(8)));

#define LOAD(vector, from) memcpy(&(vector), (from), sizeof(vector))
/* Which of sixteen floats or eight doubles are at least a cut: a bit for each. */
#if defined(__SSE2__)
#include <emmintrin.h>
#define AT_LEAST(name, type, width, broadcast, load, compare, bits)                                    \
    static inline __attribute__((always_inline)) uint32_t name(const type *p, type cut)                \
    {                                                                                                  \
        uint32_t found = 0;                                                                            \
        for (int part = 0; part < 4; part++)                                                           \
            found |= (uint32_t)bits(compare(load(p + width * part), broadcast(cut))) << width * part;   \
        return found;                                                                                  \
    }
AT_LEAST(floats_at_least, float, 4, _mm_set1_ps, _mm_loadu_ps, _mm_cmpge_ps, _mm_movemask_ps)
AT_LEAST(doubles_at_least, double, 2, _mm_set1_pd, _mm_loadu_pd, _mm_cmpge_pd, _mm_movemask_pd)
#else
#define AT_LEAST(name, type, lanes)                                                                    \
    static inline uint32_t name(const type *p, type cut)                                               \
    {                                                                                                  \
        uint32_t found = 0;                                                                            \
        for (int lane = 0; lane < lanes; lane++) found |= (uint32_t)(p[lane] >= cut) << lane;           \
        return found;                                                                                  \
    }
AT_LEAST(floats_at_least, float, 4 * FLOATS)
AT_LEAST(doubles_at_least, double, 4 * DOUBLES)
#endif

/* ---- A block of rows ---- */

typedef struct {
    const char *values; /* rows x k, float or double */
    word rows, k;
    int width;           /* bytes of an entry: 4 or 8 */
    const int32_t *code; /* the score's formula; none where the score is -p */
    word length;
    const double *constants;
    const double *u; /* one per row, if the formula needs them */
} Block;

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

static void binary(int code, Operand a, Operand b, double *out, word n)
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
        if (code <= LOAD_N_UPTO) {
            stack[top++] = (Operand){whole[code] + start, 1};
        } else if (code <= LOAD_U) {
            stack[top++] = (Operand){single[code - LOAD_TOP], 0};
        } else if (code == LOAD_CONSTANT) {
            stack[top++] = (Operand){block->constants + argument, 0};
        } else {
            int inputs = code == WHERE ? 3 : code >= NEGATIVE ? 1 : 2;
            top -= inputs;
            Operand *in = stack + top;
            double *out = room + top * size;
            word number = 1; /* of numbers that all have one value, one is computed */
            for (int i = 0; i < inputs; i++)
                if (in[i].each) number = n;
            int each = number == n && n > 1;
            for (int i = 0; i < inputs; i++)
                if (in[i].each) each = 1;
            if (code == WHERE)
                where(in, out, number);
            else if (inputs == 1)
                unary(code, in[0], out, number);
            else if (each)
                binary(code, in[0], in[1], out, number);
            else
                binary(code, (Operand){in[0].at, 1}, (Operand){in[1].at, 1}, out, 1);
            stack[top++] = (Operand){out, each};
        }
    }
    for (word i = 0; i < n; i++) {
        double score = stack[0].at[stack[0].each ? i : 0];
        scores[start + i] = score < -DBL_MAX ? -DBL_MAX : score; /* the best possible score is a number, too */
    }
}

/* ---- The grid on which probabilities are added up ---- */

static inline word on_grid(double p) { return (word)(((p + 1.0) - 1.0) * 0x1p52); } /* p may be just above 1 */

static inline double from_grid(word mass) { return (double)mass * 0x1p-52; }

/* ---- The labels of a row, from the most probable down ---- */

typedef struct {
    uint64_t *words, *spare; /* an entry's bits as a float, inverted, and its column: ascending words, descending p */
    int32_t *column;
    double *score, *room;
    Quantities q;
    word size, number; /* how many labels fit, and how many have been looked at */
    word mass;         /* of all that have been looked at, on the grid */
    double cut;        /* all entries from here on have been */
    double guess;      /* a cut to begin with */
} Row;

static int row_open(Row *row, word k)
{
    memset(row, 0, sizeof *row);
    row->size = k;
    row->guess = 2.0 / (double)k;
    size_t n = (size_t)k;
    row->words = malloc((2 * sizeof(uint64_t) + sizeof(int32_t)) * n);
    row->q.p = malloc(sizeof(double) * n * (6 + DEPTH));
    if (!row->words || !row->q.p) return 0;
    row->spare = row->words + n;
    row->column = (int32_t *)(row->spare + n);
    row->q.above = row->q.p + n, row->q.upto = row->q.above + n;
    row->q.n_above = row->q.upto + n, row->q.n_upto = row->q.n_above + n;
    row->score = row->q.n_upto + n, row->room = row->score + n;
    return 1;
}

static void row_close(Row *row)
{
    free(row->words);
    free(row->q.p);
}

static inline uint64_t packed(double p, word column)
{
    float rounded = (float)p + 0.0f; /* -0.0 is 0.0; rounding keeps the order */
    uint32_t bits;
    memcpy(&bits, &rounded, 4);
    return (uint64_t)(~bits) << 32 | (uint64_t)column;
}

#define SMALLEST_CUT 1e-20

/* Collect the entries in [low, high) of a row as words, in the order of their columns; return how many. */
#define COLLECT(name, type, at_least, lanes)                                                  \
    static word name(const type *p, word k, type low, type high, uint64_t *words)        \
    {                                                                                         \
        word number = 0, column = 0;                                                          \
        for (; column + lanes <= k; column += lanes)                                          \
            for (uint32_t left = at_least(p + column, low); left; left &= left - 1) {         \
                word at = column + __builtin_ctz(left);                                       \
                words[number] = packed(p[at], at);                                            \
                number += p[at] < high;                                                       \
            }                                                                                 \
        for (; column < k; column++)                                                          \
            if (p[column] >= low && p[column] < high) words[number++] = packed(p[column], column); \
        return number;                                                                        \
    }

COLLECT(collect_float, float, floats_at_least, 4 * FLOATS)
COLLECT(collect_double, double, doubles_at_least, 4 * DOUBLES)

/* The least float that is not below: floats are at least x if they are at least this. */
static float not_below(double x)
{
    float nearest = (float)x;
    return nearest < x ? nextafterf(nearest, INFINITY) : nearest;
}

/* The entries of row i in [low, high). */
static word collect(const Block *block, word i, double low, double high, uint64_t *words)
{
    const char *row = block->values + i * block->k * block->width;
    if (block->width == 8) return collect_double((const double *)row, block->k, low, high, words);
    return collect_float((const float *)row, block->k, not_below(low), not_below(high), words);
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

#define FEW 24
#define MANY 160
#define BUCKETS (2 * MANY + 1)

/* Sort words by their high halves, byte by byte; where these are equal, the order stays. */
static void sort_many(uint64_t *words, uint64_t *spare, word n)
{
    int32_t counts[4][256] = {{0}};
    uint64_t *from = words, *to = spare;
    for (word i = 0; i < n; i++)
        for (int byte = 0; byte < 4; byte++) counts[byte][words[i] >> (32 + 8 * byte) & 255]++;
    for (int byte = 0; byte < 4; byte++) {
        int shift = 32 + 8 * byte;
        if (counts[byte][from[0] >> shift & 255] == n) continue; /* all have the same */
        int32_t place = 0;
        for (int value = 0; value < 256; value++) {
            int32_t number = counts[byte][value];
            counts[byte][value] = place;
            place += number;
        }
        for (word i = 0; i < n; i++) to[counts[byte][from[i] >> shift & 255]++] = from[i];
        uint64_t *swapped = from;
        from = to, to = swapped;
    }
    if (from != words) memcpy(words, from, sizeof(uint64_t) * (size_t)n);
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

/* Look at no label of row i yet. */
static void row_start(Row *row, const Block *block, word i)
{
    row->number = row->mass = 0;
    row->cut = INFINITY;
    row->q.u = block->u ? block->u[i] : 0;
}

/* Look at the labels of row i down to a cut: put them in order, add up and score them. */
static void row_extend(Row *row, const Block *block, word i, double cut)
{
    const Quantities *q = &row->q;
    word start = row->number, stop = start + collect(block, i, cut, row->cut, row->words);
    row->cut = cut;
    row->number = stop;
    sort_words(row->words, row->spare, stop - start);
    for (word j = start; j < stop; j++) {
        row->column[j] = (int32_t)(uint32_t)row->words[j - start];
        q->p[j] = entry(block, i, row->column[j]);
    }
    if (block->width == 8)
        order_within(q->p + start, row->column + start, stop - start, block, i, row->words, row->spare);
    for (word j = start; j < stop;) { /* labels of equal probability stand in the same place */
        word last = j + 1, mass = on_grid(q->p[j]);
        while (last < stop && q->p[last] == q->p[j]) last++;
        double above = from_grid(row->mass), upto = from_grid(row->mass += mass * (last - j));
        for (word l = j; l < last; l++) {
            q->p[l] = from_grid(mass);
            q->above[l] = above, q->upto[l] = upto;
            q->n_above[l] = (double)j, q->n_upto[l] = (double)last;
        }
        j = last;
    }
    if (start == 0 && stop) row->q.top = q->p[0];
    if (start < 2 && stop >= 2) row->q.second = q->p[1];
    evaluate(block, q, start < 2 ? 0 : start, stop, row->room, row->size, row->score);
}

/* Look at the labels of row i until their scores have passed a limit, or there are no more. */
static void row_until(Row *row, const Block *block, word i, double limit)
{
    double cut = row->guess;
    row_start(row, block, i);
    for (;;) {
        row_extend(row, block, i, cut);
        if (row->number == block->k || cut == 0) break; /* what is no probability is never looked at */
        if (row->number >= 2 && row->score[row->number - 1] > limit) break;
        cut = cut > SMALLEST_CUT ? cut / 8 : 0;
    }
    /* Nothing but speed depends on the guess: one row in so many is to be looked at twice. */
    if (cut < row->guess)
        row->guess *= 0.75;
    else if (row->guess < 0.25)
        row->guess *= 1.05;
}

/* ---- What has not been looked at ---- */

typedef struct {
    double low, high;
} Range;

static Range range_of(double a, double b, double c, double d)
{
    if (IS_NAN(a) || IS_NAN(b) || IS_NAN(c) || IS_NAN(d)) return (Range){-INFINITY, INFINITY};
    return (Range){fmin(fmin(a, b), fmin(c, d)), fmax(fmax(a, b), fmax(c, d))};
}

static Range compared(int never, int always) { return (Range){always, !never}; }

static Range combined(int code, Range a, Range b)
{
    switch (code) {
    case ADD: return range_of(a.low + b.low, a.high + b.high, a.low + b.low, a.high + b.high);
    case SUBTRACT: return range_of(a.low - b.high, a.high - b.low, a.low - b.high, a.high - b.low);
    case MULTIPLY: return range_of(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high);
    case DIVIDE:
        if (b.low <= 0 && b.high >= 0) return (Range){-INFINITY, INFINITY};
        return range_of(a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high);
    case MAXIMUM: return (Range){fmax(a.low, b.low), fmax(a.high, b.high)};
    case MINIMUM: return (Range){fmin(a.low, b.low), fmin(a.high, b.high)};
    case EQUAL: return compared(a.high < b.low || b.high < a.low, a.low == a.high && b.low == b.high && a.low == b.low);
    case NOT_EQUAL: return compared(a.low == a.high && b.low == b.high && a.low == b.low, a.high < b.low || b.high < a.low);
    case LESS: return compared(a.low >= b.high, a.high < b.low);
    case LESS_EQUAL: return compared(a.low > b.high, a.high <= b.low);
    case GREATER: return compared(a.high <= b.low, a.low > b.high);
    case GREATER_EQUAL: return compared(a.high < b.low, a.low >= b.high);
    case NEGATIVE: return (Range){-a.high, -a.low};
    case SQRT: return (Range){a.low > 0 ? sqrt(a.low) : 0, a.high > 0 ? sqrt(a.high) : 0};
    default: /* ABSOLUTE */
        if (a.low <= 0 && a.high >= 0) return (Range){0, fmax(-a.low, a.high)};
        return range_of(fabs(a.low), fabs(a.high), fabs(a.low), fabs(a.high));
    }
}

/* The least score of labels that `number` labels, of this mass or more, are above, if they are below a cut.
   Operations that round keep the order, so a formula's value lies between those at the ends of ranges. */
static double least_score(const Block *block, const Quantities *q, word number, double mass, double cut)
{
    Range stack[DEPTH + 1] = {{0, 0}};
    double k = (double)block->k, most = 2, n = (double)number;
    Range known[] = {{0, from_grid(on_grid(cut))}, {mass, most}, {mass, most}, {n, k}, {n + 1, k},
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
            Range if_not = stack[top + 1], if_so = stack[top], *condition = &stack[top - 1];
            *condition = condition->low > 0 ? if_so : condition->high <= 0 ? if_not
                       : (Range){fmin(if_so.low, if_not.low), fmax(if_so.high, if_not.high)};
        } else if (code >= NEGATIVE) {
            stack[top - 1] = combined(code, stack[top - 1], stack[top - 1]);
        } else {
            top--;
            stack[top - 1] = combined(code, stack[top - 1], stack[top]);
        }
    }
    return stack[0].low;
}

#define CUTS 4

/* How many entries are in [cuts[j], below), and about what they add up to, for descending cuts. */
#define TAILS(name, type, vector, mask, lanes)                                                      \
    static void name(const type *p, word k, const type *cuts, type below, word *number, double *mass) \
    {                                                                                               \
        mask numbers[CUTS] = {{0}};                                                                 \
        vector sums[CUTS] = {{0}};                                                                  \
        word column = 0;                                                                            \
        for (; column + lanes <= k; column += lanes) {                                              \
            vector x;                                                                               \
            LOAD(x, p + column);                                                                    \
            x = (vector)((mask)x & (x < below));                                                    \
            for (int j = 0; j < CUTS; j++) {                                                        \
                mask within = x >= cuts[j];                                                         \
                numbers[j] -= within;                                                               \
                sums[j] += (vector)((mask)x & within);                                              \
            }                                                                                       \
        }                                                                                           \
        for (int j = 0; j < CUTS; j++) {                                                            \
            number[j] = 0, mass[j] = 0;                                                             \
            for (int lane = 0; lane < lanes; lane++) number[j] += numbers[j][lane], mass[j] += sums[j][lane]; \
            for (word c = column; c < k; c++)                                                       \
                if (p[c] >= cuts[j] && p[c] < below) number[j]++, mass[j] += p[c];                  \
        }                                                                                           \
    }

TAILS(tails_float, float, floats, float_mask, FLOATS)
TAILS(tails_double, double, doubles, double_mask, DOUBLES)

/* What entries add up to at least on the grid, if that is their sum in floats: each may round up half a unit. */
static double least_mass(double sum, word k)
{
    return fmax(0, sum * (1 - (double)k * 0x1p-24) - (double)k * 0x1p-53);
}

/* ---- One label of a row: nothing has to be sorted for that ---- */

/* How many entries are above `own`, how many are equal, and what those above add up to: exact, on the grid. */
static double standing_float(const float *p, word k, float own, word *above, word *equal)
{
    float_mask more = {0}, same = {0};
    doubles first = {0}, second = {0};
    word column = 0;
    double mass = 0;
    for (; column + FLOATS <= k; column += FLOATS) {
        floats x, chosen;
        half_floats halves[2];
        LOAD(x, p + column);
        more -= x > own, same -= x == own;
        chosen = (floats)((float_mask)x & (x > own));
        LOAD(halves, &chosen);
        first += (__builtin_convertvector(halves[0], doubles) + 1.0) - 1.0;
        second += (__builtin_convertvector(halves[1], doubles) + 1.0) - 1.0;
    }
    *above = *equal = 0;
    for (int lane = 0; lane < FLOATS; lane++) *above += more[lane], *equal += same[lane];
    for (int lane = 0; lane < DOUBLES; lane++) mass += first[lane] + second[lane];
    for (; column < k; column++) {
        if (p[column] > own) ++*above, mass += ((double)p[column] + 1.0) - 1.0;
        *equal += p[column] == own;
    }
    return mass;
}

static double standing_double(const double *p, word k, double own, word *above, word *equal)
{
    double mass = 0;
    *above = *equal = 0;
    for (word column = 0; column < k; column++) {
        if (p[column] > own) ++*above, mass += (p[column] + 1.0) - 1.0;
        *equal += p[column] == own;
    }
    return mass;
}

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

/* The score of one label of row i; `row` has room for it. */
static double label_score(Row *row, const Block *block, word i, word label, int tops)
{
    Quantities *q = &row->q;
    double own = entry(block, i, label);
    word above, equal;
    if (block->width == 4)
        q->above[0] = standing_float((const float *)block->values + i * block->k, block->k, (float)own, &above, &equal);
    else
        q->above[0] = standing_double((const double *)block->values + i * block->k, block->k, own, &above, &equal);
    q->p[0] = from_grid(on_grid(own));
    q->upto[0] = q->above[0] + (double)equal * q->p[0];
    q->n_above[0] = (double)above, q->n_upto[0] = (double)(above + equal);
    q->u = block->u ? block->u[i] : 0;
    if (tops) {
        two_largest(block, i, &q->top, &q->second);
        q->top = from_grid(on_grid(q->top)), q->second = from_grid(on_grid(q->second));
    }
    evaluate(block, q, 0, 1, row->room, row->size, row->score);
    return row->score[0];
}

/* ---- Cells: see cells.py ---- */

#define LEADING 0x8000 /* how many different leading bits a magnitude has */
#define BELOW_HALF (0.5 - 0x1p-26)

static inline word cell_of(const int32_t *table, double score)
{
    int lower = score < BELOW_HALF;
    float nearer = lower ? (float)score : (float)(1.0 - score);
    uint32_t bits;
    memcpy(&bits, &nearer, 4);
    return table[(bits >> 16) + (lower ? 2 * LEADING : 0)];
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

#define LARGEST(name, type, vector, mask, lanes)                                       \
    static type name(const type *p, word k)                                       \
    {                                                                                  \
        type found = p[0];                                                             \
        word column = 0;                                                               \
        if (k >= lanes) {                                                              \
            vector most, x;                                                            \
            LOAD(most, p);                                                             \
            for (column = lanes; column + lanes <= k; column += lanes) {               \
                LOAD(x, p + column);                                                   \
                mask larger = x > most;                                                \
                most = (vector)(((mask)x & larger) | ((mask)most & ~larger));          \
            }                                                                          \
            for (int j = 0; j < lanes; j++) found = most[j] > found ? most[j] : found; \
        }                                                                              \
        for (; column < k; column++) found = p[column] > found ? p[column] : found;    \
        return found;                                                                  \
    }

LARGEST(largest_float, float, floats, float_mask, FLOATS)
LARGEST(largest_double, double, doubles, double_mask, DOUBLES)

/* Whether the entries of a row are probabilities: none negative or NaN, none above 1, and of sum 1. */
#define CHECKED(name, type, vector, mask, lanes, epsilon, largest)                     \
    static int name(const type *p, word k, double tolerance)                      \
    {                                                                                  \
        vector x, sums = {0};                                                          \
        mask good = ~(mask){0};                                                        \
        double sum = 0;                                                                \
        int wrong = 0;                                                                 \
        word column = 0;                                                               \
        for (; column + lanes <= k; column += lanes) {                                 \
            LOAD(x, p + column);                                                       \
            sums += x;                                                                 \
            good &= x >= 0;                                                            \
        }                                                                              \
        for (int j = 0; j < lanes; j++) sum += sums[j], wrong |= !good[j];             \
        for (; column < k; column++) sum += p[column], wrong |= !(p[column] >= 0);     \
        if (wrong || !(fabs(sum - 1) <= tolerance)) return 0;                          \
        return sum <= 1 + 8 * epsilon || largest(p, k) <= 1;                           \
    }

CHECKED(checked_float, float, floats, float_mask, FLOATS, FLT_EPSILON, largest_float)
CHECKED(checked_double, double, doubles, double_mask, DOUBLES, DBL_EPSILON, largest_double)

#endif
