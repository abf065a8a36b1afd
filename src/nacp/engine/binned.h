/* Bounds on the scores of all labels of a row, for which nothing is sorted. No Python here.

   Labels of nearly the same probability share a bin. What lies above a bin is known exactly, so what stands above a
   label is known up to its own bin, and its score lies between two numbers: see least_score in rows.h. Alone in its
   bin, a label has its score. Where that does not tell, the labels of the bin do. */

#ifndef NACP_BINNED_H
#define NACP_BINNED_H

#include "rows.h"

#define BIN_BITS 18 /* of a float that play no part: 32 bins from a number to its half, */
#define BINS 1280   /* and 40 halvings from the most probable label down; the last one holds all that is left */
#define FEWEST_BINNED 512 /* rows of fewer labels are sorted sooner */
#define FEW_TOGETHER 64 /* labels of a bin are looked at one by one; for more, the row is */
#define CHUNK 64    /* so many bins are bounded at once, in the nearest cache */

/* The mass of labels, of which each is on the grid, and their number. */
typedef double Bin __attribute__((vector_size(16)));

/* A row in bins. */
typedef struct {
    uint32_t top;             /* the bits of the largest probability */
    word number;              /* of bins that hold labels, */
    int32_t filled[BINS];     /* which ones, */
    double above[BINS + CHUNK], n_above[BINS + CHUNK]; /* what is in those before each, and in all at the end */
    int32_t place[BINS];      /* of a bin among those that hold labels, */
    int32_t last[BINS];       /* the last of its labels, */
    int32_t *previous;        /* and of each label the one before it in the same bin, if there is one */
    uint16_t *bin;            /* of each label */
} Binned;

typedef struct {
    float low, high;
} Bounds;

/* What is known of the labels of some bins. */
typedef struct {
    const double *above, *n_above; /* what is in the bins before, and in all at the end */
    double p_low[CHUNK], p_high[CHUNK];
    double rooms[DEPTH][2][CHUNK];
    float lows[CHUNK], highs[CHUNK]; /* bounds on scores */
} Chunk;

/* Room for one row. */
typedef struct {
    Bin bins[BINS]; /* empty, but while a row is put into them */
    Bounds bounds[BINS];
    Chunk chunk;
    int8_t flags[BINS];
} Binning;

static inline int32_t float_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline float bits_float(int32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* ---- Putting labels into bins ---- */

/* The bins of labels, below the largest of them, and their probabilities on the grid; return if all are some. */
#define BIN_LABELS(name, type)                                                                                       \
    WIDE static int name(const type *restrict p, word k, uint32_t top, uint16_t *restrict bin, double *restrict grid) \
    {                                                                                                                \
        int bad = 0;                                                                                                 \
        for (word l = 0; l < k; l++) {                                                                               \
            uint32_t place = (top - (uint32_t)float_bits((float)p[l] + 0.0f)) >> BIN_BITS;                           \
            bin[l] = (uint16_t)(place < BINS ? place : BINS - 1);                                                    \
            bad |= !(p[l] >= 0);                                                                                     \
        }                                                                                                            \
        for (word l = 0; l < k; l++) grid[l] = (p[l] + 1.0) - 1.0;                                                   \
        return !bad;                                                                                                 \
    }
BIN_LABELS(bin_floats, float)
BIN_LABELS(bin_doubles, double)

static void fill_bins(Bin *restrict bins, Binned *restrict binned, const double *restrict grid, word k)
{
    int32_t *restrict last = binned->last, *restrict previous = binned->previous;
    for (int32_t l = 0; l < k; l++) {
        uint16_t b = binned->bin[l];
        bins[b] += (Bin){grid[l], 1};
        previous[l] = last[b], last[b] = l;
    }
}

/* One byte for each bin: whether it holds labels. */
WIDE static void flag_filled(const Bin *restrict bins, int8_t *restrict flags)
{
    for (word b = 0; b < BINS; b++) flags[b] = bins[b][1] != 0;
}

/* One bit for each of 64 bytes that are 0 or 1. */
static inline uint64_t bits_of_flags(const int8_t *flags)
{
    uint64_t bits = 0;
    for (int part = 0; part < 64; part += 8) {
        uint64_t eight;
        memcpy(&eight, flags + part, 8);
        if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) eight = __builtin_bswap64(eight);
        bits |= (eight * 0x0102040810204080u >> 56) << part; /* each bit is moved to where it belongs */
    }
    return bits;
}

/* What is in the bins before each that holds labels; they are empty then. */
static void empty_bins(Binning *restrict binning, Binned *restrict binned)
{
    word m = 0;
    Bin before = {0, 0};
    flag_filled(binning->bins, binning->flags);
    for (int32_t from = 0; from < BINS; from += 64)
        for (uint64_t bits = bits_of_flags(binning->flags + from); bits; bits &= bits - 1, m++) {
            int32_t b = from + __builtin_ctzll(bits);
            binned->filled[m] = b, binned->place[b] = (int32_t)m;
            binned->above[m] = before[0], binned->n_above[m] = before[1];
            before += binning->bins[b];
            binning->bins[b] = (Bin){0, 0};
        }
    binned->number = m, binned->above[m] = before[0], binned->n_above[m] = before[1];
}

