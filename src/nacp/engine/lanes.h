/* What is done to every entry of a row, for entries of one type and vectors of one width: rows.h includes this
   for each of them. All give the same: whole numbers and sums on a grid are exact in any order, and of other
   sums only bounds are used. */

typedef TYPE NAME(Vector) __attribute__((vector_size(BYTES)));
typedef MASK NAME(Mask) __attribute__((vector_size(BYTES)));
typedef double NAME(Doubles) __attribute__((vector_size(BYTES)));
typedef word NAME(Words) __attribute__((vector_size(BYTES)));
typedef TYPE NAME(Part) __attribute__((vector_size(BYTES / sizeof(double) * sizeof(TYPE)))); /* as many of them */

#define Vector NAME(Vector)
#define Mask NAME(Mask)
#define Doubles NAME(Doubles)
#define Words NAME(Words)
#define LANES ((word)(BYTES / sizeof(TYPE)))
#define WIDTH ((word)(BYTES / sizeof(word)))
#define PARTS ((int)(sizeof(double) / sizeof(TYPE)))
#define FETCH_64(p) for (int line = 0; line < 64; line += 64 / (int)sizeof(TYPE)) __builtin_prefetch((p) + line)
#define LOAD(vector, from) memcpy(&(vector), (from), sizeof(vector))
#define EACH_CUT _Pragma("GCC unroll 4") for (int j = 0; j < CUTS; j++)
#define EACH_CUT_AND_0 _Pragma("GCC unroll 5") for (int j = 0; j <= CUTS; j++)
#define ONLY(x, chosen) ((Vector)((Mask)(x) & (chosen)))

/* The entries from a column on, and something else in place of those that would come after the last one. */
static inline Vector NAME(next_or)(const TYPE *p, word column, word k, TYPE other)
{
    Vector x;
    if (column + LANES <= k) {
        LOAD(x, p + column);
    } else {
        x = (Vector){0} + other;
#ifdef LOAD_SOME
        if (column < k) x = (Vector)LOAD_SOME(x, p + column, k - column);
#else
        if (column < k) memcpy(&x, p + column, sizeof(TYPE) * (size_t)(k - column));
#endif
    }
    return x;
}

/* The same; those are less than any. */
static inline Vector NAME(next)(const TYPE *p, word column, word k)
{
    return NAME(next_or)(p, column, k, -(TYPE)INFINITY);
}

/* What the lanes of a vector add up to, in pairs. Vectors that are taken by value need not lie in memory before. */
static inline double NAME(sum)(Vector x)
{
    TYPE parts[LANES];
    memcpy(parts, &x, sizeof x);
    for (int half = LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) parts[lane] += parts[lane + half];
    return parts[0];
}

static inline word NAME(total)(Mask numbers)
{
    word total = 0;
    for (int lane = 0; lane < LANES; lane++) total += numbers[lane];
    return total;
}

static inline word NAME(added)(Words x)
{
    word sum = 0;
    for (int lane = 0; lane < WIDTH; lane++) sum += x[lane];
    return sum;
}

static inline double NAME(mass)(Doubles x)
{
    double sum = 0;
    for (int lane = 0; lane < WIDTH; lane++) sum += x[lane];
    return sum;
}

#ifndef COMPARED
static inline uint64_t NAME(bits)(Mask chosen)
{
    uint64_t bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits |= (uint64_t)(chosen[lane] & 1) << lane;
    return bits;
}
#endif

/* One bit for each entry of a vector: whether it is at least so large. */
static inline uint64_t NAME(at_least)(Vector x, TYPE least)
{
#ifdef COMPARED
    return (uint32_t)COMPARED(x, least, _CMP_GE_OQ);
#else
    return NAME(bits)(x >= least);
#endif
}

/* The same: whether it is larger. Not at least the next float, which counts as 0 where subnormals are flushed. */
static inline uint64_t NAME(above)(Vector x, TYPE own)
{
#ifdef COMPARED
    return (uint32_t)COMPARED(x, own, _CMP_GT_OQ);
#else
    return NAME(bits)(x > own);
#endif
}

/* The larger ones of two vectors. */
static inline Vector NAME(larger)(Vector x, Vector y)
{
#ifdef LARGER
    return (Vector)LARGER(x, y);
#else
    Mask more = x > y;
    return (Vector)((Mask)ONLY(x, more) | (Mask)ONLY(y, ~more));
#endif
}

/* How many entries of a vector are at least so large. */
static inline word NAME(how_many)(Vector x, TYPE least) { return __builtin_popcountll(NAME(at_least)(x, least)); }

