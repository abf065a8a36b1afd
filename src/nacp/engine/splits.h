/* Many splits of the same rows, each a mask over them: how they are drawn, sums over the rows that they choose, and
   where each split's estimate crosses its targets. The compiled twin of what nacp/paper/splitting.py and plain.py
   do for one split. No Python here. */

#ifndef NACP_SPLITS_H
#define NACP_SPLITS_H

#include "rows.h"

/* ---- Sums over the rows that masks choose. A few rows at a time, so that they stay in the cache for all masks. ---- */

#define MASKED_AT_ONCE 64

typedef struct {
    const uint16_t *counts; /* rows x width, none above `most` */
    const uint8_t *masks;   /* masks x rows: 0 or 1 */
    word rows, width, most;
    word *sums; /* masks x width */
} Masked;

/* Add up the rows of at most 64 that bits choose, five vectors of columns at a time, the last of which may begin
   among those before it. */
#define PANEL 5
#define COLUMNS 32
typedef uint16_t Columns __attribute__((vector_size(64), aligned(2)));
WIDE static void add_chosen(const uint16_t *restrict counts, word width, uint64_t bits, word *restrict sums)
{
    word last = width - COLUMNS;
    for (word column = 0; last >= 0 && column < width; column += PANEL * COLUMNS) {
        Columns sum[PANEL] = {{0}};
        word starts[PANEL];
        for (int v = 0; v < PANEL; v++) starts[v] = least_of(column + v * COLUMNS, last);
        for (uint64_t left = bits; left; left &= left - 1) {
            const uint16_t *row = counts + __builtin_ctzll(left) * width;
            for (int v = 0; v < PANEL; v++) sum[v] += *(const Columns *)(row + starts[v]);
        }
        uint16_t room[PANEL][COLUMNS];
        memcpy(room, sum, sizeof room);
        for (word v = 0; v < PANEL && column + v * COLUMNS < width; v++) {
            word known = column + v * COLUMNS - starts[v]; /* some columns were added before */
            for (word c = 0; c < COLUMNS; c++) sums[starts[v] + c] += c < known ? 0 : room[v][c];
        }
    }
    for (uint64_t left = last < 0 ? bits : 0; left; left &= left - 1)
        for (word c = 0; c < width; c++) sums[c] += counts[__builtin_ctzll(left) * width + c];
}

/* Which of at most 64 bytes, all 0 or 1, are 1. */
static uint64_t mask_bits(const uint8_t *bytes, word number)
{
    uint64_t eight[8] = {0}, bits = 0;
    memcpy(eight, bytes, (size_t)number);
    for (int i = 0; i < 8; i++) bits |= ((eight[i] & 0x0101010101010101u) * 0x0102040810204080u >> 56) << 8 * i;
    return bits;
}

/* The sums of the masks from `first` to `last`. */
static void sum_masked(const Masked *masked, word first, word last)
{
    word width = masked->width, step = least_of(UINT16_MAX / masked->most, MASKED_AT_ONCE); /* sums of so many fit */
    for (word start = 0; start < masked->rows; start += step) {
        word number = least_of(step, masked->rows - start);
        for (word mask = first; mask < last; mask++) {
            uint64_t bits = mask_bits(masked->masks + mask * masked->rows + start, number);
            add_chosen(masked->counts + start * width, width, bits, masked->sums + mask * width);
        }
    }
}

/* ---- Draws: the numbers of NumPy's generator, PCG64, from a state on. ---- */

typedef unsigned __int128 wide;

#define DRAWN_AT_ONCE 256
#define LOWER_FIRST (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) /* of the halves of a word in memory */
#define MULTIPLIER ((wide)2549297995355413924u << 64 | 4865540595714422341u)

typedef struct {
    wide state, step;
    union {
        uint64_t words[DRAWN_AT_ONCE];
        uint32_t halves[2 * DRAWN_AT_ONCE];
    };
    word next;     /* in halves of words, of which the lower one comes first */
    int left_over; /* whether there is half a word from before whole ones were asked for */
    uint32_t half;
} Generator;

