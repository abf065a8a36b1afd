/* How many rows have a label below marks of its own, and how many have it there, or what these pairs weigh; and which
   pairs are in gaps of their labels: the compiled twin of by_label.py. No Python here. The floats next to scores of
   some rows are compared with those next to the marks, some labels at a time, which stay in the nearest cache. Rounding
   keeps the order: where two floats differ, the numbers do in the same way; where they are equal, the numbers tell. */

#ifndef NACP_PARTED_H
#define NACP_PARTED_H

#include "rows.h"

#define TILE_ROWS 8

/* Labels that are compared at once. */
#define ABREAST 16
typedef float Floats __attribute__((vector_size(4 * ABREAST)));
typedef int32_t Flags __attribute__((vector_size(4 * ABREAST)));
typedef int8_t Bytes __attribute__((vector_size(ABREAST)));

/* Labels whose weights are added at once. */
#define WEIGHED 8
typedef float FewFloats __attribute__((vector_size(4 * WEIGHED)));
typedef double Doubles __attribute__((vector_size(8 * WEIGHED)));
typedef word Words __attribute__((vector_size(8 * WEIGHED)));

/* What pairs are compared with: arrays of number x k, or of number x wide, which is a multiple of ABREAST. */
typedef struct {
    const double *marks;
    float *floats; /* next to them; wide */
    word number, k, wide;
    int32_t *pairs; /* how many are below; wide */
    word *sums;     /* what they gain, less what they lose, and after it what they gain; wide */
    word *below;    /* the same; or what they gain, and after it what they lose */
    word *tied;     /* the same, of those that have the score of the mark */
} Counts;

/* Some rows that are looked at together. */
typedef struct {
    const Block *block;
    word first, last, wide; /* the rows; those from `last` on do not exist */
    Row row;
    double *scores;  /* TILE_ROWS x k, but of -p */
    float *floats;   /* TILE_ROWS x wide: next to them */
    int8_t *open;    /* and whether these are those of a mark */
    int32_t *labels; /* k: those that are open, of a row */
} Tile;

/* Whether scores are floats as they are. */
static int is_minus_p(const Block *block) { return !block->code && block->width == 4; }

static word wide_enough(word k) { return (k + ABREAST - 1) / ABREAST * ABREAST; }

static void *room_for(word number, size_t size) { return malloc((size_t)(number ? number : 1) * size); }

static int tile_open(Tile *tile, const Block *block, word last)
{
    word k = block->k, wide = wide_enough(k);
    *tile = (Tile){.block = block, .last = last, .wide = wide};
    int good = row_open(&tile->row, k);
    tile->floats = room_for(TILE_ROWS * wide, sizeof *tile->floats);
    tile->open = room_for(TILE_ROWS * wide, sizeof *tile->open);
    tile->scores = room_for(TILE_ROWS * k, sizeof *tile->scores);
    tile->labels = room_for(k + 8, sizeof *tile->labels);
    good &= tile->floats && tile->open && tile->scores && tile->labels;
    for (word at = 0; good && at < TILE_ROWS * wide; at++) tile->floats[at] = INFINITY;
    return good;
}

static void tile_close(Tile *tile)
{
    row_close(&tile->row);
    free(tile->floats), free(tile->open), free(tile->scores), free(tile->labels);
}

/* ---- Scores, and the floats next to them ---- */

/* Of formulas, floats are next to how far scores are above 1, where many of them are. */
static double shift_of(const Block *block) { return block->code ? 1.0 : 0.0; }

/* What is out of the range of floats is at its end. */
static float next_to(double x) { return (float)(x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x); }

WIDE static void round_off(const double *restrict scores, double shift, float *restrict floats, word n)
{
    for (word l = 0; l < n; l++) floats[l] = next_to(scores[l] - shift);
}

WIDE static void minus_floats(const float *restrict p, word k, float *restrict scores)
{
    for (word l = 0; l < k; l++) scores[l] = -p[l];
}

WIDE static void minus_doubles(const double *restrict p, word k, double *restrict scores)
{
    for (word l = 0; l < k; l++) scores[l] = -p[l];
}

/* The scores of all labels of row i, in their places. */
static void place_scores(Row *row, const Block *block, word i, double *scores)
{
    if (!block->code) {
        minus_doubles(row_at(block, i), block->k, scores);
        return;
    }
    row_until(row, block, i, INFINITY);
    for (word l = 0; row->number < block->k && l < block->k; l++) scores[l] = NAN; /* of what is no probability */
    for (word j = 0; j < row->number; j++) scores[row->column[j]] = row->score[j];
}

