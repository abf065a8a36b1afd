/* Sorting words by a network, where vectors of 64 bytes can be compared: always the same steps, so that there is
   nothing to guess. Words lie in rows of 8; the order goes down the columns, one after the other: of N = 8 R words,
   the one of number c R + r is in row r and column c. A bitonic network: parts of 2, 4, 8, ... words are in order; two
   neighbouring ones are put together by comparing the first word with the last, the second with the last but one and
   so on, and then words that are half a part apart, a quarter and so on. While a part is no longer than a column,
   whole rows are compared. */

#ifndef NACP_NETWORK_H
#define NACP_NETWORK_H

#define NETWORK 512 /* words at the most: of more, sorting by digits takes less time */

#ifdef WIDER
#pragma GCC push_options
#pragma GCC target("avx512dq,avx512bw")

typedef __m512i Eight;

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")

/* Put the lesser words of two rows into the first one. */
INLINE void exchange(Eight *a, Eight *b)
{
    Eight less = _mm512_min_epu64(*a, *b);
    *b = _mm512_max_epu64(*a, *b);
    *a = less;
}

INLINE void load_rows(Eight *rows, const uint64_t *words, int number, word apart)
{
    UNROLLED for (int i = 0; i < number; i++) rows[i] = _mm512_loadu_si512(words + 8 * apart * i);
}

INLINE void store_rows(uint64_t *words, const Eight *rows, int number, word apart)
{
    UNROLLED for (int i = 0; i < number; i++) _mm512_storeu_si512(words + 8 * apart * i, rows[i]);
}

/* Compare rows that are `stride` apart, then half as far, and so on. */
INLINE void halve(Eight *rows, int number, int stride)
{
    UNROLLED for (; stride; stride /= 2)
        UNROLLED for (int i = 0; i < number; i++)
            if (!(i & stride)) exchange(&rows[i], &rows[i + stride]);
}

/* Put the columns of so many rows in order. */
INLINE void order_rows(Eight *rows, int number)
{
    UNROLLED for (int size = 2; size <= number; size *= 2) {
        UNROLLED for (int i = 0; i < number; i++)
            if (!(i & size / 2)) exchange(&rows[i], &rows[i ^ (size - 1)]);
        halve(rows, number, size / 4);
    }
}

/* Within parts of so many rows, put columns in order that rise and then fall, or the other way round. */
INLINE void merge_rows(uint64_t *words, word all, word part)
{
    Eight rows[16];
    for (; part > 16; part /= 4) { /* two steps at a time */
        if (part == 32) {
            for (word i = 0; i < all; i += 32)
                for (word j = i; j < i + 16; j++) {
                    load_rows(rows, words + 8 * j, 2, 16);
                    halve(rows, 2, 1);
                    store_rows(words + 8 * j, rows, 2, 16);
                }
            part = 64;
            continue;
        }
        for (word i = 0; i < all; i += part)
            for (word j = i; j < i + part / 4; j++) {
                load_rows(rows, words + 8 * j, 4, part / 4);
                halve(rows, 4, 2);
                store_rows(words + 8 * j, rows, 4, part / 4);
            }
    }
    for (word i = 0; i < all; i += 16) {
        load_rows(rows, words + 8 * i, 16, 1);
        halve(rows, 16, 8);
        store_rows(words + 8 * i, rows, 16, 1);
    }
}

/* Compare rows of each part with those from its end on. */
INLINE void fold_rows(uint64_t *words, word all, word part)
{
    for (word i = 0; i < all; i += part)
        for (word j = 0; j < part / 2; j++) {
            uint64_t *first = words + 8 * (i + j), *last = words + 8 * (i + part - 1 - j);
            Eight a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(last);
            exchange(&a, &b);
            _mm512_storeu_si512(first, a);
            _mm512_storeu_si512(last, b);
        }
}

/* Compare the words of two rows with those of the other, in columns that `places` says; where `later` has a bit, the
   greater one goes to the first row. */
INLINE void exchange_columns(Eight *a, Eight *b, Eight places, __mmask8 later)
{
    Eight other = _mm512_permutexvar_epi64(places, *b);
    Eight less = _mm512_min_epu64(*a, other), more = _mm512_max_epu64(*a, other);
    *a = _mm512_mask_mov_epi64(less, later, more);
    *b = _mm512_permutexvar_epi64(places, _mm512_mask_mov_epi64(more, later, less));
}

/* The same within a row. */
INLINE Eight exchange_within(Eight row, Eight places, __mmask8 later)
{
    Eight other = _mm512_permutexvar_epi64(places, row);
    return _mm512_mask_max_epu64(_mm512_min_epu64(row, other), later, row, other);
}

