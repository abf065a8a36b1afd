/* Bets on points, one after the other: the compiled twin of betting.py and elementary.py. No Python here. */

#ifndef NACP_BETS_H
#define NACP_BETS_H

#include "rows.h"

/* ---- elementary.py ---- */

/* Without calls and branches, so that loops over these functions become loops over vectors. */
#define INLINE static inline __attribute__((always_inline))
#define LN2_HIGH 0.693147180369123816490
#define LN2_LOW 1.90821492927058770002e-10
#define TO_WHOLE 6755399441055744.0 /* 1.5 * 2^52: added, it leaves a whole number in the lowest bits */

INLINE uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

INLINE double with_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

INLINE double log_of(double x)
{
    uint64_t bits = bits_of(x);
    double m = with_bits((bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u), sums = 0;
    double e = with_bits((bits >> 52) - 1023 + bits_of(TO_WHOLE)) - TO_WHOLE;
    int high = m >= 2 * 0.70710678118654752440;
    m = high ? 0.5 * m : m, e = high ? e + 1 : e;
    double f = (m - 1) / (m + 1), square = f * f;
    for (int odd = 21; odd > 0; odd -= 2) sums = sums * square + 1.0 / odd;
    return e * LN2_HIGH + (e * LN2_LOW + 2 * f * sums);
}

#define TERMS 14

INLINE double exp_of(double x)
{
    static const double parts[TERMS] = {/* 1 / n!, from the 13th down */
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    double shifted = x * (1 / (LN2_HIGH + LN2_LOW)) + TO_WHOLE, k = shifted - TO_WHOLE;
    double r = (x - k * LN2_HIGH) - k * LN2_LOW, sums = 0;
    for (int n = 0; n < TERMS; n++) sums = sums * r + parts[n];
    return sums * with_bits((bits_of(shifted) + 1023) << 52);
}

#define POWERS 8

INLINE double ratio(double x, const double polynomials[2][POWERS])
{
    double above = 0, below = 0;
    for (int i = 0; i < POWERS; i++) above = above * x + polynomials[0][i], below = below * x + polynomials[1][i];
    return above / below;
}

static const double CENTRE[2][POWERS] = {
    {2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987,
     13731.69376550946, 1971.5909503065513, 133.14166789178438, 3.3871328727963665},
    {5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597,
     5394.196021424751, 687.1870074920579, 42.31333070160091, 1.0},
};
static const double TAIL[2][POWERS] = {
    {0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684,
     3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835},
    {1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
     0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0},
};
static const double FAR[2][POWERS] = {
    {2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124,
     0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103},
    {2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133,
     0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0},
};

INLINE double tail_quantile(double log_p)
{
    double r = sqrt(-log_p), near = ratio(r - 1.6, TAIL), far = ratio(r - 5, FAR);
    return r > 5 ? far : near;
}

INLINE double normal_quantile(double log_p)
{
    double p = exp_of(log_p), q = p - 0.5, near = 0.180625 - q * q, centre = q * ratio(near, CENTRE);
    double lower = tail_quantile(log_p), upper = tail_quantile(log_of(1 - (most(q, 0.4) + 0.5)));
    double middle = near >= 0 ? centre : upper;
    return log_p < -2.58 ? -lower : middle;
}

/* ---- betting.py ---- */

#define RUINED 1e-200
#define HOPELESS -8.0
#define SURE 6.0

enum { OPEN, WON, LOST };

typedef struct {
    const double *gains;   /* points x bets */
    const double *largest; /* stake, of each bet */
    const word *stops;     /* after how many points bets are judged, */
    const int8_t *changes; /* and whether stakes change there */
    word bets, points, all, seen;
    double log_delta;
    double *wealth, *sums, *squares, *stakes;          /* of each bet */
    double *growth, *highest, *new_sums, *new_squares; /* since it was judged */
    word *outcome;
} Bets;

/* The stakes that hedge "wealth 1/delta after all points", or half of those that make a sure thing grow. */
WIDE static void new_stakes(const double *restrict wealth, const double *restrict sums, const double *restrict squares,
                            const double *restrict largest, double *restrict stakes, word bets, double log_delta,
                            double seen, double left)
{
    for (word b = 0; b < bets; b++) {
        double reach = most(least(log_delta + wealth[b], 0.0) - 0.04879016416943205, -300.0);
        double z = normal_quantile(reach), density = exp_of(-0.5 * z * z - reach) * 0.3989422804014327;
        double hedge = least(density / sqrt(squares[b] / (seen + 1) * left), largest[b]);
        double growing = least(0.5 * sums[b] / squares[b], 0.5 * largest[b]);
        stakes[b] = sums[b] > SURE * sqrt(squares[b]) ? growing : hedge;
    }
}

WIDE static void bet_on_point(const double *restrict gains, const double *restrict stakes, double *restrict growth,
                              double *restrict highest, double *restrict sums, double *restrict squares, word bets)
{
    for (word b = 0; b < bets; b++) {
        double gain = gains[b], grown = growth[b] * (1 + stakes[b] * gain);
        growth[b] = grown;
        highest[b] = grown > highest[b] ? grown : highest[b];
        sums[b] += gain;
        squares[b] += gain * gain;
    }
}

/* See how bets stand, and begin a new part. What became of those that are not open is of no interest. */
WIDE static void judge(double *restrict wealth, double *restrict sums, double *restrict squares, double *restrict growth,
                       double *restrict highest, double *restrict new_sums, double *restrict new_squares,
                       word *restrict outcome, word bets, double log_delta)
{
    for (word b = 0; b < bets; b++) {
        int ruined = growth[b] < RUINED, won = wealth[b] + log_of(most(highest[b], RUINED)) >= -log_delta;
        wealth[b] += log_of(ruined ? 1.0 : growth[b]);
        squares[b] += new_squares[b];
        sums[b] += new_sums[b];
        growth[b] = 1, highest[b] = new_sums[b] = new_squares[b] = 0;
        int lost = ruined | (sums[b] < HOPELESS * sqrt(squares[b]));
        word now = won ? WON : lost ? LOST : OPEN;
        outcome[b] = outcome[b] == OPEN ? now : outcome[b];
    }
}

/* Bet on some more points, up to one of the stops or between two. */
static void play_points(Bets *bets)
{
    word place = 0, played = 0;
    while (bets->stops[place + 1] <= bets->seen) place++;
    while (played < bets->points) {
        if (bets->seen == bets->stops[place] && bets->changes[place])
            new_stakes(bets->wealth, bets->sums, bets->squares, bets->largest, bets->stakes, bets->bets, bets->log_delta,
                       (double)bets->seen, (double)(bets->all - bets->seen));
        word until = bets->stops[place + 1] - bets->seen, number = bets->points - played;
        number = number < until ? number : until;
        for (word i = played; i < played + number; i++)
            bet_on_point(bets->gains + i * bets->bets, bets->stakes, bets->growth, bets->highest, bets->new_sums,
                         bets->new_squares, bets->bets);
        played += number, bets->seen += number;
        if (number < until) break;
        place++;
        judge(bets->wealth, bets->sums, bets->squares, bets->growth, bets->highest, bets->new_sums, bets->new_squares,
              bets->outcome, bets->bets, bets->log_delta);
    }
}

#endif