/* The scores of a row of a tile, and floats. In one that does not exist, no label is below any mark. */
static void score_row(Tile *tile, word j)
{
    const Block *block = tile->block;
    word i = tile->first + j, k = block->k;
    float *floats = tile->floats + j * tile->wide;
    double *scores = tile->scores + j * k;
    if (i >= tile->last) {
        for (word l = 0; l < k; l++) floats[l] = INFINITY;
    } else if (is_minus_p(block)) {
        minus_floats(row_at(block, i), k, floats);
    } else {
        place_scores(&tile->row, block, i, scores);
        round_off(scores, shift_of(block), floats, k);
    }
}

/* ---- Counting ---- */

/* Compare the floats of scores with those of marks: count what is below, and note where that does not tell. */
WIDE static void compare_tile(const Counts *counts, const Tile *tile)
{
    word wide = counts->wide;
    for (word from = 0; from < wide; from += ABREAST) {
        Floats floats[TILE_ROWS];
        Flags open[TILE_ROWS] = {{0}};
        for (int j = 0; j < TILE_ROWS; j++) memcpy(&floats[j], tile->floats + j * wide + from, sizeof floats[j]);
        for (word t = 0, at = from; t < counts->number; t++, at += wide) {
            Floats mark;
            Flags below;
            memcpy(&mark, counts->floats + at, sizeof mark);
            memcpy(&below, counts->pairs + at, sizeof below);
#pragma GCC unroll 8
            for (int j = 0; j < TILE_ROWS; j++) {
                below -= floats[j] < mark; /* -1 is true */
                open[j] |= floats[j] == mark;
            }
            memcpy(counts->pairs + at, &below, sizeof below);
        }
        for (int j = 0; j < TILE_ROWS; j++) {
            Bytes flags = __builtin_convertvector(open[j], Bytes);
            memcpy(tile->open + j * wide + from, &flags, sizeof flags);
        }
    }
}

/* Add up what labels weigh where they are below marks. In a row that does not exist, none is. */
WIDE static void weigh_tile(const Counts *counts, const Tile *tile, const word *const *weights)
{
    word wide = counts->wide, all = counts->number * wide;
    for (word from = 0; from < counts->k; from += WEIGHED) {
        FewFloats few;
        Doubles floats[TILE_ROWS]; /* as wide as weights */
        Words own[TILE_ROWS], up[TILE_ROWS];
        word some = least_of(counts->k - from, WEIGHED);
        for (int j = 0; j < TILE_ROWS; j++) {
            const word *of_row = (weights[j] ? weights[j] : weights[0]) + from;
            memcpy(&few, tile->floats + j * wide + from, sizeof few);
            floats[j] = __builtin_convertvector(few, Doubles);
            if (some == WEIGHED) {
                memcpy(&own[j], of_row, sizeof own[j]);
            } else {
                own[j] = (Words){0};
                memcpy(&own[j], of_row, sizeof *of_row * (size_t)some);
            }
            up[j] = own[j] & ~(own[j] >> 63);
        }
        for (word t = 0, at = from; t < counts->number; t++, at += wide) {
            Words net, gain;
            memcpy(&few, counts->floats + at, sizeof few);
            memcpy(&net, counts->sums + at, sizeof net);
            memcpy(&gain, counts->sums + all + at, sizeof gain);
            Doubles mark = __builtin_convertvector(few, Doubles);
#pragma GCC unroll 8
            for (int j = 0; j < TILE_ROWS; j++) {
                Words below = floats[j] < mark;
                net += own[j] & below, gain += up[j] & below;
            }
            memcpy(counts->sums + at, &net, sizeof net);
            memcpy(counts->sums + all + at, &gain, sizeof gain);
        }
    }
}

/* Which of n flags are set; there is room for eight more in both. */
static word list_set(const int8_t *flags, word n, int32_t *places)
{
    word number = 0;
    for (word from = 0; from < n; from += 8) {
        uint64_t eight;
        memcpy(&eight, flags + from, 8);
        if (!eight) continue;
        for (word place = from; place < from + 8; place++) /* nothing to guess */
            places[number] = (int32_t)place, number += flags[place] != 0;
    }
    while (number && places[number - 1] >= n) number--;
    return number;
}

/* Compare a score with those marks of its label that have its float. */
static void compare_score(const Counts *counts, word label, double score, float next, const word *weights)
{
    word weight = weights ? weights[label] : 1, part = weight < 0 ? counts->number : 0;
    for (word t = 0; t < counts->number; t++) {
        if (counts->floats[t * counts->wide + label] != next) continue;
        double mark = counts->marks[t * counts->k + label];
        word at = (part + t) * counts->k + label;
        if (score < mark) counts->below[at] += weight < 0 ? -weight : weight;
        if (score == mark) counts->tied[at] += weight < 0 ? -weight : weight;
    }
}

