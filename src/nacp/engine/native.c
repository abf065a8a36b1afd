/* The compiled engine: the verbs of contract.py over some rows of a block. Each has a twin in numpy.py, which is
   its definition; native.py calls them, one part of the rows in each thread.

   Here arguments are taken from Python and their sizes are checked, so that the loops can trust them. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "ascending.h"
#include "bets.h"
#include "edges.h"
#include "parted.h"
#include "splits.h"
#ifndef _WIN32
#include "fetch.h"
#endif

/* ---- Arguments ---- */

#define MOST_VIEWS 24

typedef struct {
    Py_buffer views[MOST_VIEWS]; /* arrays that are looked at, and let go of at the end */
    int number;
    Block block;
    word first, last; /* the rows to do */
} Call;

static void *refuse(const char *what)
{
    PyErr_SetString(PyExc_ValueError, what);
    return NULL;
}

static void call_close(Call *call)
{
    while (call->number) PyBuffer_Release(&call->views[--call->number]);
}

enum { OPTIONAL, NEEDED, WRITTEN };

/* The memory of an array of `count` items of `width` bytes; none for None, if it is optional. */
static int array_of(Call *call, PyObject *object, word count, int width, int use, void *found)
{
    *(void **)found = NULL;
    if (call->number == MOST_VIEWS) return refuse("too many arrays") != NULL;
    if (object == Py_None) return use == OPTIONAL || refuse("an array is missing") != NULL;
    Py_buffer *view = &call->views[call->number];
    if (PyObject_GetBuffer(object, view, use == WRITTEN ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) return 0;
    call->number++;
    if (count < 0 || count > PY_SSIZE_T_MAX / width || view->len != (Py_ssize_t)count * width ||
        (uintptr_t)view->buf % (uintptr_t)width)
        return refuse("an array is not as large as it should be, or not aligned") != NULL;
    *(void **)found = view->buf;
    return 1;
}

static word length_of(PyObject *object)
{
    Py_buffer view;
    if (object == Py_None) return 0;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0) return -1;
    word bytes = view.len;
    PyBuffer_Release(&view);
    return bytes;
}

/* Whether the formula is well formed; the block learns what it loads, and whether it asks for
   the largest entries. */
static int formula_fits(Block *block, word constants)
{
    word depth = 0;
    for (word c = 0; c < block->length; c++) {
        int code = block->code[2 * c], argument = block->code[2 * c + 1];
        if (code < 0 || code >= CODES) return 0;
        if (code == LOAD_CONSTANT && (argument < 0 || argument >= constants)) return 0;
        if (code == LOAD_U && !block->u) return 0;
        block->loads |= code < ADD ? 1 << code : 0;
        block->tops |= code == LOAD_TOP || code == LOAD_SECOND;
        depth -= inputs_of(code);
        if (depth < 0 || ++depth > DEPTH) return 0;
    }
    block->by_rank = (block->loads >> LOAD_N_UPTO & 1) && !(block->loads >> LOAD_N_ABOVE & 1);
    return depth == 1;
}

/* Scores that were kept: (starts, order, scores, columns). */
static int kept_open(Call *call, PyObject *described)
{
    PyObject *starts, *order, *scores, *columns;
    Kept *kept = &call->block.kept;
    if (!PyTuple_Check(described)) return refuse("scores that were kept are described by a tuple") != NULL;
    if (!PyArg_ParseTuple(described, "OOOO", &starts, &order, &scores, &columns)) return 0;
    word all = length_of(starts) / 8 - 1, pairs = length_of(scores) / 8;
    if (PyErr_Occurred()) return 0;
    if (!array_of(call, starts, all + 1, 8, NEEDED, &kept->starts) ||
        !array_of(call, order, call->block.rows, 8, NEEDED, &kept->order) ||
        !array_of(call, scores, pairs, 8, NEEDED, &kept->scores) ||
        !array_of(call, columns, pairs, 4, OPTIONAL, &kept->columns))
        return 0;
    for (word i = call->first; i < call->last; i++) {
        word row = kept->order[i];
        if (row < 0 || row >= all) return refuse("no such row was kept") != NULL;
        word start = kept->starts[row], stop = kept->starts[row + 1];
        if (start < 0 || start > stop || stop > pairs || stop - start > call->block.k)
            return refuse("a row that was kept has no such place") != NULL;
    }
    return 1;
}

/* Whether the labels of rows that were kept exist: for who looks something up for them. */
static int kept_labels_fit(const Call *call)
{
    const Kept *kept = &call->block.kept;
    if (kept->starts && !kept->columns) return refuse("labels were not kept") != NULL;
    for (word i = call->first; kept->starts && i < call->last; i++)
        for (word j = kept->starts[kept->order[i]]; j < kept->starts[kept->order[i] + 1]; j++)
            if (kept->columns[j] < 0 || kept->columns[j] >= call->block.k)
                return refuse("there is no such label") != NULL;
    return 1;
}

/* What is found out about rows that are looked at for the first time: (good, tolerance, columns, keys). */
static int first_look_open(Call *call, PyObject *described, PyObject *u)
{
    PyObject *good, *columns, *keys;
    Block *block = &call->block;
    Hashing *hashing = &block->hashing;
    if (!PyTuple_Check(described)) return refuse("a first look is described by a tuple") != NULL;
    if (!PyArg_ParseTuple(described, "OdOO", &good, &block->tolerance, &columns, &keys)) return 0;
    if (good != Py_None && !array_of(call, good, block->rows, 1, WRITTEN, &block->good)) return 0;
    if (keys == Py_None) return 1;
    hashing->number = length_of(columns) / 8;
    if (PyErr_Occurred()) return 0;
    if (!array_of(call, columns, hashing->number, 8, NEEDED, &hashing->columns) ||
        !array_of(call, keys, hashing->number + 1, 8, NEEDED, &hashing->keys) ||
        !array_of(call, u, block->rows, 8, WRITTEN, &block->u))
        return 0;
    for (word c = 0; c < hashing->number; c++)
        if (hashing->columns[c] < 0 || hashing->columns[c] >= block->k) return refuse("there is no such column") != NULL;
    return 1;
}

/* The rows of a block: all that there are, or (values, which of their rows). */
static int values_open(Call *call, PyObject *described)
{
    Block *block = &call->block;
    PyObject *values, *order;
    word each = block->k * block->width;
    if (!PyTuple_Check(described))
        return array_of(call, described, block->rows * block->k, block->width, NEEDED, &block->values);
    if (!PyArg_ParseTuple(described, "OO", &values, &order)) return 0;
    word all = length_of(values) / each;
    if (PyErr_Occurred()) return 0;
    if (!array_of(call, values, all * block->k, block->width, NEEDED, &block->values) ||
        !array_of(call, order, block->rows, 8, NEEDED, &block->order))
        return 0;
    for (word i = call->first; i < call->last; i++)
        if (block->order[i] < 0 || block->order[i] >= all) return refuse("there is no such row") != NULL;
    return 1;
}

/* A block is (values, rows, k, width, code, constants, u, kept, first look), of which there are either values or
   scores that were kept; rows from `first` to `last` of it are to be done. */
static int call_open(Call *call, PyObject *described, Py_ssize_t first, Py_ssize_t last)
{
    PyObject *values, *code, *constants, *u, *kept, *look = Py_None;
    Block *block = &call->block;
    Py_ssize_t rows, k;
    memset(call, 0, sizeof *call);
    if (!cells.number) return refuse("the cells of scores are not known yet") != NULL;
    if (!PyTuple_Check(described)) return refuse("a block is described by a tuple") != NULL;
    if (!PyArg_ParseTuple(described, "OnniOOOO|O", &values, &rows, &k, &block->width, &code, &constants, &u, &kept,
                          &look))
        return 0;
    if (rows < 0 || k < 1 || k > INT32_MAX || rows > PY_SSIZE_T_MAX / 8 / k || (block->width != 4 && block->width != 8))
        return refuse("a block has no such shape") != NULL;
    if (first < 0 || last > rows || first > last) return refuse("a block has no such rows") != NULL;
    block->rows = rows, block->k = k;
    block->lanes = lanes_for(block->width);
    call->first = first, call->last = last;
    if (kept != Py_None) return kept_open(call, kept);
    word codes = length_of(code), numbers = length_of(constants);
    if (codes < 0 || numbers < 0) return 0;
    block->length = codes / 8;
    if (!values_open(call, values) ||
        !array_of(call, code, 2 * block->length, 4, OPTIONAL, &block->code) ||
        !array_of(call, constants, numbers / 8, 8, OPTIONAL, &block->constants) ||
        !array_of(call, u, rows, 8, OPTIONAL, &block->u) ||
        (look != Py_None && !first_look_open(call, look, u)))
        return 0;
    if (block->code && !formula_fits(block, numbers / 8)) return refuse("a formula is not well formed") != NULL;
    return 1;
}

/* The same, where the rows themselves are needed. */
static int rows_open(Call *call, PyObject *described, Py_ssize_t first, Py_ssize_t last)
{
    if (!call_open(call, described, first, last)) return 0;
    return !call->block.kept.starts || refuse("rows are needed, and not only their scores") != NULL;
}

/* Weights of pairs: none, by a row's label (a k x k table), or by entry. */
typedef struct {
    const word *table, *labels, *entries;
} Weights;

/* One label of each row. */
static int labels_of(Call *call, PyObject *labels, const word **found)
{
    if (!array_of(call, labels, call->block.rows, 8, NEEDED, found)) return 0;
    for (word i = call->first; i < call->last; i++)
        if ((*found)[i] < 0 || (*found)[i] >= call->block.k) return refuse("there is no such label") != NULL;
    return 1;
}

static int weights_open(Call *call, PyObject *labels, PyObject *values, Weights *weights)
{
    const Block *block = &call->block;
    memset(weights, 0, sizeof *weights);
    if (values != Py_None && !kept_labels_fit(call)) return 0;
    if (labels == Py_None) return array_of(call, values, block->rows * block->k, 8, OPTIONAL, &weights->entries);
    return labels_of(call, labels, &weights->labels) &&
           array_of(call, values, block->k * block->k, 8, NEEDED, &weights->table);
}

static const word *weights_of(const Weights *weights, const Block *block, word i)
{
    if (weights->labels) return weights->table + weights->labels[i] * block->k;
    return weights->entries ? weights->entries + i * block->k : NULL;
}

#define DONE(call, result)        \
    do {                          \
        call_close(&(call));      \
        if (result) Py_RETURN_NONE; \
        if (!PyErr_Occurred()) PyErr_NoMemory(); \
        return NULL;              \
    } while (0)

#define WITHOUT_LOCK(statement)  \
    do {                         \
        Py_BEGIN_ALLOW_THREADS   \
        statement;               \
        Py_END_ALLOW_THREADS     \
    } while (0)

/* ---- look_over, label_scores ---- */

static void look_over_rows(const Call *call)
{
    for (word i = call->first; i < call->last; i++) (void)look_over(&call->block, i);
}

static PyObject *looked_over(PyObject *self, PyObject *args)
{
    PyObject *block;
    Py_ssize_t first, last;
    Call call;
    if (!PyArg_ParseTuple(args, "Onn", &block, &first, &last)) return NULL;
    int good = rows_open(&call, block, first, last);
    if (good) WITHOUT_LOCK(look_over_rows(&call));
    DONE(call, good);
}

static int score_labels(const Call *call, const word *labels, double *out)
{
    const Block *block = &call->block;
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        out[i] = NAN;
        if (!look_over(block, i)) continue;
        Standing at = block->lanes->standing(row_at(block, i), block->k, entry(block, i, labels[i]));
        out[i] = label_score(&row, block, i, labels[i], at);
    }
    row_close(&row);
    return good;
}