/* Whether any lane has its sign bit set. */
static inline int NAME(any_sign)(Mask x)
{
    int any = 0;
    for (int lane = 0; lane < LANES; lane++) any |= x[lane] < 0;
    return any;
}

/* What a row holds: of few bytes, in one pass. None of four parts waits for the one before. */
static Overview NAME(overview)(const void *row, word k)
{
    const TYPE *p = row;
    Vector x, sums[4] = {{0}}, most[4];
    Mask signs = {0};
    word column = 0;
    for (int part = 0; part < 4; part++) most[part] = (Vector){0} - (TYPE)INFINITY;
    for (; column + 4 * LANES <= k; column += 4 * LANES)
        for (int part = 0; part < 4; part++) {
            LOAD(x, p + column + part * LANES);
            sums[part] += x, signs |= (Mask)x, most[part] = NAME(larger)(most[part], x);
        }
    for (; column < k; column += LANES) {
        x = NAME(next_or)(p, column, k, 0);
        sums[0] += x, signs |= (Mask)x, most[0] = NAME(larger)(most[0], NAME(next)(p, column, k));
    }
    most[0] = NAME(larger)(NAME(larger)(most[0], most[1]), NAME(larger)(most[2], most[3]));
    Overview found = {NAME(sum)((sums[0] + sums[1]) + (sums[2] + sums[3])), most[0][0], NAME(any_sign)(signs)};
    for (int lane = 1; lane < LANES; lane++) found.most = most[0][lane] > found.most ? most[0][lane] : found.most;
    return found;
}

/* How many entries are at least cuts[j]: floats above 0 that have no other bits than the leading 16. */
#ifdef HALVES
typedef int16_t NAME(Halves) __attribute__((vector_size(BYTES)));
typedef uint32_t NAME(Bits) __attribute__((vector_size(BYTES)));
#define Halves NAME(Halves)

/* Numbers and one more wherever x is above y. */
static inline Halves NAME(one_more)(Halves numbers, Halves x, Halves y)
{
#ifdef WHERE_MORE
    return (Halves)WHERE_MORE(numbers, x, y);
#else
    return numbers - (x > y);
#endif
}

static inline word NAME(halves)(Halves numbers)
{
    word total = 0;
    for (int lane = 0; lane < 2 * LANES; lane++) total += numbers[lane];
    return total;
}

static void NAME(numbers)(const void *row, word k, const double *cuts, word *number)
{
    const TYPE *p = row;
    Halves below[CUTS];
    EACH_CUT below[j] = (Halves){0} + (int16_t)(leading_bits(cuts[j]) - 1), number[j] = 0;
    for (word column = 0, stop; column < k;) {
        Halves numbers[CUTS] = {{0}};
        for (stop = least_of(k, column + LANES * INT16_MAX); column < stop; column += 2 * LANES) {
            Mask x = (Mask)NAME(next)(p, column, k), y = (Mask)NAME(next)(p, column + LANES, k);
            Halves leading = (Halves)((x & ~0xFFFF) | (Mask)((NAME(Bits))y >> 16));
            EACH_CUT numbers[j] = NAME(one_more)(numbers[j], leading, below[j]);
        }
        EACH_CUT number[j] += NAME(halves)(numbers[j]);
    }
}
#else
static void NAME(numbers)(const void *row, word k, const double *cuts, word *number)
{
    const TYPE *p = row;
    Mask numbers[CUTS] = {{0}};
    for (word column = 0; column < k; column += LANES) {
        Vector x = NAME(next)(p, column, k);
        EACH_CUT numbers[j] -= x >= cuts[j];
    }
    EACH_CUT number[j] = NAME(total)(numbers[j]);
}
#endif

/* Sums to which the entries that are at least so large are added. */
static inline Vector NAME(add_at_least)(Vector sums, Vector x, TYPE least)
{
#ifdef ADD_AT_LEAST
    return (Vector)ADD_AT_LEAST(sums, x, least);
#else
    return sums + ONLY(x, x >= least);
#endif
}

