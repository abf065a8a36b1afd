/* Cells between many edges, as a stream counts in: where a score lies among them, and how a row's scores add to the
   squared sizes of sets. No Python here; native.py makes the index. */

#ifndef NACP_EDGES_H
#define NACP_EDGES_H

#include "rows.h"

/* Edges ascend and end at infinity. A score's leading bits tell its wide cell (cells.py), and the next bits in which
   part of that it lies. There the first edge is known that may be the next above it, and mostly the bits up to which
   it is. Bits fall where scores rise from below 0 and from 1/2 to 1; then they are turned round. */
typedef struct {
    const double *edges;
    word cells;            /* between the edges */
    const int32_t *parts;  /* for each wide cell: where its places begin, and how many bits are left in a part */
    const uint32_t *places; /* of each part: an edge, the bits up to which it is the next above, and whether these are
                               how many other edges there are instead, or MANY_OTHERS */
} Edges;

#define BITS_LEFT 11
#define SEARCHED 1
#define MANY_OTHERS ((1 << BITS_LEFT) - 1)

static inline word edge_of(uint32_t place) { return place >> (BITS_LEFT + 1); }

static inline word bits_of(uint32_t place) { return place >> 1 & MANY_OTHERS; }

/* The first of ascending edges from `first` to `last` that is not below a score, near a guess. */
static word edge_near(const Edges *edges, word first, word last, word guess, double score)
{
    const double *edge = edges->edges;
    word step = 1;
    if (first == last) return first;
    if (guess < first || guess >= last) guess = (first + last) / 2;
    if (edge[guess] < score) {
        for (first = guess + 1; first + step < last && edge[first + step] < score; step *= 2) first += step + 1;
        last = least_of(last, first + step);
    } else {
        for (last = guess; last - step > first && edge[last - step] >= score; step *= 2) last -= step;
        first = first > last - step ? first : last - step;
    }
    while (first < last) {
        word middle = (first + last) / 2;
        if (edge[middle] < score) first = middle + 1; else last = middle;
    }
    return first;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* What is known of the place of a score among edges. */
typedef struct {
    uint32_t place, left; /* the bits that are left of the score */
} Found;

static inline Found found_at(const Edges *edges, double score)
{
    int lower = score < BELOW_HALF;
    uint32_t bits = bits_of_float(lower ? (float)score : (float)(1.0 - score));
    uint32_t turned = ~((uint32_t)-lower ^ -(bits >> 31));
    const int32_t *part = edges->parts + 2 * cells.codes[(lower ? 2 * LEADING : 0) + (bits >> 16)];
    uint32_t place = edges->places[part[0] + (int32_t)((bits & 0xFFFF) >> part[1])];
    return (Found){place, (bits ^ turned) & ((1u << part[1] % 16) - 1)}; /* none of 16 */
}

static inline int is_searched(Found found) { return found.place & SEARCHED; }

/* The first edge that is not below a score: one that is known, */
static inline word edge_known(const Edges *edges, Found found, double score)
{
    word first = edge_of(found.place), upto = bits_of(found.place);
    if ((word)found.left == upto) return first + (edges->edges[first] < score); /* as floats they are the same */
    return first + ((word)found.left > upto);
}

/* or one of so many others. */
static word edge_among(const Edges *edges, Found found, word guess, double score)
{
    word first = edge_of(found.place), others = bits_of(found.place);
    return edge_near(edges, first, others < MANY_OTHERS ? first + others : edges->cells, guess, score);
}

static inline word edge_above(const Edges *edges, double score)
{
    Found found = found_at(edges, score);
    return is_searched(found) ? edge_among(edges, found, -1, score) : edge_known(edges, found, score);
}

/* Whether a place with so many bits left points to edges that exist. */
static int place_fits(const Edges *edges, uint32_t place, word left)
{
    word first = edge_of(place), upto = bits_of(place), next = upto < (1 << left % 16) - 1;
    word others = !(place & SEARCHED) ? next : upto < MANY_OTHERS ? upto : 0;
    return first >= 1 && first + others <= edges->cells;
}

static int edges_fit(const Edges *edges, word wide, word places)
{
    if (edges->edges[edges->cells] != INFINITY || wide != cells.number) return 0;
    for (word c = 0; c < wide; c++) {
        word start = edges->parts[2 * c], left = edges->parts[2 * c + 1];
        if (left < 0 || left > 16 || start < 0 || start + (0xFFFF >> left) >= places) return 0;
        for (word p = start; p <= start + (0xFFFF >> left); p++)
            if (!place_fits(edges, edges->places[p], left)) return 0;
    }
    return 1;
}

/* ---- The squared sizes of a row's sets ---- */

/* What is counted in cells: pairs, and what they add to the squared sizes. */
typedef struct {
    word *pairs, *squares;
} Counted;

static int ascend(const int32_t *cells, word number)
{
    int falls = 0;
    for (word j = 1; j < number; j++) falls |= cells[j] < cells[j - 1];
    return !falls;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Find the cells of ascending scores. Those of the row before are near, and nearer if moved as far as the last one. */
static void cells_of(const Edges *edges, const double *scores, word number, const int32_t *before, Found *found,
                     int32_t *cells)
{
    for (word j = 0; j < number; j++) found[j] = found_at(edges, scores[j]); /* many at once come from memory */
    for (word j = 0; j < number; j++) {
        word moved = is_searched(found[j]) && j ? cells[j - 1] - before[j - 1] : 0;
        cells[j] = (int32_t)(is_searched(found[j]) ? edge_among(edges, found[j], before[j] + moved + 1, scores[j])
                                                   : edge_known(edges, found[j], scores[j])) - 1;
    }
}

/* Count the pairs of row i, and add its squared sizes: a set that grows to j labels adds 2 j - 1. Scores ascend, or
   nearly. */
static void square_row(const Edges *edges, const Block *block, Row *row, word i, int32_t *before, Counted counted)
{
    int32_t *cells = row->starts; /* of buckets, which nobody needs any more */
    row->in_order = 1;
    look(row, block, i, -INFINITY, INFINITY);
    cells_of(edges, row->score, row->number, before, (Found *)row->spare, cells);
    memcpy(before, cells, sizeof *cells * (size_t)row->number);
    if (!ascend(cells, row->number)) qsort(cells, (size_t)row->number, sizeof *cells, by_number);
    for (word j = 0; j < row->number; j++) counted.pairs[cells[j]]++, counted.squares[cells[j]] += 2 * j + 1;
}

#endif