static PyObject *label_scores(PyObject *self, PyObject *args)
{
    PyObject *block, *labels, *out;
    Py_ssize_t first, last;
    Call call;
    const word *given;
    double *scores;
    if (!PyArg_ParseTuple(args, "OnnOO", &block, &first, &last, &labels, &out)) return NULL;
    int good = rows_open(&call, block, first, last) && labels_of(&call, labels, &given) &&
               array_of(&call, out, call.block.rows, 8, WRITTEN, &scores);
    if (good && !call.block.code) good = refuse("a formula is needed") != NULL;
    if (good) WITHOUT_LOCK(good = score_labels(&call, given, scores));
    DONE(call, good);
}

/* ---- scores: all of them, in the places of the labels ---- */

static int score_all(const Call *call, double *out)
{
    const Block *block = &call->block;
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        row_until(&row, block, i, INFINITY);
        for (word j = 0; j < row.number; j++) out[i * block->k + row.column[j]] = row.score[j];
    }
    row_close(&row);
    return good;
}

static PyObject *scores(PyObject *self, PyObject *args)
{
    PyObject *block, *out;
    Py_ssize_t first, last;
    Call call;
    double *found;
    if (!PyArg_ParseTuple(args, "OnnO", &block, &first, &last, &out)) return NULL;
    int good = rows_open(&call, block, first, last) &&
               array_of(&call, out, call.block.rows * call.block.k, 8, WRITTEN, &found);
    if (good && !call.block.code) good = refuse("a formula is needed") != NULL;
    if (good) WITHOUT_LOCK(good = score_all(&call, found));
    DONE(call, good);
}

/* ---- tally ---- */

typedef struct {
    char *bytes;
    size_t used, room;
    int lent; /* by the caller, as long as it suffices */
} Growing;

/* Room for so many more bytes, or for none; NULL if there is no memory. */
static void *more(Growing *out, size_t size)
{
    if (!out->bytes || out->used + size > out->room) {
        size_t room = 2 * (out->used + size) + 4096;
        char *bytes = realloc(out->lent ? NULL : out->bytes, room);
        if (!bytes) return NULL;
        if (out->lent) memcpy(bytes, out->bytes, out->used);
        *out = (Growing){bytes, out->used, room, 0};
    }
    return out->bytes + out->used;
}

static void let_go(Growing *out)
{
    if (!out->lent) free(out->bytes);
}

/* What has grown; None if it lies in the room that was lent. */
static PyObject *grown(const Growing *out)
{
    if (out->lent) return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize(out->bytes ? out->bytes : "", (Py_ssize_t)out->used);
}

static int grow(Growing *out, const void *item, size_t size)
{
    if (!size) return 1;
    void *place = more(out, size);
    if (!place) return 0;
    memcpy(place, item, size);
    out->used += size;
    return 1;
}

/* Intervals (low, high] of scores, ascending and disjoint: their ends, two for each. */
typedef struct {
    const double *ends;
    word number;
} Spans;

static int spans_open(Call *call, PyObject *ends, Spans *spans)
{
    spans->number = length_of(ends) / 16;
    if (PyErr_Occurred()) return 0;
    return array_of(call, ends, 2 * spans->number, 8, NEEDED, &spans->ends);
}

static inline int within(const Spans *spans, double score)
{
    word low = 0, high = spans->number - 1; /* the first that does not end before it */
    if (high < 0 || !(score <= spans->ends[2 * high + 1])) return 0;
    while (low < high) {
        word middle = (low + high) / 2;
        if (spans->ends[2 * middle + 1] < score) low = middle + 1; else high = middle;
    }
    return score > spans->ends[2 * low];
}

typedef struct {
    const double *edges; /* of the cells; none for the fixed ones */
    const Edges *many; /* the same, if there is an index */
    word cells; /* how many there are */
    double low, limit, cuts[MOST_CUTS]; /* what scores at most `low` is counted in any cell up to there */
    word parts; /* how many cuts there are */
    word *pairs, *gains, *losses; /* the last two if pairs have weights */
} Tally;

/* How many of some scores are at most each of few thresholds. */
WIDE static void count_upto(const double *restrict scores, word n, const double *restrict thresholds, word number,
                            word *restrict upto)
{
    for (word t = 0; t < number; t++) {
        double threshold = thresholds[t];
        word found = 0;
        for (word j = 0; j < n; j++) found += scores[j] <= threshold;
        upto[t] += found;
    }
}

static void count(const Tally *tally, word cell, word pairs, word gain, word loss)
{
    tally->pairs[cell] += pairs;
    if (tally->gains) tally->gains[cell] += gain, tally->losses[cell] += loss;
}

/* The cell of a score between edges: that above the last edge below the score. Less than 0, or as many as there are,
   if it lies outside. */
static word cell_between(const Tally *tally, double score)
{
    if (tally->many) return edge_above(tally->many, score) - 1;
    word low = 0, high = tally->cells + 1;
    while (low < high) {
        word middle = (low + high) / 2;
        if (tally->edges[middle] < score) low = middle + 1; else high = middle;
    }
    return low - 1;
}

static void count_between(const Tally *tally, const Row *row, const word *weights)
{
    if (tally->cells < VERY_FEW && !weights) {
        word upto[VERY_FEW] = {0};
        count_upto(row->score + row->skipped, row->number - row->skipped, tally->edges, tally->cells + 1, upto);
        for (word cell = 0; cell < tally->cells; cell++) tally->pairs[cell] += upto[cell + 1] - upto[cell];
        return;
    }
    for (word j = row->skipped; j < row->number; j++) {
        word cell = cell_between(tally, row->score[j]), weight = weights ? weights[row->column[j]] : 0;
        if (cell >= 0 && cell < tally->cells) count(tally, cell, 1, weight > 0 ? weight : 0, weight < 0 ? -weight : 0);
    }
}

/* Count the labels of a row that were looked at. */
static void count_seen(const Tally *tally, const Row *row, const word *weights)
{
    if (tally->edges) {
        count_between(tally, row, weights);
        return;
    }
    word number = row->number - row->skipped;
    const int32_t *column = row->column + row->skipped;
    int32_t *cell = row->starts; /* of buckets, which nobody needs any more */
    many_cells(row->score + row->skipped, cell, number);
    for (word j = 0; j < number; j++) tally->pairs[cell[j]]++;
    for (word j = 0; weights && j < number; j++) {
        word weight = weights[column[j]], loss = weight & weight >> 63;
        tally->gains[cell[j]] += weight - loss, tally->losses[cell[j]] -= loss;
    }
}

/* The entries of a row that were not looked at: where they begin, and some places among them. */
typedef struct {
    Places places;
    Weight weighed[PLACES]; /* what the labels up to there weigh that were not looked at */
    word cell;              /* where they cannot score less */
} Tail;

/* Count the labels between places, where those before them put them, and go on from the last place. */
static void count_places(const Tally *tally, const Block *block, const Row *row, Tail *tail)
{
    Places *places = &tail->places;
    double scores[PLACES];
    word last = places->number - 1;
    if (block->code) least_scores(block, &row->q, places, scores);
    for (word j = 0; j < last; j++) {
        word cell = cell_of(block->code ? scores[j] : -places->cut[j]);
        Weight low = tail->weighed[j], high = tail->weighed[j + 1];
        tail->cell = cell > tail->cell ? cell : tail->cell;
        count(tally, tail->cell, (word)(places->before[j + 1] - places->before[j]), high.gain - low.gain,
              high.loss - low.loss);
    }
    places->before[0] = places->before[last], places->mass[0] = places->mass[last], places->cut[0] = places->cut[last];
    tail->weighed[0] = tail->weighed[last], places->number = 1;
}

static void add_place(const Tally *tally, const Block *block, const Row *row, Tail *tail, word before, double mass,
                      double cut, Weight weighed)
{
    Places *places = &tail->places;
    if (places->number == PLACES) count_places(tally, block, row, tail);
    word j = places->number++;
    places->before[j] = (double)before, places->mass[j] = mass, places->cut[j] = cut;
    tail->weighed[j] = weighed;
}

/* Add places before a number of labels where the score depends on how many come before, or are as probable. */
static void add_ranks(const Tally *tally, const Block *block, const Row *row, Tail *tail, word number)
{
    word last = tail->places.number - 1, before = (word)tail->places.before[last];
    double mass = tail->places.mass[last], cut = tail->places.cut[last];
    while ((before += 1 + before * CUTS / tally->parts) < number)
        add_place(tally, block, row, tail, before, mass, cut, (Weight){0, 0});
}

/* Some cuts, below what was collected of a row; where the score is -p, those that are compared by leading bits. */
static void tail_cuts(const Tally *tally, const Block *block, word first, double below, double *cuts)
{
    for (int j = 0; j < CUTS; j++) {
        cuts[j] = least(tally->cuts[first + j], below);
        if (!block->code) cuts[j] = rounded_down(cuts[j]);
    }
}

/* Count the entries of a row that were not looked at, as they score above the limit, where they cannot score less:
   those of each further part of the row where the labels before them put them. */
static void count_tail(const Tally *tally, const Block *block, const Row *row, word i, const word *weights)
{
    double upper = block->code && row->number ? entry(block, i, row->column[row->number - 1]) : row->cut;
    double masses[CUTS] = {0}, cuts[CUTS], unseen = block->code ? mass_not_seen(row) : 0;
    Weight weighed[CUTS + 1] = {{0, 0}};
    word upto[CUTS], counted = row->number;
    int ranks = block->by_rank && !weights;
    Tail tail;
    tail.places.number = 0, tail.cell = cell_of(tally->limit) + 1;
    add_place(tally, block, row, &tail, counted, from_grid(row->mass), upper, weighed[0]);
    for (word first = 0; first < tally->parts && counted < block->k; first += CUTS) {
        tail_cuts(tally, block, first, row->cut, cuts);
        if (block->code)
            block->lanes->tails(row_at(block, i), block->k, cuts, row->cut, upto, masses);
        else
            block->lanes->numbers(row_at(block, i), block->k, cuts, upto);
        if (weights) block->lanes->weigh(row_at(block, i), block->k, cuts, upper, weights, weighed);
        for (int j = 0; j < CUTS; j++) {
            if (block->code) upto[j] += row->collected;
            if (upto[j] == counted) continue;
            if (ranks) add_ranks(tally, block, row, &tail, upto[j]);
            double mass = block->code ? from_grid(row->mass) + least_mass(unseen + masses[j], block->k) : 0;
            add_place(tally, block, row, &tail, counted = upto[j], mass, cuts[j], weighed[j]);
        }
    }
    if (ranks) add_ranks(tally, block, row, &tail, block->k);
    add_place(tally, block, row, &tail, block->k, 0, 0, weighed[CUTS]);
    count_places(tally, block, row, &tail);
}

/* Count all labels of a row of floats whose score is -p: their cells are their leading bits. */
static void tally_floats(word *pairs, const Block *block, word i)
{
    const Half *bits = row_at(block, i);
    const int32_t *negative = cells.codes + 3 * LEADING;
    for (word column = 0; column < block->k; column++) pairs[negative[bits[2 * column + HIGH_HALF] & 0x7FFF]]++;
}

/* ---- Rows of floats whose score is -p, with some beyond a limit: one pass, which checks them on the way ---- */

/* What lies beyond the limit, of all rows: how many entries are at least as large as each cut, those that were collected
   among them, and the negative weight of the others; in the end, of all, and their positive weight. */
typedef struct {
    double cuts[MOST_CUTS];
    word upto[MOST_CUTS + 1], collected;
    Weight weighed[MOST_CUTS + 1];
} Beyond;

static void beyond_open(Beyond *beyond, const Tally *tally)
{
    memset(beyond, 0, sizeof *beyond);
    for (word j = 0; j < tally->parts; j++) beyond->cuts[j] = rounded_down(least(tally->cuts[j], -tally->limit));
}

/* The cell of an entry that was collected: its leading bits tell. */
static inline word cell_of_word(uint64_t packed) { return cells.codes[3 * LEADING + (~packed >> 48 & 0x7FFF)]; }

