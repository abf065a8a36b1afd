/* What is done to every entry of a row, for entries of one type and vectors of one width: rows.h includes this
   for each of them. All give the same: whole numbers and sums on a grid are exact in any order, and of other
   sums only bounds are used. */

typedef TYPE NAME(Vector) __attribute__((vector_size(BYTES)));
typedef MASK NAME(Mask) __attribute__((vector_size(BYTES)));
typedef double NAME(Doubles) __attribute__((vector_size(BYTES)));
typedef TYPE NAME(Part) __attribute__((vector_size(BYTES / sizeof(double) * sizeof(TYPE)))); /* as many of them */

#define Vector NAME(Vector)
#define Mask NAME(Mask)
#define Doubles NAME(Doubles)
#define LANES ((word)(BYTES / sizeof(TYPE)))
#define PARTS ((int)(sizeof(double) / sizeof(TYPE)))
#define LOAD(vector, from) memcpy(&(vector), (from), sizeof(vector))
#define ONLY(x, chosen) ((Vector)((Mask)(x) & (chosen)))

/* The entries from a column on; those that would come after the last one compare as false. */
static inline Vector NAME(next)(const TYPE *p, word column, word k)
{
    Vector x;
    if (column + LANES <= k) {
        LOAD(x, p + column);
    } else {
        x = (Vector){0} + (TYPE)NAN;
        memcpy(&x, p + column, sizeof(TYPE) * (size_t)(k - column));
    }
    return x;
}

static double NAME(largest)(const void *row, word k)
{
    const TYPE *p = row;
    Vector x, most;
    word column = 0;
    TYPE found = p[0];
    if (k >= LANES) {
        LOAD(most, p);
        for (column = LANES; column + LANES <= k; column += LANES) {
            LOAD(x, p + column);
            Mask more = x > most;
            most = (Vector)((Mask)ONLY(x, more) | (Mask)ONLY(most, ~more));
        }
        for (int lane = 0; lane < LANES; lane++) found = most[lane] > found ? most[lane] : found;
    }
    for (; column < k; column++) found = p[column] > found ? p[column] : found;
    return found;
}

/* Whether the entries of a row are probabilities: none negative or NaN, none above 1, and of sum 1. */
static int NAME(checked)(const void *row, word k, double tolerance)
{
    const TYPE *p = row;
    Vector x, y, sums = {0}, others = {0};
    Mask good = ~(Mask){0};
    double sum = 0;
    int wrong = 0;
    word column = 0;
    for (; column + 2 * LANES <= k; column += 2 * LANES) {
        LOAD(x, p + column);
        LOAD(y, p + column + LANES);
        sums += x, others += y;
        good &= (x >= 0) & (y >= 0);
    }
    sums += others;
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane], wrong |= !good[lane];
    for (; column < k; column++) sum += p[column], wrong |= !(p[column] >= 0);
    if (wrong || !(fabs(sum - 1) <= tolerance)) return 0;
    return sum <= 1 + 8 * EPSILON || NAME(largest)(row, k) <= 1;
}

/* Where an entry stands in its row: what those above it add up to, on the grid, and how many they are. */
static Standing NAME(standing)(const void *row, word k, double entry)
{
    const TYPE *p = row;
    TYPE own = (TYPE)entry;
    Standing found = {0, 0, 0, 0};
    Mask above = {0}, equal = {0};
    Vector x, most = {0};
    Doubles sums[PARTS] = {{0}};
    word column = 0;
    for (; column + LANES <= k; column += LANES) {
        LOAD(x, p + column);
        Mask more = x > own, larger = x > most;
        above -= more, equal -= x == own;
        most = (Vector)((Mask)ONLY(x, larger) | (Mask)ONLY(most, ~larger));
        x = ONLY(x, more);
        NAME(Part) parts[PARTS];
        LOAD(parts, &x);
        for (int part = 0; part < PARTS; part++)
            sums[part] += (__builtin_convertvector(parts[part], Doubles) + 1.0) - 1.0;
    }
    for (int lane = 0; lane < LANES; lane++) {
        found.above += above[lane], found.equal += equal[lane];
        found.most = most[lane] > found.most ? most[lane] : found.most;
        found.mass += sums[lane % PARTS][lane / PARTS];
    }
    for (; column < k; column++) {
        if (p[column] > own) found.above++, found.mass += ((double)p[column] + 1.0) - 1.0;
        found.equal += p[column] == own;
        found.most = p[column] > found.most ? p[column] : found.most;
    }
    return found;
}

