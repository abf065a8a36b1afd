/* Sorting words by a network, where vectors of 64 bytes can be compared: always the same steps, so that there is
   nothing to guess. Of each word, its leading bits and its place are compared, as one number of 32 bits. Numbers lie in
   rows of 16; the order goes down the columns, one after the other: of N = 16 R numbers, that of rank c R + r is in row
   r and column c. A bitonic network: parts of 2, 4, 8, ... numbers are in order; two neighbouring ones are put together
   by comparing the first number with the last, the second with the last but one and so on, and then numbers that are
   half a part apart, a quarter and so on. While a part is no longer than a column, whole rows are compared. */

#ifndef NACP_NETWORK_H
#define NACP_NETWORK_H

#define NETWORK 1024 /* words at the most */
#define PLACE_BITS 10
#define KEY_BITS (32 - PLACE_BITS)

#ifdef WIDER
#pragma GCC push_options
#pragma GCC target("avx512dq,avx512bw")

typedef __m512i Sixteen;

#define ACROSS 16
#define INLINE static inline __attribute__((always_inline))
#define ONCE static __attribute__((noinline))
#define UNROLLED _Pragma("GCC unroll 16")

/* Put the lesser numbers of two rows into the first one. */
INLINE void exchange(Sixteen *a, Sixteen *b)
{
    Sixteen less = _mm512_min_epu32(*a, *b);
    *b = _mm512_max_epu32(*a, *b);
    *a = less;
}

INLINE void load_rows(Sixteen *rows, const uint32_t *numbers, int number, word apart)
{
    UNROLLED for (int i = 0; i < number; i++) rows[i] = _mm512_loadu_si512(numbers + ACROSS * apart * i);
}

INLINE void store_rows(uint32_t *numbers, const Sixteen *rows, int number, word apart)
{
    UNROLLED for (int i = 0; i < number; i++) _mm512_storeu_si512(numbers + ACROSS * apart * i, rows[i]);
}

/* Compare rows that are `stride` apart, then half as far, and so on. */
INLINE void halve(Sixteen *rows, int number, int stride)
{
    UNROLLED for (; stride; stride /= 2)
        UNROLLED for (int i = 0; i < number; i++)
            if (!(i & stride)) exchange(&rows[i], &rows[i + stride]);
}

/* Put the columns of so many rows in order. */
INLINE void order_rows(Sixteen *rows, int number)
{
    UNROLLED for (int size = 2; size <= number; size *= 2) {
        UNROLLED for (int i = 0; i < number; i++)
            if (!(i & size / 2)) exchange(&rows[i], &rows[i ^ (size - 1)]);
        halve(rows, number, size / 4);
    }
}

/* Within parts of so many rows, put columns in order that rise and then fall, or the other way round. */
ONCE void merge_rows(uint32_t *numbers, word all, word part)
{
    Sixteen rows[16];
    for (; part > 16; part /= 4) { /* two steps at a time */
        if (part == 32) {
            for (word i = 0; i < all; i += 32)
                for (word j = i; j < i + 16; j++) {
                    load_rows(rows, numbers + ACROSS * j, 2, 16);
                    halve(rows, 2, 1);
                    store_rows(numbers + ACROSS * j, rows, 2, 16);
                }
            part = 64;
            continue;
        }
        for (word i = 0; i < all; i += part)
            for (word j = i; j < i + part / 4; j++) {
                load_rows(rows, numbers + ACROSS * j, 4, part / 4);
                halve(rows, 4, 2);
                store_rows(numbers + ACROSS * j, rows, 4, part / 4);
            }
    }
    for (word i = 0; i < all; i += 16) {
        load_rows(rows, numbers + ACROSS * i, 16, 1);
        halve(rows, 16, 8);
        store_rows(numbers + ACROSS * i, rows, 16, 1);
    }
}

/* Compare rows of each part with those from its end on. */
INLINE void fold_rows(uint32_t *numbers, word all, word part)
{
    for (word i = 0; i < all; i += part)
        for (word j = 0; j < part / 2; j++) {
            uint32_t *first = numbers + ACROSS * (i + j), *last = numbers + ACROSS * (i + part - 1 - j);
            Sixteen a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(last);
            exchange(&a, &b);
            _mm512_storeu_si512(first, a);
            _mm512_storeu_si512(last, b);
        }
}

/* The columns whose numbers differ from each one's in some bits; and those that have one bit of 1, 2, 4 and 8. */
#define OTHER_COLUMNS(bits) _mm512_xor_si512(SIXTEEN, _mm512_set1_epi32(bits))
#define LATER(bit) ((__mmask16)((bit) == 1 ? 0xAAAA : (bit) == 2 ? 0xCCCC : (bit) == 4 ? 0xF0F0 : 0xFF00))