/* Add the weights of a row's entries that were collected, */
static void add_weights(const Tally *tally, const uint64_t *words, word number, const word *weights)
{
    for (word j = 0; j < number; j++) {
        word cell = cell_of_word(words[j]), weight = weights[(uint32_t)words[j]], loss = weight & weight >> 63;
        tally->gains[cell] += weight - loss, tally->losses[cell] -= loss;
    }
}

/* and of those beyond the limit. */
static void add_weights_beyond(Beyond *beyond, const Tally *tally, const Block *block, const void *row,
                               const word *weights)
{
    Weight weighed[CUTS + 1], *all = &beyond->weighed[tally->parts];
    for (word first = 0; first < tally->parts; first += CUTS) {
        block->lanes->weigh(row, block->k, beyond->cuts + first, -tally->limit, weights, weighed);
        for (int j = 0; j < CUTS; j++) beyond->weighed[first + j].loss += weighed[j].loss;
    }
    all->gain += weighed[CUTS].gain, all->loss += weighed[CUTS].loss;
}

/* How many entries of a row are at least as large as all but the first cuts. */
static void add_numbers_beyond(Beyond *beyond, const Tally *tally, const Block *block, const void *row)
{
    word number[CUTS];
    for (word first = CUTS; first < tally->parts; first += CUTS) {
        block->lanes->numbers(row, block->k, beyond->cuts + first, number);
        for (int j = 0; j < CUTS; j++) beyond->upto[first + j] += number[j];
    }
}

/* Count what lies beyond the limit: between two cuts, where the first of both puts it. */
static void count_beyond(const Tally *tally, const Beyond *beyond)
{
    word cell = cell_of(tally->limit) + 1, counted = beyond->collected;
    Weight before = {0, 0};
    for (word j = 0; j <= tally->parts; j++) {
        Weight upto = beyond->weighed[j];
        count(tally, cell, beyond->upto[j] - counted, upto.gain - before.gain, upto.loss - before.loss);
        counted = beyond->upto[j], before = upto;
        if (j < tally->parts && cell_of(-beyond->cuts[j]) > cell) cell = cell_of(-beyond->cuts[j]);
    }
}

/* ---- All other rows ---- */

/* What the labels of row i weigh that were skipped. */
static Weight weight_skipped(const Block *block, const Row *row, word i, const word *weights)
{
    if (!weights || !row->skipped) return (Weight){0, 0};
    return block->lanes->weight_above(row_at(block, i), block->k, row->high, weights);
}

static void count_skipped(const Tally *tally, const Block *block, const Row *row, word i, const word *weights)
{
    if (tally->edges[0] > -INFINITY) return;
    Weight skipped = weight_skipped(block, row, i, weights);
    count(tally, 0, row->skipped, skipped.gain, skipped.loss);
}

static void tally_row(const Tally *tally, const Block *block, Row *row, word i, const word *weights)
{
    row->skipped = row->number = 0;
    if (!look_over(block, i)) return;
    look(row, block, i, tally->low, tally->limit);
    if (row->skipped) count_skipped(tally, block, row, i, weights);
    count_seen(tally, row, weights);
    if (!tally->edges && tally->limit < INFINITY && row->number < block->k)
        count_tail(tally, block, row, i, weights);
}

/* What is kept of rows: how many labels score in some intervals, and these with their scores. */
typedef struct {
    word *numbers; /* one for each row; none if nothing is to be kept */
    Spans spans;
    Growing scores, columns;
    int labels; /* whether these are wanted */
} Keeping;

/* Copy the labels of a row that score in some intervals, and their scores; return how many. The labels may go to where
   those of the row are, or nowhere. Scores ascend, */
static word copy_stretches(const Spans *spans, const Row *row, double *scores, int32_t *columns)
{
    word number = 0, start = row->skipped;
    for (word s = 0; s < spans->number; s++) {
        start = first_above(row, start, spans->ends[2 * s]);
        word some = first_above(row, start, spans->ends[2 * s + 1]) - start;
        memcpy(scores + number, row->score + start, sizeof *scores * (size_t)some);
        if (columns) memmove(columns + number, row->column + start, sizeof *columns * (size_t)some);
        number += some, start += some;
    }
    return number;
}

/* Of labels and their scores, leave out those that lie between the intervals; return how many are left. */
static word leave_out_between(const Spans *spans, double *scores, int32_t *columns, word number)
{
    word left = 0;
    for (word j = 0; j < number; j++) {
        if (!within(spans, scores[j])) continue;
        if (columns) columns[left] = columns[j];
        scores[left++] = scores[j];
    }
    return left;
}

/* or come in any order, */
static word copy_each(const Spans *spans, const Row *row, double *scores, int32_t *columns)
{
    word number = 0;
    if (!spans->number) return 0;
    double low = spans->ends[0], high = spans->ends[2 * spans->number - 1];
    for (word j = row->skipped; j < row->number; j++) { /* nothing to guess */
        double score = row->score[j];
        scores[number] = score;
        if (columns) columns[number] = row->column[j];
        number += (score > low) & (score <= high);
    }
    return spans->number == 1 ? number : leave_out_between(spans, scores, columns, number);
}

/* or are those of the entries that a row was swept for. */
static word copy_swept(const Spans *spans, const Row *row, double *scores, int32_t *columns)
{
    word number = 0;
    if (!spans->number) return 0;
    double low = spans->ends[0], high = spans->ends[2 * spans->number - 1];
    for (word j = 0; j < row->number; j++) {
        double score = -probability(row->words[j]);
        scores[number] = score;
        if (columns) columns[number] = (int32_t)(uint32_t)row->words[j];
        number += (score > low) & (score <= high);
    }
    return spans->number == 1 ? number : leave_out_between(spans, scores, columns, number);
}

typedef word Copy(const Spans *spans, const Row *row, double *scores, int32_t *columns);

static int keep_row(Keeping *keeping, const Row *row, word i, Copy *copy)
{
    size_t most = (size_t)(row->number - row->skipped);
    double *scores = more(&keeping->scores, most * sizeof *scores);
    int32_t *columns = keeping->labels ? more(&keeping->columns, most * sizeof *columns) : NULL;
    if (!scores || (keeping->labels && !columns)) return 0;
    word number = copy(&keeping->spans, row, scores, columns);
    keeping->scores.used += (size_t)number * sizeof *scores;
    if (columns) keeping->columns.used += (size_t)number * sizeof *columns;
    keeping->numbers[i] = number;
    return 1;
}

/* The largest score that is to be kept. */
static double kept_upto(const Keeping *keeping)
{
    return keeping->numbers && keeping->spans.number ? keeping->spans.ends[2 * keeping->spans.number - 1] : -INFINITY;
}

/* Count rows of floats whose score is -p, some at a time. */
static int sweep_rows(const Call *call, const Tally *tally, const Weights *weights, Keeping *keeping)
{
    const Block *block = &call->block;
    word k = block->k, at_once = least_of(SWEPT_ROWS, SWEPT / (k + 63));
    uint64_t *words = malloc(sizeof *words * (size_t)(at_once * k + MORE));
    int good = words != NULL;
    Swept swept;
    Beyond beyond;
    beyond_open(&beyond, tally);
    for (word i = call->first; good && i < call->last; i += swept.rows) {
        swept.rows = least_of(at_once, call->last - i);
        for (word j = 0; j < swept.rows; j++) swept.row[j] = row_at(block, i + j);
        block->lanes->sweep(&swept, k, -tally->limit, beyond.cuts, words, beyond.upto);
        Row row = {.words = words};
        for (word j = 0; good && j < swept.rows; j++, row.words += row.number) {
            const word *weight = weights_of(weights, block, i + j);
            row.number = swept.collected[j];
            if (block->good) block->good[i + j] = (char)good_row(block, i + j, swept.found[j]);
            if (weight) {
                add_weights(tally, row.words, row.number, weight);
                add_weights_beyond(&beyond, tally, block, swept.row[j], weight);
            }
            if (tally->parts > CUTS) add_numbers_beyond(&beyond, tally, block, swept.row[j]);
            if (keeping->numbers) good = keep_row(keeping, &row, i + j, copy_swept);
        }
        word collected = row.words - words;
        for (word j = 0; j < collected; j++) tally->pairs[cell_of_word(words[j])]++;
        beyond.collected += collected, beyond.upto[tally->parts] += swept.rows * k;
    }
    if (good) count_beyond(tally, &beyond);
    free(words);
    return good;
}

static int tally_rows(const Call *call, const Tally *tally, const Weights *weights, Keeping *keeping)
{
    const Block *block = &call->block;
    int floats = !block->code && !block->kept.starts && block->width == 4 && !tally->edges; /* whose score is -p */
    int whole = floats && !tally->gains && tally->limit == INFINITY;
    if (floats && !block->hashing.keys && block->k <= SWEPT - 63 && tally->limit < 0)
        return sweep_rows(call, tally, weights, keeping);
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        if (whole) {
            (void)look_over(block, i);
            tally_floats(tally->pairs, block, i);
            if (keeping->numbers) look(&row, block, i, -INFINITY, kept_upto(keeping));
        } else {
            tally_row(tally, block, &row, i, weights_of(weights, block, i));
        }
        if (keeping->numbers) good = keep_row(keeping, &row, i, block->code ? copy_stretches : copy_each);
    }
    row_close(&row);
    return good;
}

/* Edges and their index: (parts, places). */
static int edges_open(Call *call, PyObject *values, PyObject *index, word cells, Edges *edges)
{
    PyObject *parts, *places;
    if (!PyTuple_Check(index)) return refuse("an index is a tuple") != NULL;
    if (!PyArg_ParseTuple(index, "OO", &parts, &places)) return 0;
    word wide = length_of(parts) / 8, number = length_of(places) / 4;
    if (PyErr_Occurred()) return 0;
    edges->cells = cells;
    if (!array_of(call, values, cells + 1, 8, NEEDED, &edges->edges) ||
        !array_of(call, parts, 2 * wide, 4, NEEDED, &edges->parts) ||
        !array_of(call, places, number, 4, NEEDED, &edges->places))
        return 0;
    return edges_fit(edges, wide, number) || refuse("there is no such part") != NULL;
}

/* The cells: fixed, or between edges, with their index or without; and where they are counted. */
static int cells_open(Call *call, Tally *tally, PyObject *edges, PyObject *index, Edges *many, PyObject *out, int weighed)
{
    tally->cells = edges == Py_None ? cells.number : length_of(edges) / 8 - 1;
    if (PyErr_Occurred()) return 0;
    if (!array_of(call, edges, tally->cells + 1, 8, OPTIONAL, &tally->edges) ||
        (index != Py_None && !edges_open(call, edges, index, tally->cells, many)) ||
        !array_of(call, out, (weighed ? 3 : 1) * tally->cells, 8, WRITTEN, &tally->pairs))
        return 0;
    tally->many = index == Py_None ? NULL : many;
    tally->gains = weighed ? tally->pairs + tally->cells : NULL;
    tally->losses = weighed ? tally->gains + tally->cells : NULL;
    tally->low = tally->edges && tally->cells ? tally->edges[tally->edges[0] > -INFINITY ? 0 : 1] : -INFINITY;
    return 1;
}

/* Where entries beyond the limit are cut into parts. */
static int cuts_open(Call *call, Tally *tally, PyObject *cuts)
{
    const double *tail;
    tally->parts = length_of(cuts) / 8;
    if (PyErr_Occurred() || !array_of(call, cuts, tally->parts, 8, NEEDED, &tail)) return 0;
    if (tally->parts < CUTS || tally->parts > MOST_CUTS || tally->parts % CUTS)
        return refuse("there are no such cuts") != NULL;
    if (!tally->edges && tally->limit < INFINITY && cell_of(tally->limit) + 1 >= tally->cells)
        return refuse("a limit has no cells beyond") != NULL;
    for (word j = 0; j < tally->parts; j++) tally->cuts[j] = fmaxf((float)tail[j], FLT_MIN);
    return 1;
}

