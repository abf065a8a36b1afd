/* Sums over the rows that masks choose, as many splits of the same rows need them: the compiled twin of `masked_sums`
   in plain.py. No Python here. Some rows at a time, so that they stay in the cache for all masks. */

#ifndef NACP_SPLITS_H
#define NACP_SPLITS_H

#include "rows.h"

#define MASKED_AT_ONCE 256

typedef struct {
    const uint32_t *counts; /* rows x width, none above `most` */
    const uint8_t *masks;   /* masks x rows: 0 or not */
    word rows, width, most;
    word *sums; /* masks x width */
} Masked;

/* Add up some of the rows from a first one on. */
WIDE static void add_chosen(const uint32_t *restrict counts, word width, const int32_t *restrict chosen, word number,
                            uint32_t *restrict sums)
{
    word j = 0;
    for (; j + 4 <= number; j += 4) {
        const uint32_t *a = counts + chosen[j] * width, *b = counts + chosen[j + 1] * width;
        const uint32_t *c = counts + chosen[j + 2] * width, *d = counts + chosen[j + 3] * width;
        for (word i = 0; i < width; i++) sums[i] += a[i] + b[i] + c[i] + d[i];
    }
    for (; j < number; j++) {
        const uint32_t *row = counts + chosen[j] * width;
        for (word i = 0; i < width; i++) sums[i] += row[i];
    }
}

/* Add to the sums of one mask what it chooses from `start` to `stop`; `room` is for as many numbers as a row has. */
static void add_masked(const Masked *masked, word mask, word start, word stop, uint32_t *room)
{
    int32_t chosen[MASKED_AT_ONCE], number = 0;
    for (word i = start; i < stop; i++) {
        chosen[number] = (int32_t)(i - start);
        number += masked->masks[mask * masked->rows + i] != 0;
    }
    memset(room, 0, sizeof *room * (size_t)masked->width);
    add_chosen(masked->counts + start * masked->width, masked->width, chosen, number, room);
    word *sums = masked->sums + mask * masked->width;
    for (word c = 0; c < masked->width; c++) sums[c] += room[c];
}

/* The sums of the masks from `first` to `last`. */
static int sum_masked(const Masked *masked, word first, word last)
{
    word step = UINT32_MAX / masked->most; /* sums of so many rows fit */
    step = step < MASKED_AT_ONCE ? step : MASKED_AT_ONCE;
    uint32_t *room = malloc(sizeof *room * (size_t)(masked->width + 1));
    for (word start = 0; room && start < masked->rows; start += step) {
        word stop = start + step < masked->rows ? start + step : masked->rows;
        for (word mask = first; mask < last; mask++) add_masked(masked, mask, start, stop, room);
    }
    free(room);
    return room != NULL;
}

#endif
