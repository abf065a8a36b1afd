/* How many rows have a label in their sets, at several thresholds of each label's own: the compiled twin of `counts`
   in numpy.py. No Python here. Rows are looked at as a whole, and some at a time are compared with the thresholds. */

#ifndef NACP_PARTED_H
#define NACP_PARTED_H

#include "rows.h"

#define ROWS_AT_ONCE 8

/* For each label, count those of ROWS_AT_ONCE rows in which it scores at most as its threshold. */
WIDE static void count_inside(const double *restrict scores, const double *restrict thresholds, word *restrict found,
                              word k)
{
    for (word l = 0; l < k; l++) {
        word inside = 0;
        for (word row = 0; row < ROWS_AT_ONCE; row++) inside += scores[row * k + l] <= thresholds[l];
        found[l] += inside;
    }
}

/* The scores of all labels of row i, in their places. */
static void place_scores(Row *row, const Block *block, word i, double *scores)
{
    if (!block->code) {
        for (word l = 0; l < block->k; l++) scores[l] = -entry(block, i, l);
        return;
    }
    row_until(row, block, i, INFINITY);
    for (word l = 0; row->number < block->k && l < block->k; l++) scores[l] = NAN; /* of what is no probability */
    for (word j = 0; j < row->number; j++) scores[row->column[j]] = row->score[j];
}

/* The same of ROWS_AT_ONCE rows; those that do not exist have no label in any set. */
static void place_some(Row *row, const Block *block, word first, word last, double *scores)
{
    for (word i = first; i < first + ROWS_AT_ONCE; i++, scores += block->k) {
        if (i < last)
            place_scores(row, block, i, scores);
        else
            for (word l = 0; l < block->k; l++) scores[l] = NAN;
    }
}

#endif