/* Room for items of so many bytes. */
static int room_open(Call *call, PyObject *array, int width, Growing *room)
{
    word bytes = length_of(array);
    if (PyErr_Occurred() || !array_of(call, array, bytes / width, width, WRITTEN, &room->bytes)) return 0;
    room->room = (size_t)bytes, room->lent = 1;
    return 1;
}

/* Which scores are kept, if any are, and room for them and for their labels. */
static int keeping_open(Call *call, Tally *tally, PyObject *numbers, PyObject *ends, PyObject *scores,
                        PyObject *columns, Keeping *keeping)
{
    if (numbers == Py_None) return 1;
    if (!array_of(call, numbers, call->block.rows, 8, WRITTEN, &keeping->numbers) ||
        !spans_open(call, ends, &keeping->spans) || !room_open(call, scores, 8, &keeping->scores))
        return 0;
    keeping->labels = columns != Py_None;
    if (keeping->labels && (!room_open(call, columns, 4, &keeping->columns) || !kept_labels_fit(call))) return 0;
    if (keeping->spans.number) tally->low = least(tally->low, keeping->spans.ends[0]);
    return 1;
}

static PyObject *tally(PyObject *self, PyObject *args)
{
    PyObject *block, *edges, *cuts, *labels, *values, *numbers, *out, *index = Py_None, *ends = Py_None,
             *scores = Py_None, *columns = Py_None, *found = NULL;
    Py_ssize_t first, last;
    Call call;
    Tally tally = {0};
    Edges many;
    Weights weights;
    Keeping keeping = {0};
    if (!PyArg_ParseTuple(args, "OnnOdOOOOO|OOOO", &block, &first, &last, &edges, &tally.limit, &cuts, &labels,
                          &values, &numbers, &out, &index, &ends, &scores, &columns))
        return NULL;
    int good = call_open(&call, block, first, last) && weights_open(&call, labels, values, &weights) &&
               cells_open(&call, &tally, edges, index, &many, out, values != Py_None) &&
               cuts_open(&call, &tally, cuts) && keeping_open(&call, &tally, numbers, ends, scores, columns, &keeping);
    if (good && call.block.kept.starts && !tally.edges) good = refuse("rows are needed") != NULL;
    if (good) WITHOUT_LOCK(good = tally_rows(&call, &tally, &weights, &keeping));
    call_close(&call);
    if (good)
        found = Py_BuildValue("NN", grown(&keeping.scores), grown(&keeping.columns));
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    let_go(&keeping.scores);
    let_go(&keeping.columns);
    return found;
}

/* ---- squares of set sizes ---- */

static int square_rows(const Call *call, const Edges *edges, Counted out)
{
    Row row;
    int32_t *before = calloc((size_t)call->block.k, sizeof *before); /* the cells of the row before */
    int good = row_open(&row, call->block.k) & (before != NULL);
    for (word i = call->first; good && i < call->last; i++) square_row(edges, &call->block, &row, i, before, out);
    row_close(&row);
    free(before);
    return good;
}

static PyObject *squares(PyObject *self, PyObject *args)
{
    PyObject *block, *values, *index, *out;
    Py_ssize_t first, last;
    Call call;
    Edges edges;
    word *sums;
    if (!PyArg_ParseTuple(args, "OnnOOO", &block, &first, &last, &values, &index, &out)) return NULL;
    word cells = length_of(out) / 16;
    if (PyErr_Occurred()) return NULL;
    int good = rows_open(&call, block, first, last) && edges_open(&call, values, index, cells, &edges) &&
               array_of(&call, out, 2 * cells, 8, WRITTEN, &sums);
    if (good) WITHOUT_LOCK(good = square_rows(&call, &edges, ((Counted){sums, sums + cells})));
    DONE(call, good);
}

/* ---- window ---- */

typedef struct {
    Spans spans;
    Growing scores, weights;
} Window;

/* Take the labels of a row that score in the intervals: their scores and, if they have some, their weights. */
static int window_take(Window *window, Row *row, const word *weights, int ascending)
{
    size_t most = (size_t)(row->number - row->skipped);
    double *scores = more(&window->scores, most * sizeof *scores);
    word *weighed = weights ? more(&window->weights, most * sizeof *weighed) : NULL;
    if (!scores || (weights && !weighed)) return 0;
    word number = (ascending ? copy_stretches : copy_each)(&window->spans, row, scores,
                                                              weights ? row->columns : NULL);
    window->scores.used += (size_t)number * sizeof *scores;
    for (word j = 0; weights && j < number; j++) weighed[j] = weights[row->columns[j]];
    if (weights) window->weights.used += (size_t)number * sizeof *weighed;
    return 1;
}

static int window_rows(const Call *call, Window *window, const Weights *weights)
{
    const Block *block = &call->block;
    double low = window->spans.ends[0], limit = window->spans.ends[2 * window->spans.number - 1];
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        look(&row, block, i, low, limit);
        good = window_take(window, &row, weights_of(weights, block, i), block->code != NULL);
    }
    row_close(&row);
    return good;
}

static PyObject *window(PyObject *self, PyObject *args)
{
    PyObject *block, *ends, *labels, *values, *found = NULL;
    Py_ssize_t first, last;
    Call call;
    Weights weights;
    Window window = {0};
    if (!PyArg_ParseTuple(args, "OnnOOO", &block, &first, &last, &ends, &labels, &values)) return NULL;
    int good = call_open(&call, block, first, last) && weights_open(&call, labels, values, &weights) &&
               spans_open(&call, ends, &window.spans);
    if (good && window.spans.number) WITHOUT_LOCK(good = window_rows(&call, &window, &weights));
    call_close(&call);
    if (good)
        found = Py_BuildValue("NN", grown(&window.scores), grown(&window.weights));
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    let_go(&window.scores);
    let_go(&window.weights);
    return found;
}

/* ---- profile, counts and sets: thresholds are one number each, one per label or one per row ---- */

enum { SAME, PER_LABEL, PER_ROW };

typedef struct {
    const double *values; /* number x 1, number x k or number x rows */
    word number;
    int kind;
    double *ascending; /* of many: they, and infinity after them, */
    int32_t *starts;   /* of each cell of scores the first one that is not below it, */
    word steps;        /* and with how many a score has to be compared at the most */
} Thresholds;

static double threshold(const Thresholds *q, const Block *block, word t, word row, word column)
{
    if (q->kind == SAME) return q->values[t];
    return q->kind == PER_LABEL ? q->values[t * block->k + column] : q->values[t * block->rows + row];
}

/* The largest threshold that plays a part in a row. */
static double largest(const Thresholds *q, const Block *block, word row)
{
    double most = -INFINITY;
    word columns = q->kind == PER_LABEL ? block->k : 1;
    for (word t = q->kind == SAME && q->number ? q->number - 1 : 0; t < q->number; t++)
        for (word c = 0; c < columns; c++) most = fmax(most, threshold(q, block, t, row, c));
    return most;
}

/* Prepare ascending thresholds for so many scores, if both are many: where those begin that lie in the same cell as a
   score. */
static int index_open(Thresholds *q, word scores)
{
    word number = q->number, cell = 0;
    if (number <= FEW || number > INT32_MAX || scores <= cells.number) return 1;
    q->ascending = malloc(sizeof *q->ascending * (size_t)(number + 1) + sizeof *q->starts * (size_t)cells.number);
    if (!q->ascending) return 0;
    q->starts = (int32_t *)(q->ascending + number + 1);
    memcpy(q->ascending, q->values, sizeof *q->ascending * (size_t)number);
    q->ascending[number] = INFINITY;
    q->steps = 0;
    for (word t = 0, first = 0; t < number; t++) {
        word own = cell_of(q->values[t]);
        if (own >= cell) first = t;
        for (; cell <= own; cell++) q->starts[cell] = (int32_t)t;
        word ends_it = cell_of(nextafter(q->values[t], INFINITY)) != own; /* then no score there is above */
        word steps = t + !ends_it - first;
        q->steps = steps > q->steps ? steps : q->steps;
    }
    for (; cell < cells.number; cell++) q->starts[cell] = (int32_t)number;
    return 1;
}

#define FEW_STEPS 4

/* Whether few thresholds share a cell, so that a score's place among them is found without a branch. */
static int by_cells(const Thresholds *q) { return q->starts && q->steps <= FEW_STEPS; }

/* The first of ascending thresholds, from `low` on, that a score is at most; by doubling, as it is mostly near. */
static inline word place_of(const Thresholds *q, word low, double score)
{
    if (q->starts) low = q->starts[cell_of(score)];
    word step = 1, high = low;
    while (high < q->number && q->values[high] < score) low = high + 1, high += step, step *= 2;
    high = high < q->number ? high : q->number;
    while (low < high) {
        word middle = (low + high) / 2;
        if (q->values[middle] < score) low = middle + 1; else high = middle;
    }
    return low;
}

/* Look at row i as far as ascending thresholds go; return what those of its labels weigh that were skipped. */
static word look_upto(const Thresholds *q, const Block *block, Row *row, word i, const word *weights)
{
    row->in_order = q->number > FEW && !q->starts; /* then places are sooner found */
    look(row, block, i, q->values[0], q->values[q->number - 1]);
    Weight skipped = weight_skipped(block, row, i, weights);
    return weights ? skipped.gain - skipped.loss : row->skipped;
}

/* Of each label of a row that was looked at: the first threshold that has it in its set, or how many there are. */
static const int32_t *places_of(const Thresholds *q, const Row *row)
{
    const double *score = row->score + row->skipped;
    word number = row->number - row->skipped, place = 0;
    int32_t *places = row->starts; /* of buckets, which nobody needs any more */
    if (by_cells(q)) many_cells(score, places, number);
    for (word j = 0; j < number; j++) {
        if (by_cells(q)) {
            place = q->starts[places[j]];
            for (word step = 0; step < q->steps; step++) place += q->ascending[place] < score[j];
        } else {
            place = place_of(q, j && score[j] >= score[j - 1] ? place : 0, score[j]);
        }
        places[j] = (int32_t)place;
    }
    return places;
}

/* Add the weight of each label of row i at the first of ascending thresholds that has it in its set. */
static void deal_row(const Thresholds *q, const Block *block, Row *row, word i, const word *weights, word *sums)
{
    word below = look_upto(q, block, row, i, weights);
    const int32_t *places = places_of(q, row), *column = row->column + row->skipped;
    for (word j = 0; j < row->number - row->skipped; j++)
        if (places[j] < q->number) sums[places[j]] += weights ? weights[column[j]] : 1;
    sums[0] += below;
}

static void cumulate(word *sums, word number)
{
    for (word t = 1; t < number; t++) sums[t] += sums[t - 1];
}

/* Add up the weights of the sets of row i. */
static void profile_row(const Thresholds *q, const Block *block, Row *row, word i, const word *weights, word *sums)
{
    if (q->kind == SAME && (weights || q->number > VERY_FEW)) {
        deal_row(q, block, row, i, weights, sums);
        cumulate(sums, q->number);
        return;
    }
    row->in_order = 0;
    if (q->kind == SAME) {
        look(row, block, i, q->values[0], q->values[q->number - 1]);
        for (word t = 0; t < q->number; t++) sums[t] += row->skipped;
        count_upto(row->score + row->skipped, row->number - row->skipped, q->values, q->number, sums);
        return;
    }
    look(row, block, i, -INFINITY, largest(q, block, i));
    for (word j = 0; j < row->number; j++) {
        word column = row->column[j], weight = weights ? weights[column] : 1;
        for (word t = 0; t < q->number; t++)
            if (row->score[j] <= threshold(q, block, t, i, column)) sums[t] += weight;
    }
}

static int profile_rows(const Call *call, const Thresholds *q, const Weights *weights, word *out)
{
    const Block *block = &call->block;
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && q->number && i < call->last; i++)
        profile_row(q, block, &row, i, weights_of(weights, block, i), out + i * q->number);
    row_close(&row);
    return good;
}