static void generator_open(Generator *generator, const uint64_t *state)
{
    generator->state = (wide)state[0] << 64 | state[1], generator->step = (wide)state[2] << 64 | state[3];
    generator->next = 2 * DRAWN_AT_ONCE, generator->left_over = 0;
}

/* Draw the next words; four at a time, as one waits for the last. */
static void draw_words(Generator *generator)
{
    wide states[4], state = generator->state, power = 1, steps = 0;
    for (int i = 0; i < 4; i++) {
        state = states[i] = state * MULTIPLIER + generator->step;
        steps = steps * MULTIPLIER + generator->step, power *= MULTIPLIER;
    }
    for (int i = 0; i < DRAWN_AT_ONCE; i += 4)
        for (int lane = 0; lane < 4; lane++) {
            state = states[lane];
            uint64_t mixed = (uint64_t)(state >> 64) ^ (uint64_t)state;
            int turn = (int)(state >> 122);
            mixed = mixed >> turn | mixed << (-turn & 63);
            generator->words[i + lane] = LOWER_FIRST ? mixed : mixed >> 32 | mixed << 32;
            states[lane] = state * power + steps;
        }
    generator->state = state, generator->next = 0;
}

/* The halves that are there, at least one, and how many. */
static const uint32_t *next_halves(Generator *generator, word *number)
{
    if (generator->next == 2 * DRAWN_AT_ONCE) draw_words(generator);
    *number = 2 * DRAWN_AT_ONCE - generator->next;
    return generator->halves + generator->next;
}

/* The least power of two above a number. */
static uint32_t power_above(uint32_t number)
{
    uint32_t power = 1;
    while (power <= number) power *= 2;
    return power;
}

typedef struct {
    const uint64_t *states; /* four words for each split */
    const int32_t *labels;
    word rows, k, calibration;
    double rate;    /* of uniform noise */
    uint8_t *masks; /* splits x rows: whether a row calibrates */
    int32_t *noisy; /* splits x rows, if they are wanted */
} Draws;

/* Which rows are the first of a permutation of all. Its places are filled from the last on, each with one of the rows
   that are left: some bits of half a word say which, and are drawn again if there is none. Once it is settled who is
   left for the first places, nobody wants to know their order. `left` has room for one row more. */
static void draw_mask(Generator *generator, const Draws *draws, uint32_t *restrict left, uint8_t *restrict mask)
{
    uint32_t rows = (uint32_t)draws->rows, i = rows - 1, bits = power_above(i) - 1;
    uint32_t calibration = (uint32_t)least_of(draws->calibration, rows);
    for (uint32_t row = 0; row < rows; row++) left[row] = row;
    while (i > 0) {
        word number, j = 0;
        const uint32_t *halves = next_halves(generator, &number);
        for (; j < number && i > bits >> 1 && i >= calibration; j++) {
            uint32_t place = halves[j] & bits, good = place <= i;
            left[good ? place : rows] = left[i];
            i -= good;
        }
        if (i < calibration)
            for (; j < number && i > bits >> 1; j++) i -= (halves[j] & bits) <= i;
        if (i <= bits >> 1) bits >>= 1;
        generator->next += j;
    }
    memset(mask, 0, rows);
    for (uint32_t place = 0; place < calibration; place++) mask[left[place]] = 1;
    generator->left_over = generator->next & 1;
    if (generator->left_over) generator->half = generator->halves[generator->next++];
}

/* Which labels are replaced: those with a uniform number, of 53 bits, below the rate. They become -1. */
WIDE static void replace_some(const uint64_t *restrict words, word number, uint64_t bar, const int32_t *restrict labels,
                              int32_t *restrict noisy)
{
    for (word i = 0; i < number; i++) {
        uint64_t drawn = LOWER_FIRST ? words[i] : words[i] >> 32 | words[i] << 32;
        noisy[i] = drawn >> 11 < bar ? -1 : labels[i];
    }
}