/* ---- Bounds on the scores of the labels of bins ---- */

static inline double not_negative(double x) { return ((x > 0 ? x : 0) + 1.0) - 1.0; }

/* Between which probabilities the labels of bins are; of one alone, which it has. */
WIDE static void bound_p(const double *restrict above, const double *restrict n_above, const int32_t *restrict bin,
                         int32_t top, double *restrict p_low, double *restrict p_high)
{
    for (word m = 0; m < CHUNK; m++) {
        int32_t high = top - (bin[m] << BIN_BITS), low = bin[m] == BINS - 1 ? 0 : high - (1 << BIN_BITS);
        double least = not_negative(bits_float(low < 0 ? 0 : low)), most = not_negative(bits_float(high + 1));
        double alone = above[m + 1] - above[m], number = n_above[m + 1] - n_above[m];
        p_low[m] = number == 1 ? alone : least;
        p_high[m] = number == 1 ? alone : most;
    }
}

#define QUANTITY(code, least, most) \
    case code: for (word m = 0; m < CHUNK; m++) low[m] = least, high[m] = most; break

/* What a code from LOAD_P to LOAD_N_UPTO is for the labels of bins. */
WIDE static void bound_quantity(const Chunk *restrict chunk, int code, double *restrict low, double *restrict high)
{
    const double *restrict above = chunk->above, *restrict n_above = chunk->n_above;
    switch (code) {
        QUANTITY(LOAD_P, chunk->p_low[m], chunk->p_high[m]);
        QUANTITY(LOAD_ABOVE, above[m], above[m + 1] - chunk->p_low[m]);
        QUANTITY(LOAD_UPTO, above[m] + chunk->p_low[m], above[m + 1]);
        QUANTITY(LOAD_N_ABOVE, n_above[m], n_above[m + 1] - 1);
        QUANTITY(LOAD_N_UPTO, n_above[m] + 1, n_above[m + 1]);
    }
}

#define COMBINE(code)                                                                                          \
    case code:                                                                                                 \
        for (word m = 0; m < CHUNK; m++) {                                                                     \
            Range both = combined(code, (Range){low[m], high[m]}, (Range){other_low[m], other_high[m]});       \
            low[m] = both.low, high[m] = both.high;                                                            \
        }                                                                                                      \
        break

WIDE static void combine(int code, double *restrict low, double *restrict high, const double *restrict other_low,
                         const double *restrict other_high)
{
    switch (code) {
        COMBINE(ADD); COMBINE(SUBTRACT); COMBINE(MULTIPLY); COMBINE(DIVIDE); COMBINE(MAXIMUM); COMBINE(MINIMUM);
        COMBINE(EQUAL); COMBINE(NOT_EQUAL); COMBINE(LESS); COMBINE(LESS_EQUAL); COMBINE(GREATER);
        COMBINE(GREATER_EQUAL); COMBINE(NEGATIVE); COMBINE(ABSOLUTE); COMBINE(SQRT);
    }
}

/* Where a condition holds, one; else, another; the condition is replaced by what comes out. */
static void choose(double (*condition)[CHUNK], double (*if_so)[CHUNK], double (*if_not)[CHUNK])
{
    for (word m = 0; m < CHUNK; m++) {
        Range found = chosen((Range){condition[0][m], condition[1][m]}, (Range){if_so[0][m], if_so[1][m]},
                             (Range){if_not[0][m], if_not[1][m]});
        condition[0][m] = found.low, condition[1][m] = found.high;
    }
}

/* Floats are compared for scores: of a formula, by how far they are above 1, where many of them are. */
#define MANY_ARE 1.0

/* Floats around that, which may be out of their range. */
WIDE static void narrow(const double *low, const double *high, float *restrict lows, float *restrict highs, word n)
{
    for (word m = 0; m < n; m++) {
        double least = low[m] - MANY_ARE, most = high[m] - MANY_ARE;
        least -= fabs(least) * 0x1p-23 + FLT_MIN, most += fabs(most) * 0x1p-23 + FLT_MIN;
        lows[m] = (float)(least > FLT_MAX ? FLT_MAX : least);
        highs[m] = (float)(most < -FLT_MAX ? -FLT_MAX : most);
    }
}

/* One number for all. */
WIDE static void repeat(double one, double *restrict low, double *restrict high)
{
    for (word m = 0; m < CHUNK; m++) low[m] = high[m] = one;
}

