/* How many rows have a label in their sets, at several thresholds of each label's own, or what these pairs weigh: the
   compiled twin of `counts` in numpy.py. No Python here. Rows are looked at as a whole; then some labels of some rows
   at a time, which stay in the nearest cache, are compared with all thresholds. */

#ifndef NACP_PARTED_H
#define NACP_PARTED_H

#include "rows.h"

#define TILE_ROWS 8
#define TILE_LABELS 64

/* What pairs are compared with, and what is known of them by now: arrays of number x k. */
typedef struct {
    const double *thresholds;
    word number, k;
    word *pairs;          /* how many, or else: */
    word *gains, *losses; /* what they weigh */
} Counts;

/* The weights of a tile, above and below 0. */
typedef struct {
    word up[TILE_ROWS][TILE_LABELS], down[TILE_ROWS][TILE_LABELS];
} Weighed;

/* Of n labels, count those of TILE_ROWS rows in which each scores at most as its threshold. */
WIDE static void count_tile(const double *restrict scores, word k, const double *restrict thresholds,
                            word *restrict pairs, word n)
{
    for (word l = 0; l < n; l++) {
        word inside = 0;
        for (word row = 0; row < TILE_ROWS; row++) inside += scores[row * k + l] <= thresholds[l];
        pairs[l] += inside;
    }
}

/* The same of what they weigh. */
WIDE static void weigh_tile(const double *restrict scores, word k, const double *restrict thresholds,
                            const Weighed *restrict weighed, word *restrict gains, word *restrict losses, word n)
{
    for (word l = 0; l < n; l++) {
        word gain = 0, loss = 0;
        for (word row = 0; row < TILE_ROWS; row++) {
            word inside = -(word)(scores[row * k + l] <= thresholds[l]);
            gain += weighed->up[row][l] & inside, loss += weighed->down[row][l] & inside;
        }
        gains[l] += gain, losses[l] += loss;
    }
}

/* The weights of labels of TILE_ROWS rows, from one on. */
WIDE static void part_weights(const word *const *weights, word from, word n, Weighed *restrict weighed)
{
    for (word row = 0; row < TILE_ROWS; row++) {
        const word *restrict own = weights[row] + from;
        for (word l = 0; l < n; l++) {
            weighed->up[row][l] = own[l] > 0 ? own[l] : 0;
            weighed->down[row][l] = own[l] < 0 ? -own[l] : 0;
        }
    }
}

/* Count the pairs of TILE_ROWS rows; `weights` has a row of weights for each, or none. */
static void count_inside(const Counts *counts, const double *scores, const word *const *weights)
{
    Weighed weighed;
    for (word from = 0, k = counts->k; from < k; from += TILE_LABELS) {
        word n = k - from < TILE_LABELS ? k - from : TILE_LABELS;
        if (weights[0]) part_weights(weights, from, n, &weighed);
        for (word t = 0, at = from; t < counts->number; t++, at += k) {
            const double *q = counts->thresholds + at;
            if (weights[0])
                weigh_tile(scores + from, k, q, &weighed, counts->gains + at, counts->losses + at, n);
            else
                count_tile(scores + from, k, q, counts->pairs + at, n);
        }
    }
}

/* The score is -p. */
WIDE static void minus(const Block *block, word i, double *restrict scores)
{
    const float *floats = row_at(block, i);
    const double *doubles = row_at(block, i);
    if (block->width == 4)
        for (word l = 0; l < block->k; l++) scores[l] = -floats[l];
    else
        for (word l = 0; l < block->k; l++) scores[l] = -doubles[l];
}

/* The scores of all labels of row i, in their places. */
static void place_scores(Row *row, const Block *block, word i, double *scores)
{
    if (!block->code) {
        minus(block, i, scores);
        return;
    }
    row_until(row, block, i, INFINITY);
    for (word l = 0; row->number < block->k && l < block->k; l++) scores[l] = NAN; /* of what is no probability */
    for (word j = 0; j < row->number; j++) scores[row->column[j]] = row->score[j];
}

/* The same of TILE_ROWS rows; those that do not exist have no label in any set. */
static void place_some(Row *row, const Block *block, word first, word last, double *scores)
{
    for (word i = first; i < first + TILE_ROWS; i++, scores += block->k) {
        if (i < last)
            place_scores(row, block, i, scores);
        else
            for (word l = 0; l < block->k; l++) scores[l] = NAN;
    }
}

#endif