/* By which ones: Lemire's method makes half a word a whole number below k, or rejects it if the lower part of a
   product is too low. Returns whether some were rejected; then nothing was written. */
WIDE static int label_some(const uint32_t *restrict halves, word number, uint32_t k, int32_t *restrict noisy)
{
    uint32_t lowest = UINT32_MAX;
    for (word i = 0; i < number; i++) lowest = halves[i] * k < lowest ? halves[i] * k : lowest;
    if (lowest < -k % k) return 1;
    for (word i = 0; i < number; i++) noisy[i] = noisy[i] < 0 ? (int32_t)((uint64_t)halves[i] * k >> 32) : noisy[i];
    return 0;
}

/* The same for the next rows, as far as the halves go: returns for how many. */
static word draw_labels(const uint32_t *halves, word number, uint32_t k, int32_t *noisy)
{
    if (!label_some(halves, number, k, noisy)) return number;
    word rows = 0;
    for (word i = 0; i < number; i++) rows += !label_some(halves + i, 1, k, noisy + rows);
    return rows;
}

static void draw_noise(Generator *generator, const Draws *draws, int32_t *noisy)
{
    word rows = draws->rows, number, done = 0;
    uint64_t bar = (uint64_t)ceil(draws->rate * 0x1p53);
    uint32_t k = (uint32_t)draws->k;
    for (word i = 0; i < rows; i += number / 2) {
        next_halves(generator, &number);
        number = least_of(number, 2 * (rows - i));
        replace_some(generator->words + generator->next / 2, number / 2, bar, draws->labels + i, noisy + i);
        generator->next += number;
    }
    if (k == 1) memset(noisy, 0, sizeof *noisy * (size_t)rows); /* nothing is drawn */
    else if (generator->left_over) done = draw_labels(&generator->half, 1, k, noisy);
    while (k > 1 && done < rows) {
        const uint32_t *halves = next_halves(generator, &number);
        number = least_of(number, rows - done);
        done += draw_labels(halves, number, k, noisy + done);
        generator->next += number;
    }
}

static int draw_splits(const Draws *draws, word first, word last)
{
    uint32_t *left = malloc(sizeof *left * (size_t)(draws->rows + 1));
    Generator *generator = malloc(sizeof *generator);
    for (word split = first; left && generator && split < last; split++) {
        generator_open(generator, draws->states + 4 * split);
        word at = split * draws->rows;
        draw_mask(generator, draws, left, draws->masks + at);
        if (draws->noisy) draw_noise(generator, draws, draws->noisy + at);
    }
    free(left), free(generator);
    return left && generator;
}

/* ---- Pairs by cell: a score is in the cell of the number of edges below it ---- */

typedef struct {
    word rows, k, cells;
    const void *values; /* the scores of all pairs, of `width` bytes; or minus them */
    int width, minus;
    const double *edges;
    uint16_t *of; /* rows x k: the cell of each pair; written as they are counted, and then read */
    uint16_t *counts;     /* rows x edges: how many scores of a row are up to each edge */
    const uint8_t *known; /* whether pairs of a cell are wanted, and if so, */
    const word *stops;    /* where their places end, */
    word *places;         /* and the next one */
    double *pair_scores;
    int32_t *pair_rows;
} Cells;

static inline double score_at(const void *values, int width, int minus, word place)
{
    double value = width == 4 ? ((const float *)values)[place] : ((const double *)values)[place];
    return minus ? -value : value;
}

/* The cells of the scores of a row, all of them halved together. `scores` has room for a row's. */
WIDE static void find_cells(const Cells *cells, word row, double *restrict scores, int32_t *restrict found)
{
    word k = cells->k;
    const double *edges = cells->edges;
    for (word l = 0; l < k; l++) {
        scores[l] = score_at(cells->values, cells->width, cells->minus, row * k + l);
        found[l] = 0;
    }
    for (int32_t left = (int32_t)cells->cells - 1, half; left > 0; left -= half) {
        half = (left + 1) / 2;
        for (word l = 0; l < k; l++) found[l] += edges[found[l] + half - 1] < scores[l] ? half : 0;
    }
}