static int thresholds_open(Call *call, PyObject *values, int kind, Thresholds *q)
{
    if (kind < SAME || kind > PER_ROW) return refuse("there are no such thresholds") != NULL;
    word each = kind == SAME ? 1 : kind == PER_LABEL ? call->block.k : call->block.rows, bytes = length_of(values);
    if (bytes < 0) return 0;
    q->kind = kind, q->starts = NULL, q->ascending = NULL;
    q->number = each ? bytes / 8 / each : 0;
    return array_of(call, values, q->number * each, 8, NEEDED, &q->values);
}

static void index_close(Thresholds *q)
{
    free(q->ascending);
    q->ascending = NULL, q->starts = NULL;
}

static PyObject *profile(PyObject *self, PyObject *args)
{
    PyObject *block, *values, *labels, *entries, *out;
    Py_ssize_t first, last;
    int kind;
    Call call;
    Thresholds q = {0};
    Weights weights;
    word *sums;
    if (!PyArg_ParseTuple(args, "OnnOiOOO", &block, &first, &last, &values, &kind, &labels, &entries, &out)) return NULL;
    int good = call_open(&call, block, first, last) && thresholds_open(&call, values, kind, &q) &&
               (kind != PER_LABEL || kept_labels_fit(&call)) &&
               weights_open(&call, labels, entries, &weights) &&
               array_of(&call, out, call.block.rows * q.number, 8, WRITTEN, &sums) &&
               (kind != SAME || index_open(&q, (last - first) * call.block.k));
    if (good) WITHOUT_LOCK(good = profile_rows(&call, &q, &weights, sums));
    index_close(&q);
    DONE(call, good);
}

/* counts: by label */

static int count_rows(const Call *call, Counts *counts, const Weights *weights)
{
    const Block *block = &call->block;
    const word *of_rows[TILE_ROWS];
    Tile tile;
    int good = tile_open(&tile, block, call->last) & counts_open(counts, block);
    for (word i = call->first; good && i < call->last; i += TILE_ROWS) {
        for (word j = 0; j < TILE_ROWS; j++)
            of_rows[j] = i + j < call->last ? weights_of(weights, block, i + j) : NULL;
        count_tile(counts, &tile, i, of_rows);
    }
    if (good) say_sums(counts, weights->table || weights->entries);
    tile_close(&tile);
    counts_close(counts);
    return good;
}

/* How many pairs are below marks, and how many are there; with weights, what they gain, and then what they lose. */
static PyObject *counts(PyObject *self, PyObject *args)
{
    PyObject *block, *values, *labels, *entries, *out;
    Py_ssize_t first, last;
    Call call;
    Thresholds q;
    Weights weights;
    Counts counts = {0};
    word each = 0, kinds = 1;
    if (!PyArg_ParseTuple(args, "OnnOOOO", &block, &first, &last, &values, &labels, &entries, &out)) return NULL;
    int good = rows_open(&call, block, first, last) && thresholds_open(&call, values, PER_LABEL, &q) &&
               weights_open(&call, labels, entries, &weights);
    if (good) each = q.number * call.block.k, kinds = weights.table || weights.entries ? 2 : 1;
    if (good && last - first > INT32_MAX) good = refuse("there are too many rows") != NULL;
    good = good && array_of(&call, out, 2 * kinds * each, 8, WRITTEN, &counts.below);
    if (good) {
        counts.marks = q.values, counts.number = q.number, counts.k = call.block.k;
        counts.tied = counts.below + kinds * each;
        WITHOUT_LOCK(good = count_rows(&call, &counts, &weights));
    }
    DONE(call, good);
}

/* gaps: by label, too */

typedef struct {
    Growing which, scores, weights;
} GapPairs;

static int gap_rows(const Call *call, Gaps *gaps, const Weights *weights, GapPairs *found)
{
    const Block *block = &call->block;
    Row row;
    double *scores = room_for(block->k, sizeof *scores);
    int good = row_open(&row, block->k) & (scores != NULL);
    size_t most = (size_t)gaps->number;
    gaps_open(gaps, block);
    for (word i = call->first; good && i < call->last; i++) {
        const word *own = weights_of(weights, block, i);
        InGaps next = {more(&found->which, most * sizeof *next.which), more(&found->scores, most * sizeof *next.scores),
                       more(&found->weights, own ? most * sizeof *next.weights : 0)};
        good = next.which && next.scores && next.weights;
        if (!good) break;
        size_t n = (size_t)find_in_gaps(gaps, &row, block, i, scores, own, next);
        found->which.used += n * sizeof *next.which, found->scores.used += n * sizeof *next.scores;
        if (own) found->weights.used += n * sizeof *next.weights;
    }
    row_close(&row);
    free(scores);
    return good;
}

/* The gaps, and whether there are such labels. */
static int these_gaps(Call *call, PyObject *columns, PyObject *lows, PyObject *highs, Gaps *gaps)
{
    gaps->number = length_of(columns) / 8;
    if (PyErr_Occurred() || !array_of(call, columns, gaps->number, 8, NEEDED, &gaps->labels) ||
        !array_of(call, lows, gaps->number, 8, NEEDED, &gaps->lows) ||
        !array_of(call, highs, gaps->number, 8, NEEDED, &gaps->highs))
        return 0;
    int wrong = gaps->number > INT32_MAX;
    for (word g = 0; g < gaps->number; g++) wrong |= gaps->labels[g] < 0 || gaps->labels[g] >= call->block.k;
    return !wrong || refuse("there is no such label") != NULL;
}

static PyObject *gaps(PyObject *self, PyObject *args)
{
    PyObject *block, *columns, *lows, *highs, *labels, *values, *result = NULL;
    Py_ssize_t first, last;
    Call call;
    Weights weights;
    Gaps gaps;
    GapPairs found = {{0}, {0}, {0}};
    if (!PyArg_ParseTuple(args, "OnnOOOOO", &block, &first, &last, &columns, &lows, &highs, &labels, &values))
        return NULL;
    int good = rows_open(&call, block, first, last) && these_gaps(&call, columns, lows, highs, &gaps) &&
               weights_open(&call, labels, values, &weights);
    if (good) WITHOUT_LOCK(good = gap_rows(&call, &gaps, &weights, &found));
    call_close(&call);
    if (good)
        result = Py_BuildValue("NNN", grown(&found.which), grown(&found.scores), grown(&found.weights));
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    let_go(&found.which), let_go(&found.scores), let_go(&found.weights);
    return result;
}

/* sets */

typedef struct {
    Growing labels;
    word *sizes;
    int allow_empty;
} Sets;

/* The labels of row i whose entries are at least a cut; and what it holds, if that is asked. */
static int take_above(Sets *sets, const Block *block, word i, double cut, Overview *found)
{
    int32_t *columns = more(&sets->labels, sizeof *columns * (size_t)(block->k + MORE));
    if (!columns) return 0;
    sets->sizes[i] = block->lanes->columns(row_at(block, i), block->k, cut, columns, found);
    sets->labels.used += sizeof *columns * (size_t)sets->sizes[i];
    return 1;
}

#define FEW_LABELS 32

/* In the order of a row: the first so many labels, ascending. */
static int take_first(Sets *sets, const Block *block, Row *row, word i, word number)
{
    if (number > FEW_LABELS || row->skipped)
        return take_above(sets, block, i, entry(block, i, row->column[number - 1]), NULL);
    int32_t few[FEW_LABELS];
    for (word j = 0; j < number; j++) {
        word place = j;
        for (; place > 0 && few[place - 1] > row->column[j]; place--) few[place] = few[place - 1];
        few[place] = row->column[j];
    }
    sets->sizes[i] = number;
    return grow(&sets->labels, few, sizeof *few * (size_t)number);
}

/* With a threshold for each label: those that score at most their own. */
static int take_each(Sets *sets, const Block *block, const Thresholds *q, Row *row, word i, double limit)
{
    word number = 0;
    look(row, block, i, -INFINITY, limit);
    for (word j = 0; j < row->number; j++)
        if (row->score[j] <= q->values[row->column[j]]) row->words[number++] = (uint64_t)row->column[j] << 32;
    if (number > FEW)
        sort_many(row->words, row->spare, number);
    else
        insertion_sort(row->words, number);
    for (word j = 0; j < number; j++) row->columns[j] = (int32_t)key_of(row->words[j]);
    sets->sizes[i] = number;
    return grow(&sets->labels, row->columns, sizeof *row->columns * (size_t)number);
}

/* The set of row i at one threshold, or at one for each label, of which the largest is a limit. */
static int take_set(Sets *sets, const Block *block, const Thresholds *q, Row *row, word i, double limit)
{
    Overview found;
    word number = 0;
    sets->sizes[i] = 0;
    if (!block->code && q->kind != PER_LABEL && !block->hashing.keys) /* one pass */
        return take_above(sets, block, i, -limit, &found) && (learn(block, i, found), 1);
    if (!look_over(block, i)) return 1;
    if (q->kind == PER_LABEL) return take_each(sets, block, q, row, i, limit);
    if (!block->code) return take_above(sets, block, i, -limit, NULL);
    look(row, block, i, limit, limit);
    for (number = row->skipped; number < row->number && row->score[number] <= limit;) number++;
    return take_first(sets, block, row, i, number);
}

static int sets_rows(const Call *call, const Thresholds *q, Sets *sets)
{
    const Block *block = &call->block;
    double most = q->kind == PER_ROW ? 0 : largest(q, block, 0);
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        good = take_set(sets, block, q, &row, i, q->kind == PER_ROW ? largest(q, block, i) : most);
        if (good && !sets->allow_empty && !sets->sizes[i])
            good = take_above(sets, block, i, block->lanes->overview(row_at(block, i), block->k).most, NULL);
    }
    row_close(&row);
    return good;
}

static PyObject *sets(PyObject *self, PyObject *args)
{
    PyObject *block, *values, *sizes, *room = Py_None, *found = NULL;
    Py_ssize_t first, last;
    int kind;
    Call call;
    Thresholds q;
    Sets sets = {0};
    if (!PyArg_ParseTuple(args, "OnnOipO|O", &block, &first, &last, &values, &kind, &sets.allow_empty, &sizes,
                          &room))
        return NULL;
    int good = rows_open(&call, block, first, last) && thresholds_open(&call, values, kind, &q) &&
               array_of(&call, sizes, call.block.rows, 8, WRITTEN, &sets.sizes) &&
               (room == Py_None || room_open(&call, room, 4, &sets.labels));
    if (good && q.number != 1) good = refuse("one threshold is needed") != NULL;
    if (good) WITHOUT_LOCK(good = sets_rows(&call, &q, &sets));
    call_close(&call);
    if (good)
        found = grown(&sets.labels);
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    let_go(&sets.labels);
    return found;
}

/* ---- bet: bets on the shares of rows, one row after the other ---- */

typedef struct {
    Thresholds q;               /* of the bets */
    const double *scores, *own; /* of each row: its label's score, and what that adds where it is in the set */
    double scale, part;         /* of the weights in a set; one over the width of all shares */
    word *sums;                 /* room: what each group of thresholds adds to a set, 0 between two rows, */
    uint64_t *marks;            /* which of them add something, */
    double *shares;             /* and the shares at all of them */
} Shares;

#define HANDS 128          /* rows that are dealt before anybody bets on them, */
#define DEALT (1 << 18)    /* until they have so many labels */

/* A row that was dealt to thresholds. */
typedef struct {
    word start, number; /* of its labels, */
    word below;         /* the weight of those that all thresholds have, */
    word misses;        /* and at how many its own label is not in the set */
} Hand;

/* Some rows that were dealt: of each label the first threshold that has it in its set, and its weight. */
typedef struct {
    int32_t *places;
    word *weights; /* none if all weigh the same */
    Hand hands[HANDS];
    word rows, used;
    char *apart; /* of each threshold whether a label of theirs is in its set and not in that of the one before */
} Dealt;

