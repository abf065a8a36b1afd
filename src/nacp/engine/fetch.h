/* Rows of a file, read from the places where they lie: the compiled twin of `fetch` in plain.py. No Python here. */

#ifndef NACP_FETCH_H
#define NACP_FETCH_H

#include <errno.h>
#include <unistd.h>

#include "rows.h"

/* Read all of a row; return 1, or 0 where the file ends before it does, or -1 for what errno says. */
static int fetch_row(int file, char *row, size_t size, off_t place)
{
    while (size) {
        ssize_t more = pread(file, row, size, place);
        if (more == 0) return 0;
        if (more < 0 && errno != EINTR) return -1;
        if (more > 0) row += more, size -= (size_t)more, place += more;
    }
    return 1;
}

/* Read rows from their places; those that lie one after the other at once. */
static int fetch_rows(int file, const word *places, word first, word last, char *rows, size_t size)
{
    int found = 1;
    for (word i = first, next; found == 1 && i < last; i = next) {
        for (next = i + 1; next < last && (uint64_t)places[next] - (uint64_t)places[next - 1] == size;) next++;
        found = fetch_row(file, rows + (size_t)i * size, (size_t)(next - i) * size, (off_t)places[i]);
    }
    return found;
}

#endif