/* Count the scores of a row in each cell; in turns, as one count waits for the last in the same cell. */
static void count_row(const Cells *cells, word row, const int32_t *found, uint32_t *numbers)
{
    word k = cells->k, all = cells->cells, edges = all - 1;
    memset(numbers, 0, sizeof *numbers * (size_t)(4 * all));
    for (word l = 0; l < k; l++) {
        cells->of[row * k + l] = (uint16_t)found[l];
        numbers[(l & 3) * all + found[l]]++;
    }
    uint32_t upto = 0;
    for (word c = 0; c < edges; c++) {
        upto += numbers[c] + numbers[all + c] + numbers[2 * all + c] + numbers[3 * all + c];
        cells->counts[row * edges + c] = (uint16_t)upto;
    }
}

/* Put the pairs of a row in their places; returns whether they fit. `labels` has room for a row's. */
static int place_row(const Cells *cells, word row, int32_t *labels)
{
    const uint16_t *of = cells->of + row * cells->k;
    word number = 0;
    for (word l = 0; l < cells->k; l++) {
        labels[number] = (int32_t)l;
        number += of[l] < cells->cells && cells->known[of[l]];
    }
    for (word j = 0; j < number; j++) {
        word cell = of[labels[j]], place = cells->places[cell]++;
        if (place >= cells->stops[cell]) return 0;
        cells->pair_scores[place] = score_at(cells->values, cells->width, cells->minus, row * cells->k + labels[j]);
        cells->pair_rows[place] = (int32_t)row;
    }
    return 1;
}

/* Count the scores of the rows from `first` to `last`, or put their pairs in place: 1; 0 without memory, -1 if they do
   not fit. */
static int sort_into_cells(const Cells *cells, word first, word last)
{
    double *scores = malloc(sizeof *scores * (size_t)cells->k);
    int32_t *found = malloc(sizeof *found * (size_t)cells->k);
    uint32_t *numbers = malloc(sizeof *numbers * (size_t)(4 * cells->cells));
    int good = scores && found && numbers;
    for (word row = first; good > 0 && row < last; row++) {
        if (!cells->counts) {
            if (!place_row(cells, row, found)) good = -1;
            continue;
        }
        find_cells(cells, row, scores, found);
        count_row(cells, row, found, numbers);
    }
    free(scores), free(found), free(numbers);
    return good;
}

/* ---- Crossings: where the estimate of each split crosses its targets, and what its test sets are like there ---- */

/* How far a split is; else the number of a cell whose pairs have to be put in order first. */
enum { DONE_SPLIT = -1, NEW_SPLIT = -2, OTHER_SPLIT = -3 }; /* the last: one that the caller has to do */
enum { UNKNOWN, KNOWN, ORDERED };                          /* the pairs of a cell */

typedef struct {
    word rows, k, cells, calibration, columns;
    const double *edges;        /* between cells; a score is in the cell of the number of edges below it */
    const int32_t *labels;      /* the true ones */
    const int32_t *order;       /* rows in the order of the scores of these, */
    const double *scores;       /* which are ascending */
    const word *starts;         /* of each cell in that order, */
    const word *pair_starts;    /* and among the pairs */
    const word *totals;         /* pairs of all rows below each cell */
    const double *pair_scores;
    const int32_t *pair_rows;
    const word *known;          /* what is known of each cell's pairs */
    const uint16_t *of;         /* the cell of each pair */
    const void *values;         /* the scores of all pairs, of `width` bytes; or minus them */
    int width, minus, last;     /* whether the last crossing is looked for */
    const uint8_t *masks;       /* splits x rows */
    const int32_t *noisy;       /* splits x rows, or rows if they are the same for all: */
    word apart;
    const word *tallies;        /* splits x edges: pairs of the rows that calibrate */
    const word *kinds;          /* columns x 3: whether true labels are seen, what a label adds, what a pair adds */
    const double *units;        /* columns x 2: of both */
    const double *targets;      /* splits x columns */
    double rounding;            /* so close below a target, it is reached */
    double *found;              /* thresholds, sizes, coverages: 3 x splits x columns */
    word splits;
    word *open;                 /* how far each split is */
} Crossings;