/* How many entries are in [cuts[j], below), and about what they add up to, for descending cuts. */
static void NAME(tails)(const void *row, word k, const double *cuts, double below, word *number, double *mass)
{
    const TYPE *p = row;
    TYPE lows[CUTS], high = NOT_BELOW(below);
    Vector sums[CUTS] = {{0}};
    word numbers[CUTS] = {0};
    EACH_CUT lows[j] = NOT_BELOW(cuts[j]);
    for (word column = 0; column < k; column += LANES) {
        Vector x = NAME(next)(p, column, k);
        x = (Vector)((Mask)x | ~(x < high)); /* NaN, if it is not below */
        EACH_CUT {
            numbers[j] += NAME(how_many)(x, lows[j]);
            sums[j] = NAME(add_at_least)(sums[j], x, lows[j]);
        }
    }
    EACH_CUT number[j] = numbers[j], mass[j] = NAME(sum)(sums[j]);
}

/* The negative weight of the entries in [cuts[j], below), for descending cuts and for 0; the positive one for 0. */
#ifndef WEIGH
#define WEIGH NAME(weigh)
static void NAME(weigh)(const void *row, word k, const double *cuts, double below, const word *weights, Weight *found)
{
    const TYPE *p = row;
    double lows[CUTS + 1] = {0};
    Words gains = {0}, losses[CUTS + 1] = {{0}};
    word column = 0;
    memcpy(lows, cuts, CUTS * sizeof(double));
    for (; column + WIDTH <= k; column += WIDTH) {
        NAME(Part) part;
        Words weight;
        LOAD(part, p + column);
        LOAD(weight, weights + column);
        Doubles x = __builtin_convertvector(part, Doubles);
        weight &= (x < below) & (x >= 0);
        Words loss = weight & (weight < 0);
        gains += weight ^ loss;
        EACH_CUT_AND_0 losses[j] -= loss & (x >= lows[j]);
    }
    EACH_CUT_AND_0 found[j] = (Weight){0, NAME(added)(losses[j])};
    found[CUTS].gain = NAME(added)(gains);
    for (; column < k; column++) {
        word weight = p[column] >= 0 && p[column] < below ? weights[column] : 0;
        if (weight > 0) found[CUTS].gain += weight;
        for (int j = 0; weight < 0 && j <= CUTS; j++) found[j].loss -= p[column] >= lows[j] ? weight : 0;
    }
}
#endif

/* To which of four sums an entry is added, of 64 or of those that are left: as `overview` does, so that rows sum up to
   the same for all. */
static inline word NAME(part_of)(word at, word left) { return at < left - left % (4 * LANES) ? at / LANES % 4 : 0; }

/* One bit for each of the next 64 entries, or of those that are left: whether it is at least so large. */
static inline uint64_t NAME(which)(const TYPE *p, word left, TYPE least)
{
    uint64_t bits = 0;
    if (left >= 64)
        for (int bit = 0; bit < 64; bit += LANES) bits |= NAME(at_least)(NAME(next)(p, bit, 64), least) << bit;
    else
        for (int bit = 0; bit < left; bit += LANES) bits |= NAME(at_least)(NAME(next)(p, bit, left), least) << bit;
    return left >= 64 ? bits : bits & ((UINT64_C(1) << left) - 1);
}

/* Add the entries among the next 64 that are above one to sums, on the grid. */
static inline void NAME(add_above)(Doubles *sums, const TYPE *p, word left, TYPE own)
{
    for (word column = 0; column < 64 && column < left; column += LANES) {
        Vector x = NAME(next)(p, column, left);
        x = ONLY(x, x > own);
        NAME(Part) parts[PARTS];
        LOAD(parts, &x);
        for (int part = 0; part < PARTS; part++)
            sums[part] += (__builtin_convertvector(parts[part], Doubles) + 1.0) - 1.0;
    }
}

/* Of some entries, 64 or fewer: how many are above an entry, or as large. */
static inline __attribute__((always_inline)) Standing NAME(stand)(const TYPE *p, word n, TYPE own)
{
    uint64_t above = 0, upto = 0;
    for (word column = 0; column < n; column += LANES) {
        Vector x = NAME(next)(p, column, n);
        above |= NAME(above)(x, own) << column, upto |= NAME(at_least)(x, own) << column;
    }
    word number = __builtin_popcountll(above);
    return (Standing){0, number, __builtin_popcountll(upto) - number};
}

/* Where an entry stands in its row: what those above it add up to, on the grid, and how many they are. */
static Standing NAME(standing)(const void *row, word k, double entry)
{
    const TYPE *p = row;
    TYPE own = (TYPE)entry;
    Standing found = {0, 0, 0};
    Doubles sums[PARTS] = {{0}};
    for (word column = 0; column < k; column += 64) {
        Standing part = column + 64 <= k ? NAME(stand)(p + column, 64, own) : NAME(stand)(p + column, k - column, own);
        found.above += part.above, found.equal += part.equal;
        if (part.above) NAME(add_above)(sums, p + column, k - column, own);
    }
    for (int part = 0; part < PARTS; part++) found.mass += NAME(mass)(sums[part]);
    return found;
}