#define COLUMNS_2 _mm512_setr_epi64(1, 0, 3, 2, 5, 4, 7, 6)
#define COLUMNS_4 _mm512_setr_epi64(3, 2, 1, 0, 7, 6, 5, 4)
#define COLUMNS_8 _mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0)
#define TWO_APART _mm512_setr_epi64(2, 3, 0, 1, 6, 7, 4, 5)

/* Put 2, 4 or 8 columns together: fold them, then compare columns that are further apart than one part. */
INLINE void fold_columns(Eight *a, Eight *b, int columns)
{
    if (columns == 2) {
        exchange_columns(a, b, COLUMNS_2, 0xAA);
    } else if (columns == 4) {
        exchange_columns(a, b, COLUMNS_4, 0xCC);
        *a = exchange_within(*a, COLUMNS_2, 0xAA), *b = exchange_within(*b, COLUMNS_2, 0xAA);
    } else {
        exchange_columns(a, b, COLUMNS_8, 0xF0);
        *a = exchange_within(*a, TWO_APART, 0xCC), *b = exchange_within(*b, TWO_APART, 0xCC);
        *a = exchange_within(*a, COLUMNS_2, 0xAA), *b = exchange_within(*b, COLUMNS_2, 0xAA);
    }
}

/* Write 8 rows as columns, which are so far apart. */
INLINE void transpose(const Eight *r, uint64_t *out, word apart)
{
    Eight a[8], b[8];
    UNROLLED for (int i = 0; i < 8; i += 2) {
        a[i] = _mm512_unpacklo_epi64(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi64(r[i], r[i + 1]);
    }
    UNROLLED for (int i = 0; i < 8; i += 4)
        UNROLLED for (int j = 0; j < 2; j++) {
            b[i + j] = _mm512_shuffle_i64x2(a[i + j], a[i + 2 + j], 0x88);
            b[i + 2 + j] = _mm512_shuffle_i64x2(a[i + j], a[i + 2 + j], 0xDD);
        }
    UNROLLED for (int j = 0; j < 4; j++) {
        Eight low = _mm512_shuffle_i64x2(b[j], b[j + 4], 0x88), high = _mm512_shuffle_i64x2(b[j], b[j + 4], 0xDD);
        _mm512_storeu_si512(out + j * apart, low);
        _mm512_storeu_si512(out + (4 + j) * apart, high);
    }
}

/* Up to 64 or 128 words, without a detour. */
INLINE void order_few_rows(uint64_t *words, uint64_t *out, int number)
{
    Eight rows[16];
    load_rows(rows, words, number, 1);
    order_rows(rows, number);
    UNROLLED for (int columns = 2; columns <= 8; columns *= 2) {
        UNROLLED for (int i = 0; i < number / 2; i++) fold_columns(&rows[i], &rows[number - 1 - i], columns);
        halve(rows, number, number / 2);
    }
    UNROLLED for (int i = 0; i < number; i += 8) transpose(rows + i, out + i, number);
}

static void order_rows_8(uint64_t *words, uint64_t *out) { order_few_rows(words, out, 8); }

static void order_rows_16(uint64_t *words, uint64_t *out) { order_few_rows(words, out, 16); }

static void order_many_rows(uint64_t *words, uint64_t *out, word number)
{
    Eight rows[16];
    for (word i = 0; i < number; i += 16) {
        load_rows(rows, words + 8 * i, 16, 1);
        order_rows(rows, 16);
        store_rows(words + 8 * i, rows, 16, 1);
    }
    for (word part = 32; part <= number; part *= 2) {
        fold_rows(words, number, part);
        merge_rows(words, number, part / 2);
    }
    for (int columns = 2; columns <= 8; columns *= 2) {
        for (word i = 0; i < number / 2; i++) {
            uint64_t *first = words + 8 * i, *last = words + 8 * (number - 1 - i);
            Eight a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(last);
            fold_columns(&a, &b, columns);
            _mm512_storeu_si512(first, a);
            _mm512_storeu_si512(last, b);
        }
        merge_rows(words, number, number);
    }
    for (word i = 0; i < number; i += 8) {
        load_rows(rows, words + 8 * i, 8, 1);
        transpose(rows, out + i, number);
    }
}

/* Sort n words into `out`; both have room for NETWORK. */
static void sort_network(uint64_t *words, uint64_t *out, word n)
{
    word number = 8;
    while (8 * number < n) number *= 2;
    for (word i = n; i < 8 * number; i++) words[i] = UINT64_MAX;
    if (number == 8)
        order_rows_8(words, out);
    else if (number == 16)
        order_rows_16(words, out);
    else
        order_many_rows(words, out, number);
}

#pragma GCC pop_options
#else
static void sort_network(uint64_t *words, uint64_t *out, word n) { (void)words, (void)out, (void)n; } /* never called */
#endif

#endif