/* One split; `numbers` of labels and of pairs are those up to the low end of each cell, and in the end all. */
typedef struct {
    uint8_t *seen; /* rows: 0 in the test, 1 with a wrong label, 3 with the right one */
    word *numbers[2], *pairs;
    word wrong;
    int32_t *wrong_rows;
    uint16_t *wrong_cells;
    double *own, *some;
    const int32_t *labels;
    const word *tally;
} Split;

static inline word cell_among(const Crossings *crossings, double score)
{
    const double *low = crossings->edges;
    for (word left = crossings->cells - 1; left > 0;) {
        word half = (left + 1) / 2;
        low += (low[half - 1] < score) * half;
        left -= half;
    }
    return low - crossings->edges;
}

WIDE static void see(const uint8_t *restrict mask, const int32_t *restrict noisy, const int32_t *restrict labels,
                     word rows, uint8_t *restrict seen)
{
    for (word i = 0; i < rows; i++) seen[i] = (uint8_t)((mask[i] != 0) * (1 + 2 * (noisy[i] == labels[i])));
}

/* Find the wrong labels of the rows that calibrate, and their cells; returns whether all are labels. */
static int find_wrong(const Crossings *crossings, Split *split)
{
    word k = crossings->k, wrong = 0;
    for (word i = 0; i < crossings->rows; i++) {
        split->wrong_rows[wrong] = (int32_t)i;
        wrong += split->seen[i] == 1;
    }
    split->wrong = wrong;
    for (word j = 0; j < wrong; j++) {
        int32_t row = split->wrong_rows[j], label = split->labels[row];
        if (label < 0 || label >= k) return 0;
        int32_t ahead = split->wrong_rows[least_of(j + 16, wrong - 1)];
        __builtin_prefetch(crossings->of + ahead * k + split->labels[ahead]);
        split->wrong_cells[j] = crossings->of[row * k + label];
        if (split->wrong_cells[j] >= crossings->cells) return 0;
    }
    return 1;
}