/* Copy the places of labels that some threshold has in its set, and say that it is apart from the one before; return
   how many. */
static word kept_places(const int32_t *restrict places, word labels, int32_t thresholds, int32_t *restrict out,
                        char *restrict apart)
{
    word number = 0;
    for (word j = 0; j < labels; j++) {
        int32_t place = places[j];
        out[number] = place;
        apart[place] = 1;
        number += place < thresholds;
    }
    return number;
}

/* Deal row i. */
static void deal_hand(Dealt *dealt, const Shares *shares, const Block *block, Row *row, word i, const word *weights)
{
    const Thresholds *q = &shares->q;
    Hand *hand = &dealt->hands[dealt->rows++];
    *hand = (Hand){dealt->used, 0, 0, place_of(q, 0, shares->scores[i])};
    dealt->apart[hand->misses] = 1;
    if (shares->scale == 0) return;
    hand->below = look_upto(q, block, row, i, weights);
    const int32_t *places = places_of(q, row), *column = row->column + row->skipped;
    int32_t *place = dealt->places + hand->start;
    word labels = row->number - row->skipped, number = 0;
    for (word j = 0; weights && j < labels; j++) {
        dealt->weights[hand->start + number] = weights[column[j]];
        number += places[j] < q->number;
    }
    hand->number = kept_places(places, labels, (int32_t)q->number, place, dealt->apart);
    dealt->used += hand->number;
}

/* The shares of a row at all thresholds: at the first `misses` of them, its label is not in the set. */
WIDE static void shares_of(const word *restrict sums, double *restrict shares, word misses, word number, double own,
                           double scale)
{
    for (word t = 0; t < misses; t++) shares[t] = 0.0 + scale * (double)sums[t];
    for (word t = misses; t < number; t++) shares[t] = own + scale * (double)sums[t];
}

/* What a row gains for bets that its share reaches a target, each at a threshold. */
WIDE static void gains_of(const double *restrict shares, const word *restrict columns, const double *restrict targets,
                          double *restrict out, word bets, double part)
{
    for (word b = 0; b < bets; b++) out[b] = (shares[columns[b]] - targets[b]) * part;
}

/* The same of bets one after the other, at which the share is the same. */
WIDE static void gains_alike(double share, const double *restrict targets, double *restrict out, word bets, double part)
{
    for (word b = 0; b < bets; b++) out[b] = (share - targets[b]) * part;
}

WIDE static void gains_each(const double *restrict shares, const double *restrict targets, double *restrict out,
                            word bets, double part)
{
    for (word b = 0; b < bets; b++) out[b] = (shares[b] - targets[b]) * part;
}

#define RUN 16 /* thresholds from one score of a row to the next, where there are few scores */

/* The gains of a row with few scores: from one place that was marked to the next the share is the same. */
static void gains_in_runs(const Shares *shares, const double *targets, word number, word misses, double own,
                          double *out)
{
    word start = 0, sum = 0;
    if (misses < number) shares->marks[misses / 64] |= UINT64_C(1) << misses % 64;
    for (word m = 0; m <= number / 64; m++)
        for (uint64_t bits = shares->marks[m]; bits; bits &= bits - 1) {
            word place = 64 * m + __builtin_ctzll(bits);
            double share = (start < misses ? 0.0 : own) + shares->scale * (double)sum;
            gains_alike(share, targets + start, out + start, place - start, shares->part);
            sum += shares->sums[place], start = place;
            shares->sums[place] = 0;
        }
    double share = (start < misses ? 0.0 : own) + shares->scale * (double)sum;
    gains_alike(share, targets + start, out + start, number - start, shares->part);
}

/* Where it stands how bets do: eight numbers for each. */
static void bets_at(Bets *bets, double *state)
{
    double **parts[] = {&bets->wealth, &bets->sums,    &bets->squares,  &bets->stakes,
                        &bets->growth, &bets->highest, &bets->new_sums, &bets->new_squares};
    for (int part = 0; part < 8; part++) *parts[part] = state + part * bets->bets;
}

#define STANDING 10 /* numbers say how a bet stands: those, and after them its target and its largest stake */

/* Bets that are open, one after the other, those of the same owner by ascending thresholds. Neighbours that have stood
   alike so far, and between whose thresholds no label of the next rows lies, go on to do so: one plays for all. */
typedef struct {
    Shares shares;
    Dealt dealt;
    Bets bets, played;                  /* all, and those who play: the last ones of groups, or all */
    double *values;                     /* the thresholds */
    double *targets, *largest;          /* of each bet: its target, its largest stake, */
    word *columns, *owners, *numbers;   /* its threshold, its owner, which one it was */
    int one_each;                       /* whether bet b is at threshold b */
    word all, *outcome;                 /* how many bets there were, and what became of each */
    word *places;                       /* room, */
    double *gains;                      /* and for the gains of some rows */
    word groups;                        /* of thresholds, */
    int32_t *group;                     /* that of each, and after them how many there are; */
    double *of_groups;                  /* room: how those stand who play; */
    const double *aims;                 /* their targets */
} Table;

/* What a row that was dealt gains for each bet that is played. */
static void gains_of_hand(const Table *table, const Hand *hand, double own, double *out)
{
    const Shares *shares = &table->shares;
    const int32_t *places = table->dealt.places + hand->start, *group = table->group;
    const word *weights = table->dealt.weights ? table->dealt.weights + hand->start : NULL;
    word number = table->groups, misses = group[hand->misses];
    int few = table->one_each && RUN * hand->number < number;
    for (word j = 0; j < hand->number; j++) shares->sums[group[places[j]]] += weights ? weights[j] : 1;
    shares->sums[0] += hand->below;
    if (few) {
        memset(shares->marks, 0, sizeof *shares->marks * (size_t)(number / 64 + 1));
        shares->marks[0] = 1;
        for (word j = 0; j < hand->number; j++) {
            word place = group[places[j]];
            shares->marks[place / 64] |= UINT64_C(1) << place % 64;
        }
        gains_in_runs(shares, table->aims, number, misses, own, out);
        return;
    }
    cumulate(shares->sums, number);
    shares_of(shares->sums, shares->shares, misses, number, own, shares->scale);
    memset(shares->sums, 0, sizeof *shares->sums * (size_t)number);
    if (table->one_each)
        gains_each(shares->shares, table->aims, out, number, shares->part);
    else
        gains_of(shares->shares, table->columns, table->aims, out, table->played.bets, shares->part);
}

/* Mark what differs from what is before it. */
WIDE static void mark_unlike(const double *restrict x, char *restrict apart, word n)
{
    for (word j = 1; j < n; j++) apart[j] |= x[j] != x[j - 1];
}

/* Put neighbouring bets into groups that stand alike, and will do so after the rows that were dealt. */
static void find_groups(Table *table)
{
    const Bets *bets = &table->bets;
    word number = table->shares.q.number, groups = 1;
    char *apart = table->dealt.apart;
    for (int part = 0; table->one_each && part < STANDING; part++)
        mark_unlike(bets->wealth + part * table->all, apart, number);
    table->group[0] = 0;
    for (word t = 1; t < number; t++) {
        groups += !table->one_each || apart[t] || bets->outcome[t] != bets->outcome[t - 1] ||
                  table->owners[t] != table->owners[t - 1];
        table->group[t] = (int32_t)groups - 1;
    }
    if (8 * groups > 7 * number) /* not worth while */
        for (word t = groups = 0; t < number; t++) table->group[t] = (int32_t)groups++;
    table->group[number] = (int32_t)groups, table->groups = groups;
}

/* Let one of each group play for all. */
static void begin_groups(Table *table)
{
    const Bets *bets = &table->bets;
    Bets *played = &table->played;
    *played = *bets, table->aims = table->targets;
    if (table->groups == table->shares.q.number) return; /* each for itself */
    double *room = table->of_groups;
    for (int part = 0; part < STANDING; part++)
        for (word b = 0; b < bets->bets; b++)
            room[part * table->groups + table->group[b]] = bets->wealth[part * table->all + b];
    played->bets = table->groups, played->outcome = table->places;
    bets_at(played, room);
    table->aims = room + 8 * table->groups, played->largest = room + 9 * table->groups;
    for (word b = 0; b < bets->bets; b++) played->outcome[table->group[b]] = bets->outcome[b];
}

/* Let all know what became of the one that played for them. */
static void end_groups(Table *table)
{
    Bets *bets = &table->bets;
    const Bets *played = &table->played;
    bets->seen = played->seen;
    if (table->groups == table->shares.q.number) return;
    for (int part = 0; part < 8; part++)
        for (word b = 0; b < bets->bets; b++)
            bets->wealth[part * table->all + b] = played->wealth[part * table->groups + table->group[b]];
    for (word b = 0; b < bets->bets; b++) bets->outcome[b] = played->outcome[table->group[b]];
}

/* A bet below one of the same owner that was lost is of no interest. */
static void forget(Table *table)
{
    word owner = -1;
    for (word b = table->bets.bets; b-- > 0;) {
        word *outcome = &table->bets.outcome[b];
        if (*outcome == LOST) owner = table->owners[b];
        if (*outcome == OPEN && table->owners[b] == owner) *outcome = FORGOTTEN;
    }
}

/* Whether so many bets are closed that it is worth while to leave them out. */
static int many_closed(const Bets *bets)
{
    word closed = 0;
    for (word b = 0; b < bets->bets; b++) closed += bets->outcome[b] != OPEN;
    return 8 * closed > bets->bets;
}

/* Leave out the bets that are closed, and say what became of them. */
static void leave_out_bets(Table *table)
{
    Bets *bets = &table->bets;
    double *parts[] = {bets->wealth, bets->sums,     bets->squares,     bets->stakes,    bets->growth, bets->highest,
                       bets->new_sums, bets->new_squares, table->targets, table->largest};
    word open = 0;
    for (word b = 0; b < bets->bets; b++) {
        table->outcome[table->numbers[b]] = bets->outcome[b];
        if (bets->outcome[b] != OPEN) continue;
        for (int part = 0; part < 10; part++) parts[part][open] = parts[part][b];
        table->columns[open] = table->columns[b], table->owners[open] = table->owners[b];
        table->numbers[open] = table->numbers[b], bets->outcome[open] = OPEN;
        open++;
    }
    bets->bets = open;
}

/* Leave out the thresholds at which there is no bet. */
static void leave_out_thresholds(Table *table)
{
    word all = table->shares.q.number, bets = table->bets.bets, number = 0;
    memset(table->places, 0, sizeof *table->places * (size_t)all);
    for (word b = 0; b < bets; b++) table->places[table->columns[b]] = 1;
    for (word t = 0; t < all; t++) {
        word wanted = table->places[t];
        table->values[number] = table->values[t], table->places[t] = number;
        number += wanted;
    }
    table->one_each = bets == number;
    for (word b = 0; b < bets; b++) {
        table->columns[b] = table->places[table->columns[b]];
        table->one_each &= table->columns[b] == b;
    }
    table->shares.q.number = number;
}

/* Leave out what is closed; so many scores are still to come. */
static int leave_out_closed(Table *table, word scores)
{
    leave_out_bets(table);
    leave_out_thresholds(table);
    index_close(&table->shares.q);
    return index_open(&table->shares.q, scores);
}

#define GAINS (1 << 16) /* that are found before bets are played: they should stay in the cache */

/* Deal some rows from i on. */
static void deal_rows(Table *table, const Call *call, Row *row, word i, const Weights *weights)
{
    const Block *block = &call->block;
    Dealt *dealt = &table->dealt;
    dealt->rows = dealt->used = 0;
    memset(dealt->apart, 0, (size_t)table->shares.q.number + 1);
    for (; dealt->rows < HANDS && dealt->used < DEALT && i < call->last; i++)
        deal_hand(dealt, &table->shares, block, row, i, weights_of(weights, block, i));
}

