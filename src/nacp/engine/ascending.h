/* Numbers in ascending order, and what belongs to them. No Python here.

   NumPy sorts by an instruction that some processors are slow at: 30 to 45 ns a number where there are tens of thousands,
   instead of 6 or 7. */

#ifndef NACP_ASCENDING_H
#define NACP_ASCENDING_H

#include "rows.h"

#define DIGIT 11 /* bits by which items are dealt at once */

/* Numbers, as keys that ascend as they do, and what belongs to each; or nothing does. */
typedef struct {
    uint64_t *keys;
    word *with;
} Items;

#define SIGN_BIT (UINT64_C(1) << 63)

static inline uint64_t ascending_key(uint64_t bits) { return bits & SIGN_BIT ? ~bits : bits | SIGN_BIT; }

static inline uint64_t bits_of_key(uint64_t key) { return key & SIGN_BIT ? key ^ SIGN_BIT : ~key; }

/* Deal items by one digit of how far their keys are above the least; equal ones stay in order. */
static void deal_items(Items from, Items to, word n, uint64_t least, int shift)
{
    int32_t places[1 << DIGIT] = {0};
    const uint64_t mask = (1 << DIGIT) - 1;
    for (word i = 0; i < n; i++) places[(from.keys[i] - least) >> shift & mask]++;
    for (int32_t digit = 0, place = 0; digit <= (int32_t)mask; digit++) {
        int32_t number = places[digit];
        places[digit] = place, place += number;
    }
    for (word i = 0; i < n; i++) {
        word place = places[(from.keys[i] - least) >> shift & mask]++;
        to.keys[place] = from.keys[i];
        if (to.with) to.with[place] = from.with[i];
    }
}

/* Put items in order by two digits at a time, from a bit on up to the highest. */
static void deal_from(Items items, Items spare, word n, uint64_t least, int shift, int highest)
{
    for (; shift < highest; shift += 2 * DIGIT) {
        deal_items(items, spare, n, least, shift);
        deal_items(spare, items, n, least, shift + DIGIT);
    }
}

/* Put items in order that nearly are; return if it took few moves. */
static int insert_items(Items items, word n)
{
    word moves = 8 * n;
    for (word i = 1; i < n; i++) {
        uint64_t key = items.keys[i];
        if (items.keys[i - 1] <= key) continue;
        word with = items.with ? items.with[i] : 0, j = i;
        for (; j > 0 && items.keys[j - 1] > key; j--) {
            items.keys[j] = items.keys[j - 1];
            if (items.with) items.with[j] = items.with[j - 1];
        }
        items.keys[j] = key;
        if (items.with) items.with[j] = with;
        if ((moves -= i - j) < 0) return 0;
    }
    return 1;
}

/* Put items in order: their leading bits mostly tell which. */
static void sort_items(Items items, Items spare, word n)
{
    uint64_t least = UINT64_MAX, most = 0;
    int highest = 0;
    for (word i = 0; i < n; i++) {
        least = items.keys[i] < least ? items.keys[i] : least;
        most = items.keys[i] > most ? items.keys[i] : most;
    }
    while (highest < 64 && (most - least) >> highest) highest++;
    int shift = highest > 2 * DIGIT ? highest - 2 * DIGIT : 0;
    deal_from(items, spare, n, least, shift, highest);
    if (shift && !insert_items(items, n)) deal_from(items, spare, n, least, 0, highest);
}

/* Put numbers in order, with what belongs to them; return 0 if there is no memory. */
static int put_in_order(double *numbers, word *with, word n)
{
    word *room = malloc(sizeof(word) * (size_t)(n + 1) * (with ? 3 : 2));
    if (!room) return 0;
    Items items = {(uint64_t *)room, with}, spare = {(uint64_t *)room + n, with ? room + 2 * n : NULL};
    memcpy(items.keys, numbers, sizeof *numbers * (size_t)n);
    for (word i = 0; i < n; i++) items.keys[i] = ascending_key(items.keys[i]);
    if (n > 1) sort_items(items, spare, n);
    for (word i = 0; i < n; i++) items.keys[i] = bits_of_key(items.keys[i]);
    memcpy(numbers, items.keys, sizeof *numbers * (size_t)n);
    free(room);
    return 1;
}

#endif