/* Evaluate a block's formula for the labels of bins. */
static void bound_chunk(const Block *block, const Quantities *q, Chunk *chunk)
{
    double single[] = {q->top, q->second, q->u};
    word top = 0;
    for (word c = 0; c < block->length; c++) {
        int code = block->code[2 * c], argument = block->code[2 * c + 1];
        top -= inputs_of(code);
        double(*out)[CHUNK] = chunk->rooms[top], (*other)[CHUNK] = chunk->rooms[top + 1 < DEPTH ? top + 1 : 0];
        if (code <= LOAD_N_UPTO) {
            bound_quantity(chunk, code, out[0], out[1]);
        } else if (code <= LOAD_CONSTANT) {
            repeat(code == LOAD_CONSTANT ? block->constants[argument] : single[code - LOAD_TOP], out[0], out[1]);
        } else if (code == WHERE) {
            choose(out, other, chunk->rooms[top + 2]);
        } else {
            combine(code, out[0], out[1], other[0], other[1]);
        }
        top++;
    }
    narrow(chunk->rooms[0][0], chunk->rooms[0][1], chunk->lows, chunk->highs, CHUNK);
}

static void bound_bins(const Block *block, const Quantities *q, const Binned *binned, Binning *binning)
{
    Chunk *chunk = &binning->chunk;
    for (word from = 0; from < binned->number; from += CHUNK) {
        chunk->above = binned->above + from, chunk->n_above = binned->n_above + from;
        bound_p(chunk->above, chunk->n_above, binned->filled + from, (int32_t)binned->top, chunk->p_low, chunk->p_high);
        bound_chunk(block, q, chunk);
        for (word m = 0, n = least_of(binned->number - from, CHUNK); m < n; m++)
            binning->bounds[binned->filled[from + m]] = (Bounds){chunk->lows[m], chunk->highs[m]};
    }
}

/* ---- Rows ---- */

/* What a formula wants to know of row i as a whole. */
static void know_row(const Block *block, word i, double largest, Quantities *q)
{
    q->u = block->u ? block->u[i] : 0;
    q->top = from_grid(on_grid(largest));
    for (word c = 0; c < block->length; c++)
        if (block->code[2 * c] == LOAD_SECOND) {
            two_largest(block, i, &q->top, &q->second);
            q->top = from_grid(on_grid(q->top)), q->second = from_grid(on_grid(q->second));
            return;
        }
}

/* Put the labels of row i into bins, and find bounds on their scores; return whether it can be done. */
static int bin_row(Binned *binned, Binning *binning, Quantities *q, const Block *block, word i, double *grid,
                   float *restrict lows, float *restrict highs)
{
    word k = block->k;
    const void *values = row_at(block, i);
    double largest = block->lanes->largest(values, k);
    binned->top = (uint32_t)float_bits((float)largest + 0.0f);
    if (!(block->width == 4 ? bin_floats(values, k, binned->top, binned->bin, grid)
                            : bin_doubles(values, k, binned->top, binned->bin, grid)))
        return 0;
    fill_bins(binning->bins, binned, grid, k);
    empty_bins(binning, binned);
    know_row(block, i, largest, q);
    bound_bins(block, q, binned, binning);
    for (word l = 0; l < k; l++) {
        Bounds found = binning->bounds[binned->bin[l]];
        lows[l] = found.low, highs[l] = found.high;
    }
    return 1;
}

/* How label l of row i stands, from those that share its bin. */
static Standing stand_binned(const Binned *binned, const Block *block, word i, word l)
{
    uint16_t bin = binned->bin[l];
    word place = binned->place[bin], above = (word)binned->n_above[place], equal = 0;
    word number = (word)binned->n_above[place + 1] - above;
    double own = entry(block, i, l), mass = binned->above[place];
    if (number > FEW_TOGETHER) return block->lanes->standing(row_at(block, i), block->k, own);
    for (int32_t other = binned->last[bin]; number; number--, other = binned->previous[other]) {
        double p = entry(block, i, other), more = p > own; /* nothing to guess */
        mass += more * ((p + 1.0) - 1.0), above += p > own, equal += p == own;
    }
    return (Standing){mass, above, equal, 0};
}

/* The scores of some labels of row i: row->scores has them. */
static void score_binned(Row *row, const Binned *binned, const Block *block, word i, const int32_t *labels, word n)
{
    Quantities *q = &row->q;
    for (word j = 0; j < n; j++) {
        Standing at = stand_binned(binned, block, i, labels[j]);
        q->p[j] = from_grid(on_grid(entry(block, i, labels[j])));
        q->above[j] = at.mass, q->upto[j] = at.mass + (double)at.equal * q->p[j];
        q->n_above[j] = (double)at.above, q->n_upto[j] = (double)(at.above + at.equal);
    }
    know_row(block, i, block->lanes->largest(row_at(block, i), block->k), q);
    evaluate(block, q, 0, n, row->room, row->size, row->scores);
}

#endif