/* Compare the numbers of two rows with those in other columns of the other one; of the later columns, the greater one
   goes to the first row. */
INLINE void exchange_columns(Sixteen *a, Sixteen *b, Sixteen columns, __mmask16 later)
{
    Sixteen other = _mm512_permutexvar_epi32(columns, *b);
    Sixteen less = _mm512_min_epu32(*a, other), more = _mm512_max_epu32(*a, other);
    *a = _mm512_mask_mov_epi32(less, later, more);
    *b = _mm512_permutexvar_epi32(columns, _mm512_mask_mov_epi32(more, later, less));
}

/* The same within a row. */
INLINE Sixteen exchange_within(Sixteen row, Sixteen columns, __mmask16 later)
{
    Sixteen other = _mm512_permutexvar_epi32(columns, row);
    return _mm512_mask_max_epu32(_mm512_min_epu32(row, other), later, row, other);
}

/* Put 2, 4, 8 or 16 columns together: fold them, then compare columns that are further apart than one part. */
INLINE void fold_columns(Sixteen *a, Sixteen *b, int columns)
{
    exchange_columns(a, b, OTHER_COLUMNS(columns - 1), LATER(columns / 2));
    UNROLLED for (int apart = 4; apart; apart /= 2) {
        if (apart > columns / 4) continue;
        *a = exchange_within(*a, OTHER_COLUMNS(apart), LATER(apart));
        *b = exchange_within(*b, OTHER_COLUMNS(apart), LATER(apart));
    }
}

/* Up to 16 rows, without a detour. */
INLINE void order_few_rows(uint32_t *numbers, int number)
{
    Sixteen rows[16];
    load_rows(rows, numbers, number, 1);
    order_rows(rows, number);
    UNROLLED for (int columns = 2; columns <= ACROSS; columns *= 2) {
        UNROLLED for (int i = 0; i < number / 2; i++) fold_columns(&rows[i], &rows[number - 1 - i], columns);
        halve(rows, number, number / 2);
    }
    store_rows(numbers, rows, number, 1);
}

ONCE void order_rows_4(uint32_t *numbers) { order_few_rows(numbers, 4); }

ONCE void order_rows_8(uint32_t *numbers) { order_few_rows(numbers, 8); }

ONCE void order_rows_16(uint32_t *numbers) { order_few_rows(numbers, 16); }

/* Put columns together, of many rows. */
INLINE void join_columns(uint32_t *numbers, word number, int columns)
{
    for (word i = 0; i < number / 2; i++) {
        uint32_t *first = numbers + ACROSS * i, *last = numbers + ACROSS * (number - 1 - i);
        Sixteen a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(last);
        fold_columns(&a, &b, columns);
        _mm512_storeu_si512(first, a);
        _mm512_storeu_si512(last, b);
    }
    merge_rows(numbers, number, number);
}

ONCE void order_many_rows(uint32_t *numbers, word number)
{
    Sixteen rows[16];
    for (word i = 0; i < number; i += 16) {
        load_rows(rows, numbers + ACROSS * i, 16, 1);
        order_rows(rows, 16);
        store_rows(numbers + ACROSS * i, rows, 16, 1);
    }
    for (word part = 32; part <= number; part *= 2) {
        fold_rows(numbers, number, part);
        merge_rows(numbers, number, part / 2);
    }
    join_columns(numbers, number, 2), join_columns(numbers, number, 4);
    join_columns(numbers, number, 8), join_columns(numbers, number, 16);
}

/* Sort n words into `out` by KEY_BITS bits of how far their high halves are above `low`; equal ones stay in order. */
static void sort_network(const uint64_t *words, uint64_t *out, word n, uint32_t low, int shift)
{
    uint32_t numbers[NETWORK];
    word number = 4;
    while (ACROSS * number < n) number *= 2;
    for (word i = 0; i < n; i++)
        numbers[i] = ((uint32_t)(words[i] >> 32) - low) >> shift << PLACE_BITS | (uint32_t)i;
    for (word i = n; i < ACROSS * number; i++) numbers[i] = UINT32_MAX;
    if (number == 4)
        order_rows_4(numbers);
    else if (number == 8)
        order_rows_8(numbers);
    else if (number == 16)
        order_rows_16(numbers);
    else
        order_many_rows(numbers, number);
    for (word column = 0; n > 0; column++, n -= number, out += number)
        for (word i = 0; i < least_of(n, number); i++)
            out[i] = words[numbers[ACROSS * i + column] & (NETWORK - 1)];
}

#pragma GCC pop_options
#else
static void sort_network(const uint64_t *words, uint64_t *out, word n, uint32_t low, int shift)
{
    (void)words, (void)out, (void)n, (void)low, (void)shift; /* never called */
}
#endif

#endif