/* How many entries are in [cuts[j], below), for descending cuts. */
static void NAME(numbers)(const void *row, word k, const double *cuts, double below, word *number)
{
    const TYPE *p = row;
    TYPE lows[CUTS], high = NOT_BELOW(below);
    Mask numbers[CUTS] = {{0}};
    Vector x;
    word column = 0;
    for (int j = 0; j < CUTS; j++) lows[j] = NOT_BELOW(cuts[j]);
    for (; column < k; column += LANES) {
        x = NAME(next)(p, column, k);
        Mask low = x < high;
        for (int j = 0; j < CUTS; j++) numbers[j] -= (x >= lows[j]) & low;
    }
    for (int j = 0; j < CUTS; j++) {
        number[j] = 0;
        for (int lane = 0; lane < LANES; lane++) number[j] += numbers[j][lane];
    }
}

/* How many entries are in [cuts[j], below), and about what they add up to, for descending cuts. */
static void NAME(tails)(const void *row, word k, const double *cuts, double below, word *number, double *mass)
{
    const TYPE *p = row;
    TYPE lows[CUTS], high = NOT_BELOW(below);
    Mask numbers[CUTS] = {{0}};
    Vector x, sums[CUTS] = {{0}};
    word column = 0;
    for (int j = 0; j < CUTS; j++) lows[j] = NOT_BELOW(cuts[j]);
    for (; column < k; column += LANES) {
        x = NAME(next)(p, column, k);
        Mask low = x < high;
        for (int j = 0; j < CUTS; j++) {
            Mask within = (x >= lows[j]) & low;
            numbers[j] -= within;
            sums[j] += ONLY(x, within);
        }
    }
    for (int j = 0; j < CUTS; j++) {
        number[j] = 0, mass[j] = 0;
        for (int lane = 0; lane < LANES; lane++) number[j] += numbers[j][lane], mass[j] += sums[j][lane];
    }
}

/* The positive and the negative weight of the entries in [cuts[j], below), for descending cuts and for 0. */
static void NAME(weigh)(const void *row, word k, const double *cuts, double below, const word *weights, Weight *found)
{
    const TYPE *p = row;
    TYPE lows[CUTS + 1] = {0}, high = NOT_BELOW(below);
    word gains[CUTS + 1] = {0}, losses[CUTS + 1] = {0};
    for (int j = 0; j < CUTS; j++) lows[j] = NOT_BELOW(cuts[j]);
    for (word column = 0; column < k; column++) {
        word weight = p[column] < high ? weights[column] : 0;
        word gain = weight > 0 ? weight : 0, loss = weight < 0 ? -weight : 0;
        for (int j = 0; j <= CUTS; j++) {
            gains[j] += p[column] >= lows[j] ? gain : 0;
            losses[j] += p[column] >= lows[j] ? loss : 0;
        }
    }
    for (int j = 0; j <= CUTS; j++) found[j] = (Weight){gains[j], losses[j]};
}

/* Collect the entries in [low, high) of a row as words, in the order of their columns; return how many. */
static word NAME(collect)(const void *row, word k, double low, double high, uint64_t *words)
{
    const TYPE *p = row;
    TYPE least = NOT_BELOW(low), bound = NOT_BELOW(high);
    word number = 0, column = 0;
    for (; column + 32 <= k; column += 32) {
        uint32_t found = 0;
#ifdef BITS
        for (int bit = 0; bit < 32; bit += LANES) {
            Vector x;
            LOAD(x, p + column + bit);
            found |= (uint32_t)BITS((x >= least) & (x < bound)) << bit;
        }
#else
        for (int bit = 0; bit < 32; bit++)
            found |= (uint32_t)((p[column + bit] >= least) & (p[column + bit] < bound)) << bit;
#endif
        if (found == UINT32_MAX) {
            for (int bit = 0; bit < 32; bit++) words[number++] = packed(p[column + bit], column + bit);
            continue;
        }
        for (; found; found &= found - 1) {
            word at = column + __builtin_ctz(found);
            words[number++] = packed(p[at], at);
        }
    }
    for (; column < k; column++)
        if (p[column] >= least && p[column] < bound) words[number++] = packed(p[column], column);
    return number;
}

static const Lanes NAME(lanes) = {
    .largest = NAME(largest), .checked = NAME(checked), .standing = NAME(standing),
    .numbers = NAME(numbers), .tails = NAME(tails),     .weigh = NAME(weigh),     .collect = NAME(collect),
};

#undef Vector
#undef Mask
#undef Doubles
#undef LANES
#undef PARTS
#undef LOAD
#undef ONLY