/* Count labels and pairs up to each cell. */
static void count_split(const Crossings *crossings, Split *split)
{
    word cells = crossings->cells, *true_ones = split->numbers[1], *given = split->numbers[0];
    memset(given, 0, sizeof *given * (size_t)(cells + 1));
    for (word j = 0; j < split->wrong; j++) given[split->wrong_cells[j] + 1]++;
    true_ones[0] = split->pairs[0] = 0;
    for (word c = 0; c < cells; c++) {
        word calibrating = 0, right = 0;
        for (word p = crossings->starts[c]; p < crossings->starts[c + 1]; p++) {
            uint8_t seen = split->seen[crossings->order[p]];
            calibrating += seen & 1, right += seen >> 1;
        }
        true_ones[c + 1] = true_ones[c] + calibrating;
        given[c + 1] += given[c] + right;
        split->pairs[c + 1] = c + 1 < cells ? split->tally[c] : crossings->calibration * crossings->k;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The scores of the labels in a cell, ascending: those of right ones are in order, wrong ones are merged into them. */
static word own_scores(const Crossings *crossings, Split *split, word cell, int sees_true)
{
    word number = 0, others = 0, first = crossings->starts[cell], j = crossings->starts[cell + 1];
    for (word w = 0; w < split->wrong && !sees_true; w++) {
        if (split->wrong_cells[w] != cell) continue;
        word row = split->wrong_rows[w], place = row * crossings->k + split->labels[row];
        split->some[others++] = score_at(crossings->values, crossings->width, crossings->minus, place);
    }
    qsort(split->some, (size_t)others, sizeof *split->some, ascending);
    word all = split->numbers[sees_true][cell + 1] - split->numbers[sees_true][cell];
    for (number = all; j > first;) { /* from the end on */
        uint8_t seen = split->seen[crossings->order[--j]];
        if (!(sees_true ? seen & 1 : seen >> 1)) continue;
        while (others && split->some[others - 1] > crossings->scores[j]) split->own[--number] = split->some[--others];
        split->own[--number] = crossings->scores[j];
    }
    while (others) split->own[--number] = split->some[--others];
    return all;
}

/* The estimate of coverage with so many labels and pairs. */
static inline double estimate(const Crossings *crossings, word column, word labels, word pairs)
{
    const word *kind = crossings->kinds + 3 * column;
    const double *unit = crossings->units + 2 * column;
    return ((double)(kind[1] * labels) * unit[0] + (double)(kind[2] * pairs) * unit[1]) /
           (double)crossings->calibration;
}

WIDE static int rows_fit(const int32_t *rows, word number, word all)
{
    uint32_t highest = 0;
    for (word i = 0; i < number; i++) highest = (uint32_t)rows[i] > highest ? (uint32_t)rows[i] : highest;
    return highest < all;
}

/* Follow the estimate through a cell for one target. It rises at the scores of labels only, so it is crossed at one
   of these: from above, the highest before which it is below the bar; from below, the lowest with which it is not.
   Returns whether the bar is crossed, or -1 if that cannot be told here; `where` is then what the split waits for. */
static int scan_cell(const Crossings *crossings, Split *split, word cell, word column, double bar, double *threshold,
                     word *where)
{
    const word *kind = crossings->kinds + 3 * column, *numbers = split->numbers[kind[0] != 0];
    word upper = crossings->last, end = cell + upper; /* where the search comes from, and what is known there */
    word labels = numbers[end], pairs = split->pairs[end], step = upper ? -1 : 1;
    word p = crossings->pair_starts[cell], stop = crossings->pair_starts[cell + 1];
    int reached = estimate(crossings, column, labels, pairs) >= bar;
    *where = OTHER_SPLIT;
    if (reached != upper) return -1;
    if (!kind[2]) p = stop;
    else if (crossings->known[cell] != ORDERED) {
        if (crossings->known[cell] == KNOWN) *where = cell;
        return -1;
    }
    if (!rows_fit(crossings->pair_rows + p, stop - p, crossings->rows)) return -1;
    word all = own_scores(crossings, split, cell, kind[0] != 0), j = upper ? all - 1 : 0;
    const double *own = split->own, *scores = crossings->pair_scores;
    const int32_t *rows = crossings->pair_rows;
    while (j >= 0 && j < all) {
        double score = own[j];
        for (; j >= 0 && j < all && own[j] == score; j += step) labels += step;
        if (upper)
            for (; stop > p && scores[stop - 1] >= score; stop--) pairs -= split->seen[rows[stop - 1]] & 1;
        else
            for (; p < stop && scores[p] <= score; p++) pairs += split->seen[rows[p]] & 1;
        *threshold = score;
        if ((estimate(crossings, column, labels, pairs) >= bar) != upper) return 1;
    }
    return 0;
}

/* Find the threshold of a column; returns whether it is known. */
static int cross(const Crossings *crossings, Split *split, word column, double target, double *threshold, word *where)
{
    const word *numbers = split->numbers[crossings->kinds[3 * column] != 0], *pairs = split->pairs;
    double bar = target - crossings->rounding;
    *threshold = INFINITY;
    if (target > 1 + crossings->rounding) return 1;
    for (word i = 0; i < crossings->cells; i++) {
        /* Inside a cell, the estimate is at least that with the labels before it and all its pairs. */
        word c = crossings->last ? crossings->cells - 1 - i : i, low = c + !crossings->last, high = c + crossings->last;
        if ((estimate(crossings, column, numbers[low], pairs[high]) >= bar) == crossings->last) continue;
        int crossed = scan_cell(crossings, split, c, column, bar, threshold, where);
        if (crossed) return crossed > 0;
    }
    *threshold = target <= 0 ? -INFINITY : INFINITY;
    return 1;
}

/* Measure the test sets at a threshold; returns whether the pairs that it takes are known. */
static int measure(const Crossings *crossings, const Split *split, double threshold, double *size, double *coverage)
{
    double tested = (double)(crossings->rows - crossings->calibration);
    *size = (double)crossings->k, *coverage = 1;
    if (threshold == INFINITY) return 1;
    word cell = cell_among(crossings, threshold), p = crossings->pair_starts[cell], stop = crossings->pair_starts[cell + 1];
    const int32_t *rows = crossings->pair_rows;
    word below = crossings->totals[cell] - split->pairs[cell], covered = crossings->starts[cell] - split->numbers[1][cell];
    if (cell + 1 < crossings->cells && crossings->edges[cell] == threshold)
        below = crossings->totals[cell + 1] - split->pairs[cell + 1];
    else if (crossings->known[cell] == UNKNOWN || !rows_fit(rows + p, stop - p, crossings->rows))
        return 0;
    else
        for (; p < stop; p++) below += (split->seen[rows[p]] == 0) & (crossings->pair_scores[p] <= threshold);
    for (word j = crossings->starts[cell]; j < crossings->starts[cell + 1] && crossings->scores[j] <= threshold; j++)
        covered += split->seen[crossings->order[j]] == 0;
    *size = (double)below / tested, *coverage = (double)covered / tested;
    return 1;
}

/* Do one split as far as that is possible; returns whether its labels are labels. */
static int cross_split(const Crossings *crossings, word number, Split *split)
{
    word columns = crossings->columns, *open = crossings->open + number;
    split->labels = crossings->noisy + number * crossings->apart;
    split->tally = crossings->tallies + number * (crossings->cells - 1);
    see(crossings->masks + number * crossings->rows, split->labels, crossings->labels, crossings->rows, split->seen);
    if (!find_wrong(crossings, split)) return 0;
    count_split(crossings, split);
    for (word column = 0; column < columns; column++) {
        double *found = crossings->found + number * columns + column;
        word apart = crossings->splits * columns;
        *open = OTHER_SPLIT;
        if (!cross(crossings, split, column, crossings->targets[number * columns + column], found, open)) return 1;
        *open = OTHER_SPLIT;
        if (!measure(crossings, split, *found, found + apart, found + 2 * apart)) return 1;
    }
    *open = DONE_SPLIT;
    return 1;
}

/* Do the splits from `first` to `last` that are open: 1, or 0 without memory, or -1 for labels that are none. */
static int cross_splits(const Crossings *crossings, word first, word last)
{
    size_t rows = (size_t)crossings->rows, ends = (size_t)crossings->cells + 1;
    double *doubles = malloc(sizeof *doubles * 2 * rows);
    word *words = malloc(sizeof *words * 3 * ends);
    int32_t *wrong_rows = malloc(sizeof *wrong_rows * rows);
    uint16_t *wrong_cells = malloc(sizeof *wrong_cells * rows);
    uint8_t *seen = malloc(rows);
    int good = doubles && words && wrong_rows && wrong_cells && seen;
    if (good) {
        Split split = {.seen = seen, .numbers = {words, words + ends}, .pairs = words + 2 * ends,
                       .wrong_rows = wrong_rows, .wrong_cells = wrong_cells, .own = doubles, .some = doubles + rows};
        for (word number = first; good > 0 && number < last; number++) {
            word open = crossings->open[number];
            if (open != DONE_SPLIT && open != OTHER_SPLIT && !cross_split(crossings, number, &split)) good = -1;
        }
    }
    free(doubles), free(words), free(wrong_rows), free(wrong_cells), free(seen);
    return good;
}

#endif