/* Bet on the rows that were dealt, of which the first is i. */
static void bet_on_hands(Table *table, word i)
{
    const Dealt *dealt = &table->dealt;
    Bets *played = &table->played;
    find_groups(table);
    begin_groups(table);
    played->gains = table->gains;
    for (word hand = 0; hand < dealt->rows; hand += played->points) {
        played->points = least_of(GAINS / played->bets + 1, dealt->rows - hand);
        for (word j = 0; j < played->points; j++)
            gains_of_hand(table, &dealt->hands[hand + j], table->shares.own[i + hand + j],
                          table->gains + j * played->bets);
        play_points(played);
    }
    end_groups(table);
    forget(table);
}

static int bet_on_rows(const Call *call, Table *table, const Weights *weights)
{
    const Block *block = &call->block;
    Row row;
    int good = row_open(&row, block->k) && leave_out_closed(table, (call->last - call->first) * block->k);
    for (word i = call->first; good && i < call->last && table->bets.bets; i += table->dealt.rows) {
        deal_rows(table, call, &row, i, weights);
        bet_on_hands(table, i);
        if (many_closed(&table->bets))
            good = leave_out_closed(table, (call->last - i - table->dealt.rows) * block->k);
    }
    leave_out_bets(table);
    row_close(&row);
    return good;
}

/* Whether stops are ascending from 0 to all points. */
static int stops_fit(const Bets *bets, word number)
{
    for (word s = 0; s + 1 < number; s++)
        if (bets->stops[s] >= bets->stops[s + 1]) return 0;
    return bets->stops[0] == 0 && bets->seen >= 0 && bets->points <= bets->stops[number - 1] - bets->seen;
}

/* How bets stand, and when they are judged. */
static int bets_open(Call *call, Bets *bets, PyObject *state, PyObject *stops, PyObject *changes, PyObject *hedges,
                     PyObject *slopes)
{
    word number = length_of(stops) / 8;
    if (PyErr_Occurred()) return 0;
    if (!array_of(call, state, 8 * bets->bets, 8, WRITTEN, &bets->wealth) ||
        !array_of(call, stops, number, 8, NEEDED, &bets->stops) ||
        !array_of(call, changes, number, 1, NEEDED, &bets->changes) ||
        !array_of(call, hedges, OCTAVES << PLACES_PER_OCTAVE, 8, NEEDED, &bets->hedges) ||
        !array_of(call, slopes, OCTAVES << PLACES_PER_OCTAVE, 8, NEEDED, &bets->slopes))
        return 0;
    if (number < 1 || !stops_fit(bets, number)) return refuse("bets cannot be judged there") != NULL;
    bets_at(bets, bets->wealth);
    bets->all = bets->stops[number - 1];
    return 1;
}

static PyObject *play(PyObject *self, PyObject *args)
{
    PyObject *state, *largest, *outcome, *gains, *stops, *changes, *hedges, *slopes;
    Py_ssize_t points, bets_, seen;
    Call call = {.number = 0};
    Bets bets;
    if (!PyArg_ParseTuple(args, "OOOOnnnOOdOO", &state, &largest, &outcome, &gains, &points, &bets_, &seen, &stops,
                          &changes, &bets.delta, &hedges, &slopes))
        return NULL;
    if (points < 0 || bets_ < 0 || bets_ > PY_SSIZE_T_MAX / 64 || (bets_ && points > PY_SSIZE_T_MAX / 8 / bets_))
        return refuse("there are no such bets");
    bets.points = points, bets.bets = bets_, bets.seen = seen;
    int good = array_of(&call, largest, bets.bets, 8, NEEDED, &bets.largest) &&
               array_of(&call, outcome, bets.bets, 8, WRITTEN, &bets.outcome) &&
               array_of(&call, gains, bets.points * bets.bets, 8, NEEDED, &bets.gains) &&
               bets_open(&call, &bets, state, stops, changes, hedges, slopes);
    if (good && points) WITHOUT_LOCK(play_points(&bets));
    DONE(call, good);
}

/* Bets as they come: at which threshold each is, its target, its owner and its largest stake. */
typedef struct {
    const word *columns, *owners;
    const double *targets, *largest;
} Placed;

static int placed_open(Call *call, PyObject *columns, PyObject *targets, PyObject *owners, PyObject *largest,
                       const Table *table, Placed *placed)
{
    word bets = table->all, number = table->shares.q.number;
    if (!array_of(call, columns, bets, 8, NEEDED, &placed->columns) ||
        !array_of(call, targets, bets, 8, NEEDED, &placed->targets) ||
        !array_of(call, owners, bets, 8, NEEDED, &placed->owners) ||
        !array_of(call, largest, bets, 8, NEEDED, &placed->largest))
        return 0;
    if (bets > INT32_MAX || number > INT32_MAX) return refuse("too many bets") != NULL;
    for (word b = 0; b < bets; b++)
        if (placed->columns[b] < 0 || placed->columns[b] >= number) return refuse("there is no such bet") != NULL;
    return 1;
}

/* The next room for so many numbers, into which others are copied, if there are some. */
static void *taken(double **room, word number, const void *from)
{
    double *own = *room;
    if (from) memcpy(own, from, sizeof(double) * (size_t)number);
    *room += number;
    return own;
}

/* Copy bets and their thresholds, as what is closed is left out; return the room, or NULL if there is no memory. */
static void *table_open(Table *table, const Placed *placed, word k, int weighed)
{
    word bets = table->all, number = table->shares.q.number, labels = least_of(DEALT, HANDS * k) + k + 1;
    word size = 25 * bets + 4 * number + number / 64 + 1 + GAINS + (number + 1) / 2 + 1 + number / 8 + 1 +
                labels / 2 + 1 + weighed * labels;
    double *room = malloc(sizeof(double) * (size_t)size), *next = room;
    if (!room) return NULL;
    bets_at(&table->bets, taken(&next, 8 * bets, table->bets.wealth)); /* see STANDING */
    table->targets = taken(&next, bets, placed->targets);
    table->bets.largest = table->largest = taken(&next, bets, placed->largest);
    table->columns = taken(&next, bets, placed->columns);
    table->owners = taken(&next, bets, placed->owners);
    table->numbers = taken(&next, bets, NULL);
    table->bets.outcome = taken(&next, bets, NULL);
    for (word b = 0; b < bets; b++) table->numbers[b] = b, table->bets.outcome[b] = OPEN;
    table->shares.q.values = table->values = taken(&next, number, table->shares.q.values);
    table->places = taken(&next, number, NULL);
    table->shares.sums = taken(&next, number, NULL);
    memset(table->shares.sums, 0, sizeof(word) * (size_t)number);
    table->shares.shares = taken(&next, number, NULL);
    table->shares.marks = taken(&next, number / 64 + 1, NULL);
    table->gains = taken(&next, bets + GAINS, NULL);
    table->of_groups = taken(&next, STANDING * bets, NULL);
    table->group = taken(&next, (number + 1) / 2 + 1, NULL);
    table->dealt.apart = taken(&next, number / 8 + 1, NULL);
    table->dealt.places = taken(&next, labels / 2 + 1, NULL);
    table->dealt.weights = weighed ? taken(&next, labels, NULL) : NULL;
    return room;
}

/* Say how the bets stand that are still open. */
static void say_state(const Table *table, double *state)
{
    for (int part = 0; part < 8; part++)
        for (word b = 0; b < table->bets.bets; b++)
            state[part * table->all + table->numbers[b]] = table->bets.wealth[part * table->all + b];
}

static PyObject *bet(PyObject *self, PyObject *args)
{
    PyObject *block, *values, *labels, *entries, *scores, *own, *columns, *targets, *owners, *state, *largest,
             *outcome, *stops, *changes, *hedges, *slopes;
    Py_ssize_t first, last, seen;
    double width;
    Call call;
    Weights weights;
    Table table = {0};
    Placed placed;
    if (!PyArg_ParseTuple(args, "OnnOOOOOddOOOOOOnOOdOO", &block, &first, &last, &values, &labels, &entries, &scores,
                          &own, &table.shares.scale, &width, &columns, &targets, &owners, &state, &largest, &outcome,
                          &seen, &stops, &changes, &table.bets.delta, &hedges, &slopes))
        return NULL;
    table.all = table.bets.bets = length_of(columns) / 8;
    if (PyErr_Occurred()) return NULL;
    table.bets.seen = seen, table.bets.points = last - first, table.shares.part = 1 / width;
    int good = call_open(&call, block, first, last) && thresholds_open(&call, values, SAME, &table.shares.q) &&
               weights_open(&call, labels, entries, &weights) &&
               array_of(&call, scores, call.block.rows, 8, NEEDED, &table.shares.scores) &&
               array_of(&call, own, call.block.rows, 8, NEEDED, &table.shares.own) &&
               placed_open(&call, columns, targets, owners, largest, &table, &placed) &&
               array_of(&call, outcome, table.all, 8, WRITTEN, &table.outcome) &&
               bets_open(&call, &table.bets, state, stops, changes, hedges, slopes);
    double *stood = table.bets.wealth;
    int weighed = good && (weights.table || weights.entries);
    void *room = good ? table_open(&table, &placed, call.block.k, weighed) : NULL;
    good = room != NULL;
    if (good) WITHOUT_LOCK(good = bet_on_rows(&call, &table, &weights));
    if (good) say_state(&table, stood);
    index_close(&table.shares.q);
    free(room);
    DONE(call, good);
}

/* ---- masked_sums: of many splits of the same rows ---- */

static PyObject *masked_sums(PyObject *self, PyObject *args)
{
    PyObject *masks, *counts, *out;
    Py_ssize_t first, last, rows, width, most;
    Call call = {.number = 0};
    if (!PyArg_ParseTuple(args, "OnnOnnnO", &masks, &first, &last, &counts, &rows, &width, &most, &out))
        return NULL;
    word number = rows > 0 ? length_of(masks) / rows : 0;
    if (PyErr_Occurred()) return NULL;
    if (rows < 1 || width < 0 || (width && rows > PY_SSIZE_T_MAX / 8 / width) || most < 1 || most > UINT16_MAX ||
        first < 0 || first > last || last > number ||
        (width && number > PY_SSIZE_T_MAX / 8 / width))
        return refuse("there are no such masks");
    Masked masked = {.rows = rows, .width = width, .most = most};
    int good = array_of(&call, masks, number * rows, 1, NEEDED, &masked.masks) &&
               array_of(&call, counts, rows * width, 2, NEEDED, &masked.counts) &&
               array_of(&call, out, number * width, 8, WRITTEN, &masked.sums);
    if (good) WITHOUT_LOCK(sum_masked(&masked, first, last));
    DONE(call, good);
}

/* Splits of rows, and labels under uniform noise for each if they are wanted, from states of NumPy's generator. */
static PyObject *split_draws(PyObject *self, PyObject *args)
{
    PyObject *states, *labels, *masks, *noisy;
    Py_ssize_t first, last, k, calibration;
    Call call = {.number = 0};
    Draws draws = {.noisy = NULL};
    if (!PyArg_ParseTuple(args, "OnnOnndOO", &states, &first, &last, &labels, &k, &calibration, &draws.rate, &masks,
                          &noisy))
        return NULL;
    word number = length_of(states) / 32, rows = length_of(labels) / 4;
    if (PyErr_Occurred()) return NULL;
    if (first < 0 || first > last || last > number || rows < 1 || rows > INT32_MAX / 2 || k < 1 || k > INT32_MAX ||
        calibration < 0 || !(draws.rate >= 0 && draws.rate < 1) || number > PY_SSIZE_T_MAX / 8 / rows)
        return refuse("there are no such splits");
    draws.rows = rows, draws.k = k, draws.calibration = calibration;
    int good = array_of(&call, states, 4 * number, 8, NEEDED, &draws.states) &&
               array_of(&call, labels, rows, 4, NEEDED, &draws.labels) &&
               array_of(&call, masks, number * rows, 1, WRITTEN, &draws.masks) &&
               (noisy == Py_None || array_of(&call, noisy, number * rows, 4, WRITTEN, &draws.noisy));
    if (good) WITHOUT_LOCK(good = draw_splits(&draws, first, last));
    DONE(call, good);
}

