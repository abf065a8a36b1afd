/* Loops over the entries of a row. native.c includes this file twice, for rows of floats and of doubles.

   It defines these macros before: REAL, the type of an entry; WORD, the integer type of the same width; FRACTION, the
   number of fraction bits; BIAS, the exponent bias; EPSILON and NEXT, the machine epsilon and the function nextafter of
   the type; FOUR, which compares four entries; and NAME, which appends the type to a name. */

static inline WORD NAME(bits_of)(REAL value)
{
    WORD bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

typedef REAL NAME(Vector) __attribute__((vector_size(VECTOR_SIZE)));
typedef WORD NAME(Mask) __attribute__((vector_size(VECTOR_SIZE)));

/* Return whether a row has no negative entry, none above 1 except for rounding, and sums to 1. */
WIDE static int NAME(is_distribution)(const void *values, i64 k, double tolerance)
{
    enum { WIDTH = VECTOR_SIZE / sizeof(REAL) };
    const REAL *row = values;
    const REAL most = (REAL)(1 + 8 * (double)EPSILON);
    NAME(Vector) x, y, sums = {0}, others = {0};
    NAME(Mask) negative = {0};
    REAL sum = 0;
    i64 j = 0;
    for (; j + 2 * WIDTH <= k; j += 2 * WIDTH) {
        memcpy(&x, row + j, sizeof x), memcpy(&y, row + j + WIDTH, sizeof y);
        sums += x, others += y;
        negative |= (x < 0) | (y < 0);
    }
    for (; j < k; j++) {
        negative[0] |= row[j] < 0;
        sum += row[j];
    }
    sums += others;
    for (int l = 0; l < WIDTH; l++) {
        if (negative[l]) return 0;
        sum += sums[l];
    }
    double exactly = (double)sum, error = 1e-5 + (double)k / (2 * WIDTH) * (double)EPSILON; /* at most that of `sum` */
    if (fabs(fabs(exactly - 1) - tolerance) <= error) /* Floats may round to either side of the tolerance. */
        for (exactly = 0, j = 0; j < k; j++) exactly += (double)row[j];
    if (!(fabs(exactly - 1) <= tolerance)) return 0;
    if (sum <= most) return 1;
    for (j = 0; j < k; j++)
        if (row[j] > most) return 0;
    return 1;
}

/* Return the largest entry of a row. */
WIDE static double NAME(largest)(const void *values, i64 k)
{
    enum { WIDTH = VECTOR_SIZE / sizeof(REAL) };
    const REAL *row = values;
    REAL found = row[0];
    NAME(Vector) x, most = {0};
    most += found;
    i64 j = 0;
    for (; j + WIDTH <= k; j += WIDTH) {
        memcpy(&x, row + j, sizeof x);
        NAME(Mask) larger = x > most;
        most = (NAME(Vector))(((NAME(Mask))x & larger) | ((NAME(Mask))most & ~larger));
    }
    for (; j < k; j++) found = row[j] > found ? row[j] : found;
    for (int l = 0; l < WIDTH; l++) found = most[l] > found ? most[l] : found;
    return (double)found;
}

/* Write the entries of a row in the given columns as doubles. */
static void NAME(fetch)(const void *values, const i64 *columns, i64 number, double *found)
{
    const REAL *row = values;
    for (i64 i = 0; i < number; i++) found[i] = (double)row[columns[i]];
}

/* Write all entries of a row as doubles. */
WIDE static void NAME(widen)(const void *values, i64 k, double *restrict found)
{
    const REAL *row = values;
    for (i64 j = 0; j < k; j++) found[j] = (double)row[j];
}

/* Return a bit for each of 16 entries: whether it is at most (`below`) or not less than a bound. */
static inline unsigned NAME(inside)(const REAL *row, REAL bound, int below)
{
#ifdef __SSE2__
    __m128i low = _mm_packs_epi32(FOUR(row, bound, below), FOUR(row + 4, bound, below));
    __m128i high = _mm_packs_epi32(FOUR(row + 8, bound, below), FOUR(row + 12, bound, below));
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high));
#else
    unsigned mask = 0;
    for (unsigned l = 0; l < 16; l++) mask |= (unsigned)(below ? row[l] <= bound : !(row[l] < bound)) << l;
    return mask;
#endif
}

/* Write the columns of the entries inside a bound and return their number. */
static inline i64 NAME(collect_inside)(const REAL *row, i64 k, REAL bound, int below, int32_t *columns)
{
    i64 number = 0, j = 0;
    for (; j + 16 <= k; j += 16) {
        unsigned mask = NAME(inside)(row + j, bound, below);
        if (mask) number += write_places(mask & 255, (int32_t)j, columns + number);
        if (mask >> 8) number += write_places(mask >> 8, (int32_t)j + 8, columns + number);
    }
    for (; j < k; j++)
        if (below ? row[j] <= bound : !(row[j] < bound)) columns[number++] = (int32_t)j;
    return number;
}

