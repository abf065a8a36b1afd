/* Bets on points, one after the other: the compiled twin of betting.py. No Python here. */

#ifndef NACP_BETS_H
#define NACP_BETS_H

#include "rows.h"

#define RUINED 1e-200
#define HOPELESS -8.0
#define SURE 6.0

#define OCTAVES 64
#define PLACES_PER_OCTAVE 6 /* bits of that */
#define LEAST_REACH 0x1p-64

enum { OPEN, WON, LOST, FORGOTTEN };

typedef struct {
    const double *gains;   /* points x bets */
    const double *largest; /* stake, of each bet */
    const word *stops;     /* after how many points bets are judged, */
    const int8_t *changes; /* and whether stakes change there */
    word bets, points, all, seen;
    double delta;
    const double *hedges, *slopes; /* of the stakes: see betting.py */
    double *wealth, *sums, *squares, *stakes;          /* of each bet */
    double *growth, *highest, *new_sums, *new_squares; /* since it was judged */
    word *outcome;
} Bets;

/* The stakes that hedge "wealth 1/delta after all points", or half of those that make a sure thing grow. */
WIDE static void new_stakes(const double *restrict wealth, const double *restrict sums, const double *restrict squares,
                            const double *restrict largest, double *restrict stakes, word bets,
                            const double *restrict hedges, const double *restrict slopes, double delta, double seen,
                            double left)
{
    for (word b = 0; b < bets; b++) {
        double reach = most(least(wealth[b] * delta, 1.0) * (1 / 1.05), LEAST_REACH);
        uint64_t bits;
        memcpy(&bits, &reach, 8);
        word place = (word)(bits >> (52 - PLACES_PER_OCTAVE)) - ((1023 - OCTAVES) << PLACES_PER_OCTAVE);
        double hedge = (hedges[place] + slopes[place] * reach) / sqrt(squares[b] / (seen + 1) * left);
        double growing = least(0.5 * sums[b] / squares[b], 0.5 * largest[b]);
        stakes[b] = sums[b] > SURE * sqrt(squares[b]) ? growing : least(hedge, largest[b]);
    }
}

#define AT_ONCE 16 /* bets that are played together: how they stand stays in registers */

/* Place some bets on points, one point after the other; the next point's gains are `apart` from this one's. */
static inline __attribute__((always_inline)) void bet_on(const double *restrict gains, word apart, word points,
                                                         const double *restrict stakes, double *restrict growth,
                                                         double *restrict highest, double *restrict sums,
                                                         double *restrict squares, word bets)
{
    double grown[AT_ONCE], high[AT_ONCE], sum[AT_ONCE], square[AT_ONCE], stake[AT_ONCE] = {0};
    size_t bytes = sizeof(double) * (size_t)bets;
    memcpy(stake, stakes, bytes), memcpy(grown, growth, bytes), memcpy(high, highest, bytes);
    memcpy(sum, sums, bytes), memcpy(square, squares, bytes);
    for (word i = 0; i < points; i++, gains += apart) {
        for (word b = 0; b < bets; b++) {
            double gain = gains[b];
            grown[b] *= 1 + stake[b] * gain;
            high[b] = grown[b] > high[b] ? grown[b] : high[b];
            sum[b] += gain;
            square[b] += gain * gain;
        }
    }
    memcpy(growth, grown, bytes), memcpy(highest, high, bytes);
    memcpy(sums, sum, bytes), memcpy(squares, square, bytes);
}

/* The same of any number of bets. */
WIDE static void bet_on_points(const double *restrict gains, word apart, word points, const double *restrict stakes,
                               double *restrict growth, double *restrict highest, double *restrict sums,
                               double *restrict squares, word bets)
{
    word b = 0;
    for (; b + AT_ONCE <= bets; b += AT_ONCE)
        bet_on(gains + b, apart, points, stakes + b, growth + b, highest + b, sums + b, squares + b, AT_ONCE);
    bet_on(gains + b, apart, points, stakes + b, growth + b, highest + b, sums + b, squares + b, bets - b);
}

/* See how bets stand, and begin a new part. What became of those that are not open is of no interest. */
WIDE static void judge(double *restrict wealth, double *restrict sums, double *restrict squares,
                       double *restrict growth, double *restrict highest, double *restrict new_sums,
                       double *restrict new_squares, word *restrict outcome, word bets, double goal)
{
    for (word b = 0; b < bets; b++) {
        int won = wealth[b] * highest[b] >= goal;
        wealth[b] *= growth[b];
        squares[b] += new_squares[b];
        sums[b] += new_sums[b];
        growth[b] = 1, highest[b] = new_sums[b] = new_squares[b] = 0;
        int lost = (wealth[b] < RUINED) | (sums[b] < HOPELESS * sqrt(squares[b]));
        word now = won ? WON : lost ? LOST : OPEN;
        outcome[b] = outcome[b] == OPEN ? now : outcome[b];
    }
}

/* Leave out the first and the last bets, as far as they are no longer open: thresholds far above the last one are
   won soon. */
static void leave_out(const Bets *bets, word *from, word *to)
{
    while (*from < *to && bets->outcome[*from] != OPEN) ++*from;
    while (*from < *to && bets->outcome[*to - 1] != OPEN) --*to;
}

/* Bet on some more points, up to one of the stops or between two. */
static void play_points(Bets *bets)
{
    word place = 0, played = 0, from = 0, to = bets->bets;
    while (bets->stops[place + 1] <= bets->seen) place++;
    while (played < bets->points && from < to) {
        if (bets->seen == bets->stops[place] && bets->changes[place])
            new_stakes(bets->wealth + from, bets->sums + from, bets->squares + from, bets->largest + from,
                       bets->stakes + from, to - from, bets->hedges, bets->slopes, bets->delta, (double)bets->seen,
                       (double)(bets->all - bets->seen));
        word until = bets->stops[place + 1] - bets->seen, number = bets->points - played;
        number = number < until ? number : until;
        bet_on_points(bets->gains + played * bets->bets + from, bets->bets, number, bets->stakes + from,
                      bets->growth + from, bets->highest + from, bets->new_sums + from, bets->new_squares + from,
                      to - from);
        played += number, bets->seen += number;
        if (number < until) break;
        place++;
        judge(bets->wealth + from, bets->sums + from, bets->squares + from, bets->growth + from, bets->highest + from,
              bets->new_sums + from, bets->new_squares + from, bets->outcome + from, to - from, 1 / bets->delta);
        leave_out(bets, &from, &to);
    }
}

#endif