/* Count the scores of rows up to edges; or else put pairs by cell, where places and stops say. */
static PyObject *split_cells(PyObject *self, PyObject *args)
{
    PyObject *values, *edges, *of, *counts, *known, *stops, *places, *pair_scores, *pair_rows;
    Py_ssize_t first, last, rows, k;
    Call call = {.number = 0};
    Cells cells;
    if (!PyArg_ParseTuple(args, "OnnnniiOOOOOOOO", &values, &first, &last, &rows, &k, &cells.width, &cells.minus,
                          &edges, &of, &counts, &known, &stops, &places, &pair_scores, &pair_rows))
        return NULL;
    word number = length_of(edges) / 8, pairs = length_of(pair_rows) / 4;
    int use = counts == Py_None ? NEEDED : OPTIONAL;
    if (PyErr_Occurred()) return NULL;
    if (k < 1 || k > UINT16_MAX || rows < 1 || rows > INT32_MAX || number >= UINT16_MAX ||
        rows > PY_SSIZE_T_MAX / 8 / k || (number && rows > PY_SSIZE_T_MAX / 8 / number) || first < 0 || first > last ||
        last > rows || (cells.width != 4 && cells.width != 8))
        return refuse("there are no such cells");
    cells.rows = rows, cells.k = k, cells.cells = number + 1;
    int good = array_of(&call, values, rows * k, cells.width, NEEDED, &cells.values) &&
               array_of(&call, edges, number, 8, NEEDED, &cells.edges) &&
               array_of(&call, of, rows * k, 2, WRITTEN, &cells.of) &&
               array_of(&call, counts, rows * number, 2, use == NEEDED ? OPTIONAL : WRITTEN, &cells.counts) &&
               array_of(&call, known, cells.cells, 1, use, &cells.known) &&
               array_of(&call, stops, cells.cells, 8, use, &cells.stops) &&
               array_of(&call, places, cells.cells, 8, use == NEEDED ? WRITTEN : OPTIONAL, &cells.places) &&
               array_of(&call, pair_scores, pairs, 8, use == NEEDED ? WRITTEN : OPTIONAL, &cells.pair_scores) &&
               array_of(&call, pair_rows, pairs, 4, use == NEEDED ? WRITTEN : OPTIONAL, &cells.pair_rows);
    for (word c = 0; good && use == NEEDED && c < cells.cells; c++)
        if (cells.places[c] < 0 || cells.stops[c] > pairs) good = refuse("there are no such places") != NULL;
    if (good) WITHOUT_LOCK(good = sort_into_cells(&cells, first, last));
    if (good < 0) good = refuse("there are more pairs than places") != NULL;
    DONE(call, good);
}

static int ascends(const word *numbers, word first, word count, word last)
{
    for (word i = 0; i + 1 < count; i++)
        if (numbers[i] > numbers[i + 1]) return 0;
    return numbers[0] >= first && numbers[count - 1] <= last;
}

/* What the splits of one score share: (edges, labels and order, scores, starts, pair scores, pair rows, cells of pairs,
   values, width, minus); starts are those of cells among labels, those among pairs, the pairs of all rows below them,
   and what is known of each. */
static int shared_open(Call *call, PyObject *described, Crossings *out)
{
    PyObject *edges, *rows, *scores, *starts, *pair_scores, *pair_rows, *of, *values;
    if (!PyTuple_Check(described)) return refuse("what splits share is described by a tuple") != NULL;
    if (!PyArg_ParseTuple(described, "OOOOOOOOii", &edges, &rows, &scores, &starts, &pair_scores, &pair_rows, &of,
                          &values, &out->width, &out->minus))
        return 0;
    word pairs = length_of(pair_rows) / 4, cells = length_of(edges) / 8 + 1;
    out->rows = length_of(rows) / 8, out->cells = cells;
    if (PyErr_Occurred()) return 0;
    if (out->rows < 1 || out->rows > INT32_MAX || out->rows > PY_SSIZE_T_MAX / 8 / out->k ||
        (out->width != 4 && out->width != 8))
        return refuse("there are no such splits") != NULL;
    if (!array_of(call, edges, cells - 1, 8, NEEDED, &out->edges) ||
        !array_of(call, rows, 2 * out->rows, 4, NEEDED, &out->labels) ||
        !array_of(call, scores, out->rows, 8, NEEDED, &out->scores) ||
        !array_of(call, starts, 4 * (cells + 1), 8, NEEDED, &out->starts) ||
        !array_of(call, pair_scores, pairs, 8, NEEDED, &out->pair_scores) ||
        !array_of(call, pair_rows, pairs, 4, NEEDED, &out->pair_rows) ||
        !array_of(call, of, out->rows * out->k, 2, NEEDED, &out->of) ||
        !array_of(call, values, out->rows * out->k, out->width, NEEDED, &out->values))
        return 0;
    out->order = out->labels + out->rows;
    out->pair_starts = out->starts + cells + 1, out->totals = out->pair_starts + cells + 1;
    out->known = out->totals + cells + 1;
    if (!rows_fit(out->order, out->rows, out->rows) || !ascends(out->starts, 0, cells + 1, out->rows) ||
        !ascends(out->pair_starts, 0, cells + 1, pairs))
        return refuse("there are no such cells") != NULL;
    return 1;
}

static PyObject *split_crossings(PyObject *self, PyObject *args)
{
    PyObject *shared, *masks, *noisy, *tallies, *kinds, *units, *targets, *found, *open;
    Py_ssize_t first, last, k, calibration;
    Call call = {.number = 0};
    Crossings all = {.rows = 0};
    if (!PyArg_ParseTuple(args, "OnnnnidOOOOOOOO", &shared, &first, &last, &k, &calibration, &all.last, &all.rounding,
                          &masks, &noisy, &tallies, &kinds, &units, &targets, &found, &open))
        return NULL;
    word splits = length_of(open) / 8, columns = length_of(units) / 16, labels = length_of(noisy) / 4;
    if (PyErr_Occurred()) return NULL;
    if (k < 1 || k > INT32_MAX || calibration < 1 || first < 0 || first > last || last > splits)
        return refuse("there are no such splits");
    all.k = k, all.calibration = calibration, all.columns = columns, all.splits = splits, all.last = all.last != 0;
    int good = shared_open(&call, shared, &all);
    if (good && (splits > PY_SSIZE_T_MAX / 64 / (all.rows + all.cells + columns) || calibration >= all.rows))
        good = refuse("there are no such splits") != NULL;
    all.apart = labels == all.rows ? 0 : all.rows;
    good = good && array_of(&call, masks, splits * all.rows, 1, NEEDED, &all.masks) &&
           array_of(&call, noisy, all.apart ? splits * all.rows : all.rows, 4, NEEDED, &all.noisy) &&
           array_of(&call, tallies, splits * (all.cells - 1), 8, NEEDED, &all.tallies) &&
           array_of(&call, kinds, 3 * columns, 8, NEEDED, &all.kinds) &&
           array_of(&call, units, 2 * columns, 8, NEEDED, &all.units) &&
           array_of(&call, targets, splits * columns, 8, NEEDED, &all.targets) &&
           array_of(&call, found, 3 * splits * columns, 8, WRITTEN, &all.found) &&
           array_of(&call, open, splits, 8, WRITTEN, &all.open);
    if (good) WITHOUT_LOCK(good = cross_splits(&all, first, last));
    if (good < 0) good = refuse("there is no such label") != NULL;
    DONE(call, good);
}

/* ---- ascending: numbers in order, in their place ---- */

static PyObject *put_ascending(PyObject *self, PyObject *args)
{
    PyObject *values, *others;
    Call call = {.number = 0};
    double *numbers;
    word *with;
    if (!PyArg_ParseTuple(args, "OO", &values, &others)) return NULL;
    word n = length_of(values) / 8;
    if (PyErr_Occurred()) return NULL;
    if (n > INT32_MAX) return refuse("too many numbers");
    int good = array_of(&call, values, n, 8, WRITTEN, &numbers) &&
               (others == Py_None || array_of(&call, others, n, 8, WRITTEN, &with));
    if (good) WITHOUT_LOCK(good = put_in_order(numbers, others == Py_None ? NULL : with, n));
    DONE(call, good);
}

/* ---- The module ---- */

/* Learn the cells of scores by their leading bits (cells.py), once, before any verb is called. */
static PyObject *learn_cells(PyObject *self, PyObject *args)
{
    PyObject *table;
    Py_ssize_t number;
    Call call = {.number = 0};
    const int32_t *codes;
    if (!PyArg_ParseTuple(args, "On", &table, &number)) return NULL;
    if (number < 2 || number > INT32_MAX) return refuse("there are no such cells");
    int good = array_of(&call, table, 4 * LEADING, 4, NEEDED, &codes);
    for (word c = 0; good && c < 4 * LEADING; c++)
        if (codes[c] < 0 || codes[c] >= number) good = refuse("there is no such cell") != NULL;
    if (good) memcpy(cells.codes, codes, sizeof cells.codes), cells.number = number;
    DONE(call, good);
}

/* Use vectors of so many bytes at the most. */
static PyObject *vectors(PyObject *self, PyObject *args)
{
    int bytes;
    if (!PyArg_ParseTuple(args, "i", &bytes)) return NULL;
    widest = bytes;
    Py_RETURN_NONE;
}

#ifndef _WIN32
/* ---- fetch: rows from a file ---- */

static PyObject *fetch(PyObject *self, PyObject *args)
{
    PyObject *places, *out;
    Py_ssize_t first, last;
    int file, found = 0;
    Call call = {0};
    const word *at;
    char *rows;
    if (!PyArg_ParseTuple(args, "OnniO", &places, &first, &last, &file, &out)) return NULL;
    word number = length_of(places) / 8, bytes = length_of(out);
    if (PyErr_Occurred()) return NULL;
    if (first < 0 || last > number || first > last || bytes % (number ? number : 1))
        return refuse("there are no such rows");
    int good = array_of(&call, places, number, 8, NEEDED, &at) && array_of(&call, out, bytes, 1, WRITTEN, &rows);
    if (good) WITHOUT_LOCK(found = fetch_rows(file, at, first, last, rows, (size_t)(number ? bytes / number : 0)));
    call_close(&call);
    if (!good || found < 0) return good ? PyErr_SetFromErrno(PyExc_OSError) : NULL;
    return PyBool_FromLong(found);
}
#endif

static PyMethodDef methods[] = {
    {"look_over", looked_over, METH_VARARGS, NULL},
    {"label_scores", label_scores, METH_VARARGS, NULL}, {"scores", scores, METH_VARARGS, NULL},
    {"tally", tally, METH_VARARGS, NULL},       {"squares", squares, METH_VARARGS, NULL},
    {"window", window, METH_VARARGS, NULL},     {"counts", counts, METH_VARARGS, NULL},
    {"gaps", gaps, METH_VARARGS, NULL},
    {"profile", profile, METH_VARARGS, NULL},   {"sets", sets, METH_VARARGS, NULL},
    {"bet", bet, METH_VARARGS, NULL},           {"play", play, METH_VARARGS, NULL},
    {"masked_sums", masked_sums, METH_VARARGS, NULL}, {"split_draws", split_draws, METH_VARARGS, NULL},
    {"split_cells", split_cells, METH_VARARGS, NULL}, {"split_crossings", split_crossings, METH_VARARGS, NULL},
    {"ascending", put_ascending, METH_VARARGS, NULL},
    {"vectors", vectors, METH_VARARGS, NULL},   {"learn_cells", learn_cells, METH_VARARGS, NULL},
#ifndef _WIN32
    {"fetch", fetch, METH_VARARGS, NULL},
#endif
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