/* Write the columns of the entries that are at most (`below`) or not less than a limit, and return their number. The
   entries are also copied unless `found` is NULL. */
static i64 NAME(collect)(const void *values, i64 k, double limit, int below, int32_t *columns, double *found)
{
    const REAL *row = values;
    REAL bound = (REAL)limit; /* It is rounded such that comparisons have the same results. */
    if (below && (double)bound > limit) bound = NEXT(bound, -INFINITY);
    if (!below && (double)bound < limit) bound = NEXT(bound, INFINITY);
    i64 number = below ? NAME(collect_inside)(row, k, bound, 1, columns)
                       : NAME(collect_inside)(row, k, bound, 0, columns);
    if (found)
        for (i64 i = 0; i < number; i++) found[i] = (double)row[columns[i]];
    return number;
}

/* Write the cells of a row's scores 1 - p: up to 1/2 they follow from the leading bits of p. Few entries are larger. */
WIDE static void NAME(cells_of_probabilities)(const void *values, i64 k, int32_t *restrict cells)
{
    const REAL *row = values;
    const WORD highest = ONE_CELL - 1 + ((WORD)(BIAS + LOWEST) << CELL_BITS), shift = FRACTION - CELL_BITS;
    WORD larger = 0, last = 0;
    for (WORD j = 0; j < k; j++) {
        WORD cell = highest - (NAME(bits_of)(row[j]) >> shift);
        cell = cell < 0 ? 0 : cell < ONE_CELL ? cell : ONE_CELL; /* It is negative for NaN only. */
        cells[j] = (int32_t)cell;
        larger += row[j] > (REAL)0.5;
        last = row[j] > (REAL)0.5 ? j : last;
    }
    for (i64 j = larger > 1 ? 0 : last; larger && j <= last; j++)
        if (row[j] > (REAL)0.5) cells[j] = cell_of(1 - (double)row[j], (double)row[j]);
}

/* Write all entries of an ascending row in descending order. */
WIDE static void NAME(descend)(const void *ascending, i64 k, double *restrict sorted)
{
    const REAL *largest = (const REAL *)ascending + k - 1;
    for (i64 j = 0; j < k; j++) sorted[j] = (double)largest[-j];
}

/* Write some entries and their columns in descending order. `room` is memory for them. */
WIDE static void NAME(sort)(const double *entries, const int32_t *columns, i64 n, void *room, double *sorted,
                            int32_t *places)
{
    REAL *restrict entry = room;
    for (i64 i = 0; i < n; i++) entry[i] = (REAL)entries[i];
    for (i64 i = 0; i < n; i++) {
        WORD larger = 0; /* or equal and before it */
        for (i64 j = 0; j < i; j++) larger += entry[j] >= entry[i];
        for (i64 j = i + 1; j < n; j++) larger += entry[j] > entry[i];
        sorted[larger] = entries[i], places[larger] = columns[i];
    }
}

/* Write the mass of the entries that are larger than `own`, of those at least as large, and their numbers. */
WIDE static void NAME(stand)(const void *values, i64 k, double own, double *found)
{
    const REAL *row = values, entry = (REAL)own;
    uint64_t above = 0, upto = 0;
    WORD larger = 0, as_large = 0;
    for (i64 j = 0; j < k; j++) {
        WORD is_larger = -(row[j] > entry), is_as_large = -(row[j] >= entry);
        double p = on_grid((double)row[j]) + 1;
        uint64_t mass; /* The mass in multiples of 2^-52 is the fraction of p + 1, whose exponent is 0. */
        memcpy(&mass, &p, sizeof mass);
        mass -= UINT64_C(1023) << 52;
        above += mass & (uint64_t)(int64_t)is_larger, upto += mass & (uint64_t)(int64_t)is_as_large;
        larger -= is_larger, as_large -= is_as_large;
    }
    found[0] = (double)(int64_t)above * 0x1p-52, found[1] = (double)(int64_t)upto * 0x1p-52;
    found[2] = (double)larger, found[3] = (double)as_large;
}

/* Write the two largest entries of a row. */
static void NAME(top_two)(const void *values, i64 k, double *found)
{
    const REAL *row = values;
    REAL top = 0, second = 0;
    for (i64 j = 0; j < k; j++) {
        if (row[j] <= second) continue;
        second = row[j] < top ? row[j] : top;
        top = row[j] < top ? top : row[j];
    }
    found[0] = on_grid((double)top), found[1] = on_grid((double)second);
}

static const Entries NAME(entries) = {
    sizeof(REAL), NAME(is_distribution), NAME(largest), NAME(fetch), NAME(widen), NAME(collect),
    NAME(cells_of_probabilities), NAME(descend), NAME(sort), NAME(stand), NAME(top_two),
};

#undef REAL
#undef WORD
#undef FRACTION
#undef BIAS
#undef EPSILON
#undef NEXT
#undef FOUR
#undef NAME
