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

/* The first edge that is not below a score: one that is known, or one of so many others. */
static word edge_among(const Edges *edges, word first, word others, double score)
{
    word last = others < MANY_OTHERS ? first + others : edges->cells;
    while (first < last) {
        word middle = (first + last) / 2;
        if (edges->edges[middle] < score) first = middle + 1; else last = middle;
    }
    return first;
}

/* The first edge that is not below a score, by its bits, where codes of its kind begin, and whether to turn them. */
static inline word edge_by(const Edges *edges, double score, uint32_t bits, word kind, uint32_t turned)
{
    const int32_t *part = edges->parts + 2 * cells.codes[kind + (bits >> 16)];
    uint32_t place = edges->places[part[0] + (int32_t)((bits & 0xFFFF) >> part[1])];
    word first = edge_of(place), upto = bits_of(place);
    word left = (word)((bits ^ turned) & ((1u << part[1] % 16) - 1)); /* none of 16 */
    if (place & SEARCHED) return edge_among(edges, first, upto, score);
    if (left == upto) return first + (edges->edges[first] < score); /* as floats they are the same */
    return first + (left > upto);
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline word edge_above(const Edges *edges, double score)
{
    int lower = score < BELOW_HALF;
    uint32_t bits = bits_of_float(lower ? (float)score : (float)(1.0 - score));
    return edge_by(edges, score, bits, lower ? 2 * LEADING : 0, ~((uint32_t)-lower ^ -(bits >> 31)));
}

/* The same of -p. */
static inline word edge_of_minus(const Edges *edges, double p)
{
    return edge_by(edges, -p, bits_of_float(-(float)p), 2 * LEADING, ~0u);
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

/* Which cells the scores of a row lie in: a bit for each, and one for 64 of these. Where several lie in one, that is
   another bit, and how many besides the first. */
typedef struct {
    uint64_t *some, *any, *several;
    uint32_t *more;
    word groups; /* of 64 times 64 cells */
    void *room;
} Marks;

static int marks_open(Marks *marks, word cells)
{
    marks->groups = cells / 4096 + 1;
    size_t groups = (size_t)marks->groups;
    marks->any = marks->room = calloc(groups * (129 * sizeof(uint64_t) + 4096 * sizeof(uint32_t)), 1);
    if (!marks->room) return 0;
    marks->some = marks->any + groups;
    marks->several = marks->some + 64 * groups;
    marks->more = (uint32_t *)(marks->several + 64 * groups);
    return 1;
}

static inline void mark(Marks *marks, word cell)
{
    uint64_t bit = 1ull << cell % 64;
    if (marks->some[cell / 64] & bit) {
        marks->several[cell / 64] |= bit;
        marks->more[cell]++;
        return;
    }
    marks->some[cell / 64] |= bit;
    marks->any[cell / 4096] |= 1ull << cell / 64 % 64;
}

/* What is counted in cells: pairs, and what they add to the squared sizes. */
typedef struct {
    word *pairs, *squares;
} Counted;

/* Go through the marks of a row from the lowest cell up, and wipe them off: a set that grows from a to b labels adds
   b^2 - a^2. */
static void count_marks(Marks *marks, Counted counted)
{
    word size = 0;
    for (word g = 0; g < marks->groups; g++) {
        for (uint64_t any = marks->any[g]; any; any &= any - 1) {
            word w = 64 * g + __builtin_ctzll(any);
            uint64_t several = marks->several[w];
            for (uint64_t some = marks->some[w]; some; some &= some - 1) {
                word cell = 64 * w + __builtin_ctzll(some), times = 1;
                if (several && several & some & -some) times += marks->more[cell], marks->more[cell] = 0;
                counted.pairs[cell] += times;
                counted.squares[cell] += times * (2 * size + times);
                size += times;
            }
            marks->some[w] = marks->several[w] = 0;
        }
        marks->any[g] = 0;
    }
}

/* Find the cells of all scores of row i; return how many there are. */
static word cells_of(const Edges *edges, const Block *block, Row *row, word i, int32_t *cells)
{
    if (block->code) {
        row_until(row, block, i, INFINITY);
        for (word j = 0; j < row->number; j++) cells[j] = (int32_t)edge_above(edges, row->score[j]) - 1;
        return row->number;
    }
    const float *floats = row_at(block, i);
    const double *doubles = row_at(block, i);
    if (block->width == 4)
        for (word j = 0; j < block->k; j++) cells[j] = (int32_t)edge_of_minus(edges, floats[j]) - 1;
    else
        for (word j = 0; j < block->k; j++) cells[j] = (int32_t)edge_of_minus(edges, doubles[j]) - 1;
    return block->k;
}

static int ascend(const int32_t *cells, word number)
{
    int falls = 0;
    for (word j = 1; j < number; j++) falls |= cells[j] < cells[j - 1];
    return !falls;
}

/* Count the pairs of row i, and add its squared sizes; most scores come in order. */
static void square_row(const Edges *edges, const Block *block, Row *row, word i, Marks *marks, Counted counted)
{
    int32_t *cells = row->starts;
    word number = cells_of(edges, block, row, i, cells);
    if (ascend(cells, number)) {
        for (word j = 0; j < number; j++) counted.pairs[cells[j]]++, counted.squares[cells[j]] += 2 * j + 1;
        return;
    }
    for (word j = 0; j < number; j++) mark(marks, cells[j]);
    count_marks(marks, counted);
}

#endif