/* Compare those labels of a row of a tile of which floats do not tell. */
static void compare_open(const Counts *counts, Tile *tile, word j, const word *weights)
{
    const Block *block = tile->block;
    word i = tile->first + j, k = block->k, n = list_set(tile->open + j * tile->wide, k, tile->labels);
    const double *scores = tile->scores + j * k;
    for (word m = 0; m < n; m++) {
        word label = tile->labels[m];
        double score = is_minus_p(block) ? -entry(block, i, label) : scores[label];
        compare_score(counts, label, score, tile->floats[j * tile->wide + label], weights);
    }
}

/* Count the pairs of the rows of a tile, from `first` on; there is a row of weights for each, or none. */
static void count_tile(const Counts *counts, Tile *tile, word first, const word *const *weights)
{
    tile->first = first;
    for (word j = 0; j < TILE_ROWS; j++) score_row(tile, j);
    compare_tile(counts, tile);
    if (weights[0]) weigh_tile(counts, tile, weights);
    for (word j = 0; j < TILE_ROWS && first + j < tile->last; j++) compare_open(counts, tile, j, weights[j]);
}

/* The floats next to marks, as they are next to scores; where there is no label, nothing is below. */
static int counts_open(Counts *counts, const Block *block)
{
    word number = counts->number, k = counts->k, wide = counts->wide = wide_enough(k), all = number * wide;
    counts->pairs = calloc((size_t)(all ? all : 1), sizeof *counts->pairs);
    counts->floats = room_for(all, sizeof *counts->floats);
    counts->sums = calloc((size_t)(all ? 2 * all : 1), sizeof *counts->sums);
    if (!counts->pairs || !counts->floats || !counts->sums) return 0;
    for (word at = 0; at < all; at++) counts->floats[at] = -INFINITY;
    for (word t = 0; t < number; t++) round_off(counts->marks + t * k, shift_of(block), counts->floats + t * wide, k);
    return 1;
}

/* Say how many pairs are below marks; or what they gain, and what they lose. */
static void say_sums(const Counts *counts, int weighed)
{
    word number = counts->number, k = counts->k, wide = counts->wide;
    for (word t = 0; t < number; t++)
        for (word l = 0; l < k; l++) {
            word at = t * wide + l, gain = counts->sums[number * wide + at];
            counts->below[t * k + l] += weighed ? gain : counts->pairs[at];
            if (weighed) counts->below[(number + t) * k + l] += gain - counts->sums[at];
        }
}

static void counts_close(Counts *counts) { free(counts->pairs), free(counts->sums), free(counts->floats); }

/* ---- Pairs in gaps ---- */

/* Of so many labels each is scored by itself; of more, all labels of a row are. */
#define ONE_BY_ONE 24

/* Gaps of labels: above one number, and below another. It is quicker if those of a label come one after the other. */
typedef struct {
    const word *labels;
    const double *lows, *highs;
    word number;
    int few; /* whether each label is scored by itself */
} Gaps;

/* What was found: in which gap, the score, and the weight. */
typedef struct {
    int32_t *which;
    double *scores;
    word *weights;
} InGaps;

static void gaps_open(Gaps *gaps, const Block *block)
{
    word different = 0;
    for (word g = 0; g < gaps->number; g++) different += g == 0 || gaps->labels[g] != gaps->labels[g - 1];
    gaps->few = block->code && different <= ONE_BY_ONE;
}

/* The score of one label of row i. */
static double score_one(Row *row, const Block *block, word i, word label)
{
    return label_score(row, block, i, label, block->lanes->standing(row_at(block, i), block->k, entry(block, i, label)));
}

/* Find the pairs of row i in gaps, of which there may be as many as gaps; return how many. */
static word find_in_gaps(const Gaps *gaps, Row *row, const Block *block, word i, double *scores, const word *weights,
                         InGaps found)
{
    word n = 0;
    if (block->code && !gaps->few) place_scores(row, block, i, scores);
    for (word g = 0, before = -1; g < gaps->number; g++) {
        word label = gaps->labels[g];
        if (gaps->few && label != before) scores[label] = score_one(row, block, i, label);
        double score = block->code ? scores[label] : -entry(block, i, label);
        before = label, found.which[n] = (int32_t)g, found.scores[n] = score;
        n += (gaps->lows[g] < score) & (score < gaps->highs[g]); /* nothing to guess */
    }
    for (word j = 0; weights && j < n; j++) found.weights[j] = weights[gaps->labels[found.which[j]]];
    return n;
}

#endif