/* Write down some of the next 64 entries, or of those that are left, as words; return how many. After them,
   some more words may be written. */
static inline word NAME(pack)(const TYPE *p, word column, word left, uint64_t found, uint64_t *words)
{
    if (left < 64) found &= (UINT64_C(1) << left) - 1;
    if (!found) return 0;
    uint64_t last = UINT64_C(1) << (left - 1), *next = words, *end = words + __builtin_popcountll(found);
#ifdef PACKED
    if (end - words > LANES / 2) {
        for (int bit = 0; found; bit += LANES, found >>= LANES) {
            PACKED(next, NAME(next)(p, bit, left), (__mmask16)found, column + bit);
            next += __builtin_popcount((uint16_t)found);
        }
        return end - words;
    }
#endif
    if (found == UINT64_MAX) {
        for (int bit = 0; bit < 64; bit++) next[bit] = packed(p[bit], column + bit);
        return 64;
    }
    do { /* mostly once, so that there is nothing to guess */
        for (int more = 0; more < 4; more++, found &= found - 1) {
            word at = __builtin_ctzll(found | last);
            next[more] = packed(p[at], column + at);
        }
        next += 4;
    } while (next < end);
    return end - words;
}

/* Collect the entries in [low, high) of a row as words, in the order of their columns; return how many. */
static word NAME(collect)(const void *row, word k, double low, double high, uint64_t *words)
{
    const TYPE *p = row;
    TYPE least = NOT_BELOW(low), bound = NOT_BELOW(high);
    word number = 0;
    for (word column = 0; column < k; column += 64) {
        word left = k - column < 64 ? k - column : 64;
        FETCH_64(p + k + column); /* of the next row */
        uint64_t found = NAME(which)(p + column, left, least);
        if (high < INFINITY) found &= ~NAME(which)(p + column, left, bound);
        number += NAME(pack)(p + column, column, left, found, words + number);
    }
    return number;
}

/* At once: what rows hold, their entries from a cut on as words, and how many are at least other cuts, in all rows, as
   `overview`, `collect` and `numbers` find them: one pass instead of three. All of these entries are found before one is
   written down, as there is nothing to guess meanwhile. */
#ifdef HALVES
static void NAME(sweep)(Swept *swept, word k, double low, const double *cuts, uint64_t *words, word *number)
{
    TYPE least = NOT_BELOW(low);
    Halves below[CUTS], numbers[CUTS] = {{0}};
    uint64_t chosen[SWEPT / 64]; /* of 64 entries each, where there are such */
    const TYPE *from[SWEPT / 64];
    int32_t columns[SWEPT / 64];
    word parts = 0;
    EACH_CUT below[j] = (Halves){0} + (int16_t)(leading_bits(cuts[j]) - 1);
    for (word i = 0; i < swept->rows; i++) {
        const TYPE *p = swept->row[i];
        Vector sums[4] = {{0}};
        Mask signs = {0};
        word collected = 0;
        for (word column = 0; column < k; column += 64) {
            word left = least_of(k - column, 64);
            uint64_t which = 0;
            FETCH_64(p + k + column); /* of the next row */
            for (word at = 0; at < left; at += 2 * LANES) {
                Vector x = NAME(next_or)(p + column, at, left, 0), y = NAME(next_or)(p + column, at + LANES, left, 0);
                Halves leading = (Halves)(((Mask)x & ~0xFFFF) | (Mask)((NAME(Bits))y >> 16));
                sums[NAME(part_of)(at, left)] += x, sums[NAME(part_of)(at + LANES, left)] += y;
                signs |= (Mask)x | (Mask)y;
                EACH_CUT numbers[j] = NAME(one_more)(numbers[j], leading, below[j]);
                which |= NAME(at_least)(x, least) << at | NAME(at_least)(y, least) << (at + LANES);
            }
            if (left < 64) which &= (UINT64_C(1) << left) - 1;
            chosen[parts] = which, from[parts] = p + column, columns[parts] = (int32_t)column, parts += which != 0;
            collected += __builtin_popcountll(which);
        }
        swept->collected[i] = collected;
        swept->found[i] = (Overview){NAME(sum)((sums[0] + sums[1]) + (sums[2] + sums[3])), INFINITY, NAME(any_sign)(signs)};
    }
    for (word j = 0; j < parts; j++)
        words += NAME(pack)(from[j], columns[j], least_of(k - columns[j], 64), chosen[j], words);
    EACH_CUT number[j] += NAME(halves)(numbers[j]);
}
#endif

/* Write down the columns of some of 64 entries; return how many. After them, some more may be written. */
static inline word NAME(write_columns)(uint64_t found, int32_t first, int32_t *columns)
{
    int32_t *next = columns, *end = columns + __builtin_popcountll(found);
#ifdef COMPRESSED
    if (end - columns > 8) {
        for (; found; first += 16, found >>= 16) {
            COMPRESSED(next, (uint16_t)found, first);
            next += __builtin_popcountll(found & UINT16_MAX);
        }
        return end - columns;
    }
#endif
    do { /* mostly once, so that there is nothing to guess */
        for (int more = 0; more < 4; more++, found &= found - 1)
            next[more] = first + __builtin_ctzll(found | UINT64_C(1) << 63);
        next += 4;
    } while (next < end);
    return end - columns;
}

/* The columns of the entries of a row that are at least so large, and what it holds, if that is asked; return how many.
   After them, some more may be written. All are found before one is written down. */
static word NAME(columns)(const void *row, word k, double low, int32_t *columns, Overview *found)
{
    const TYPE *p = row;
    TYPE least = NOT_BELOW(low);
    Vector sums[4] = {{0}};
    Mask signs = {0};
    uint64_t chosen[SWEPT / 64]; /* of 64 entries each, where there are such */
    int32_t firsts[SWEPT / 64];
    word number = 0;
    for (word start = 0; start < k; start += SWEPT) {
        word stop = least_of(k, start + SWEPT), parts = 0;
        for (word column = start; column < stop; column += 64) {
            word left = least_of(stop - column, 64);
            uint64_t which = 0;
            FETCH_64(p + k + column); /* of the next row */
            for (word at = 0; at < left; at += 2 * LANES) {
                Vector x = NAME(next_or)(p + column, at, left, 0), y = NAME(next_or)(p + column, at + LANES, left, 0);
                sums[NAME(part_of)(at, left)] += x, sums[NAME(part_of)(at + LANES, left)] += y;
                signs |= (Mask)x | (Mask)y;
                which |= NAME(at_least)(x, least) << at | NAME(at_least)(y, least) << (at + LANES);
            }
            if (left < 64) which &= (UINT64_C(1) << left) - 1;
            chosen[parts] = which, firsts[parts] = (int32_t)column, parts += which != 0;
        }
        for (word j = 0; j < parts; j++) number += NAME(write_columns)(chosen[j], firsts[j], columns + number);
    }
    if (found)
        *found = (Overview){NAME(sum)((sums[0] + sums[1]) + (sums[2] + sums[3])), INFINITY, NAME(any_sign)(signs)};
    return number;
}

/* What the entries above one weigh. */
static Weight NAME(weight_above)(const void *row, word k, double entry, const word *weights)
{
    const TYPE *p = row;
    double own = (TYPE)entry;
    Words gains = {0}, sums = {0};
    word column = 0;
    for (; column + WIDTH <= k; column += WIDTH) {
        NAME(Part) part;
        Words weight;
        LOAD(part, p + column);
        LOAD(weight, weights + column);
        weight &= __builtin_convertvector(part, Doubles) > own;
        sums += weight;
        gains += weight & (weight > 0);
    }
    Weight found = {NAME(added)(gains), NAME(added)(gains - sums)};
    for (; column < k; column++) {
        word weight = p[column] > own ? weights[column] : 0;
        if (weight > 0) found.gain += weight; else found.loss -= weight;
    }
    return found;
}

static const Lanes NAME(lanes) = {
    .overview = NAME(overview), .standing = NAME(standing),
    .numbers = NAME(numbers), .tails = NAME(tails),     .weigh = WEIGH,               .collect = NAME(collect),
    .columns = NAME(columns), .weight_above = NAME(weight_above),
    .network = BYTES == 64 ? NETWORK : 0,
#ifdef HALVES
    .sweep = NAME(sweep),
#endif
};

#undef WEIGH
#undef Vector
#undef Halves
#undef Mask
#undef Doubles
#undef LANES
#undef PARTS
#undef LOAD
#undef FETCH_64
#undef EACH_CUT
#undef EACH_CUT_AND_0
#undef Words
#undef WIDTH
#undef ONLY
