/* The compiled engine: the verbs of contract.py over some rows of a block. Each has a twin in numpy.py, which is
   its definition; native.py calls them, one part of the rows in each thread.

   Here arguments are taken from Python and their sizes are checked, so that the loops can trust them. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "rows.h"

/* ---- Arguments ---- */

#define MOST_VIEWS 10

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

static int formula_fits(const Block *block, word constants)
{
    word depth = 0;
    for (word c = 0; c < block->length; c++) {
        int code = block->code[2 * c], argument = block->code[2 * c + 1];
        if (code < 0 || code >= CODES) return 0;
        if (code == LOAD_CONSTANT && (argument < 0 || argument >= constants)) return 0;
        if (code == LOAD_U && !block->u) return 0;
        depth -= code < ADD ? 0 : code == WHERE ? 3 : code >= NEGATIVE ? 1 : 2;
        if (depth < 0 || ++depth > DEPTH) return 0;
    }
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
        !array_of(call, columns, pairs, 4, NEEDED, &kept->columns))
        return 0;
    for (word i = call->first; i < call->last; i++) {
        word row = kept->order[i];
        if (row < 0 || row >= all) return refuse("no such row was kept") != NULL;
        word start = kept->starts[row], stop = kept->starts[row + 1];
        if (start < 0 || start > stop || stop > pairs || stop - start > call->block.k)
            return refuse("a row that was kept has no such place") != NULL;
        for (word j = start; j < stop; j++)
            if (kept->columns[j] < 0 || kept->columns[j] >= call->block.k) return refuse("there is no such label") != NULL;
    }
    return 1;
}

/* A block is (values, rows, k, width, code, constants, u, kept), of which there are either values or scores that
   were kept; rows from `first` to `last` of it are to be done. */
static int call_open(Call *call, PyObject *described, Py_ssize_t first, Py_ssize_t last)
{
    PyObject *values, *code, *constants, *u, *kept;
    Block *block = &call->block;
    Py_ssize_t rows, k;
    memset(call, 0, sizeof *call);
    if (!PyTuple_Check(described)) return refuse("a block is described by a tuple") != NULL;
    if (!PyArg_ParseTuple(described, "OnniOOOO", &values, &rows, &k, &block->width, &code, &constants, &u, &kept))
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
    if (!array_of(call, values, rows * k, block->width, NEEDED, &block->values) ||
        !array_of(call, code, 2 * block->length, 4, OPTIONAL, &block->code) ||
        !array_of(call, constants, numbers / 8, 8, OPTIONAL, &block->constants) ||
        !array_of(call, u, rows, 8, OPTIONAL, &block->u))
        return 0;
    if (block->code && !formula_fits(block, numbers / 8)) return refuse("a formula is not well formed") != NULL;
    return 1;
}

/* Weights of pairs: none, by a row's label (a k x k table), or by entry. */
typedef struct {
    const word *table, *labels, *entries;
} Weights;

static int weights_open(Call *call, PyObject *labels, PyObject *values, Weights *weights)
{
    const Block *block = &call->block;
    memset(weights, 0, sizeof *weights);
    if (labels == Py_None) return array_of(call, values, block->rows * block->k, 8, OPTIONAL, &weights->entries);
    if (!array_of(call, labels, block->rows, 8, NEEDED, &weights->labels) ||
        !array_of(call, values, block->k * block->k, 8, NEEDED, &weights->table))
        return 0;
    for (word i = call->first; weights->labels && i < call->last; i++)
        if (weights->labels[i] < 0 || weights->labels[i] >= block->k) return refuse("there is no such label") != NULL;
    return 1;
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

/* ---- check, uniforms, label_scores ---- */

static int checked(const Call *call, double tolerance)
{
    const Block *block = &call->block;
    for (word i = call->first; i < call->last; i++)
        if (!block->lanes->checked(row_at(block, i), block->k, tolerance)) return 0;
    return 1;
}

static PyObject *check(PyObject *self, PyObject *args)
{
    PyObject *block;
    Py_ssize_t first, last;
    double tolerance;
    Call call;
    int good = 0;
    if (!PyArg_ParseTuple(args, "Onnd", &block, &first, &last, &tolerance)) return NULL;
    int opened = call_open(&call, block, first, last);
    if (opened) WITHOUT_LOCK(good = checked(&call, tolerance));
    call_close(&call);
    return opened ? PyBool_FromLong(good) : NULL;
}

static void hash_rows(const Call *call, const word *columns, const uint64_t *keys, word number, double *out)
{
    const Block *block = &call->block;
    for (word i = call->first; i < call->last; i++) {
        uint64_t sum = hashed(block->lanes->largest(row_at(block, i), block->k), keys[number]);
        for (word c = 0; c < number; c++) sum += hashed(entry(block, i, columns[c]), keys[c]);
        out[i] = (double)(mixed(sum) >> 11) * 0x1p-53;
    }
}

static PyObject *uniforms(PyObject *self, PyObject *args)
{
    PyObject *block, *columns, *keys, *out;
    Py_ssize_t first, last;
    Call call;
    const word *places;
    const uint64_t *words;
    double *u;
    if (!PyArg_ParseTuple(args, "OnnOOO", &block, &first, &last, &columns, &keys, &out)) return NULL;
    word number = length_of(columns) / 8;
    if (PyErr_Occurred()) return NULL;
    int good = call_open(&call, block, first, last) && array_of(&call, columns, number, 8, NEEDED, &places) &&
               array_of(&call, keys, number + 1, 8, NEEDED, &words) && array_of(&call, out, call.block.rows, 8, WRITTEN, &u);
    for (word c = 0; good && c < number; c++)
        if (places[c] < 0 || places[c] >= call.block.k) good = refuse("there is no such column") != NULL;
    if (good) WITHOUT_LOCK(hash_rows(&call, places, words, number, u));
    DONE(call, good);
}

static int score_labels(const Call *call, const word *labels, double *out)
{
    const Block *block = &call->block;
    Row row;
    int good = row_open(&row, block->k), tops = 0;
    for (word c = 0; c < block->length; c++)
        tops |= block->code[2 * c] == LOAD_TOP || block->code[2 * c] == LOAD_SECOND;
    for (word i = call->first; good && i < call->last; i++) out[i] = label_score(&row, block, i, labels[i], tops);
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
    int good = call_open(&call, block, first, last) && array_of(&call, labels, call.block.rows, 8, NEEDED, &given) &&
               array_of(&call, out, call.block.rows, 8, WRITTEN, &scores);
    if (good && !call.block.code) good = refuse("a formula is needed") != NULL;
    for (word i = first; good && i < last; i++)
        if (given[i] < 0 || given[i] >= call.block.k) good = refuse("there is no such label") != NULL;
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
    int good = call_open(&call, block, first, last) &&
               array_of(&call, out, call.block.rows * call.block.k, 8, WRITTEN, &found);
    if (good && !call.block.code) good = refuse("a formula is needed") != NULL;
    if (good) WITHOUT_LOCK(good = score_all(&call, found));
    DONE(call, good);
}

/* ---- tally ---- */

typedef struct {
    const int32_t *table; /* the cells, or else: */
    const double *edges;
    word cells; /* how many there are */
    double limit, cuts[CUTS];
    word *pairs, *gains, *losses; /* the last two if pairs have weights */
} Tally;

static void count(const Tally *tally, word cell, word pairs, word gain, word loss)
{
    tally->pairs[cell] += pairs;
    if (tally->gains) tally->gains[cell] += gain, tally->losses[cell] += loss;
}

static void count_one(const Tally *tally, double score, word column, const word *weights)
{
    word cell, weight = weights ? weights[column] : 0;
    if (tally->table) {
        cell = cell_of(tally->table, score);
    } else { /* the last edge below the score */
        word low = 0, high = tally->cells + 1;
        while (low < high) {
            word middle = (low + high) / 2;
            if (tally->edges[middle] < score) low = middle + 1; else high = middle;
        }
        cell = low - 1;
        if (cell < 0 || cell >= tally->cells) return;
    }
    count(tally, cell, 1, weight > 0 ? weight : 0, weight < 0 ? -weight : 0);
}

/* The weights of a row's entries in [low, high). */
static void add_weights(const Block *block, word i, double low, double high, const word *weights, word *gain, word *loss)
{
    *gain = *loss = 0;
    for (word column = 0; column < block->k; column++) {
        double p = entry(block, i, column);
        word weight = p >= low && p < high ? weights[column] : 0;
        *gain += weight > 0 ? weight : 0, *loss -= weight < 0 ? weight : 0;
    }
}

/* Where labels that come after `number` labels of some mass, and have no entry as large as a cut, begin. */
static word cell_after(const Tally *tally, const Block *block, const Row *row, word number, double mass, double cut)
{
    double score = block->code ? least_score(block, &row->q, number, mass, cut) : -cut;
    return cell_of(tally->table, score);
}

/* Count the entries of a row that were not looked at, as they score above the limit, where they cannot score less:
   those of each further part of the row where the labels before them put them. */
static void count_tail(const Tally *tally, const Block *block, const Row *row, word i, const word *weights)
{
    word numbers[CUTS + 1], counted = row->number, gain = 0, loss = 0;
    word cell = cell_of(tally->table, tally->limit) + 1; /* the first beyond it */
    double masses[CUTS], unseen = block->code ? mass_not_seen(row) : 0;
    double upper = block->code && row->number ? entry(block, i, row->column[row->number - 1]) : row->cut;
    block->lanes->tails(row_at(block, i), block->k, tally->cuts, row->cut, numbers, masses);
    for (int part = 0; part <= CUTS && counted < block->k; part++) {
        word upto = part < CUTS ? row->collected + numbers[part] : block->k;
        double cut = part < CUTS ? least(tally->cuts[part], row->cut) : 0;
        if (upto == counted) continue;
        if (weights) add_weights(block, i, cut, upper, weights, &gain, &loss);
        count(tally, cell, upto - counted, gain, loss);
        counted = upto, upper = cut;
        if (part == CUTS) break;
        double mass = from_grid(row->mass) + least_mass(unseen + masses[part], block->k);
        word after = cell_after(tally, block, row, upto, mass, cut);
        cell = after > cell ? after : cell;
    }
}

static void tally_row(const Tally *tally, const Block *block, Row *row, word i, const word *weights)
{
    look(row, block, i, tally->limit);
    for (word j = 0; j < row->number; j++) count_one(tally, row->score[j], row->column[j], weights);
    if (tally->table && tally->limit < INFINITY && row->number < block->k) count_tail(tally, block, row, i, weights);
}

static int tally_rows(const Call *call, const Tally *tally, const Weights *weights)
{
    const Block *block = &call->block;
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++)
        tally_row(tally, block, &row, i, weights_of(weights, block, i));
    row_close(&row);
    return good;
}

#define ALL_CODES (4 * LEADING)

static PyObject *tally(PyObject *self, PyObject *args)
{
    PyObject *block, *table, *edges, *cuts, *labels, *values, *out;
    Py_ssize_t first, last;
    Call call;
    const double *tail;
    Tally tally;
    Weights weights;
    if (!PyArg_ParseTuple(args, "OnnOOdOOOO", &block, &first, &last, &table, &edges, &tally.limit, &cuts, &labels, &values, &out))
        return NULL;
    int weighed = values != Py_None;
    word rows = weighed ? 3 : 1, cells = length_of(out) / 8 / rows;
    if (PyErr_Occurred()) return NULL;
    int good = call_open(&call, block, first, last) && weights_open(&call, labels, values, &weights) &&
               array_of(&call, table, ALL_CODES, 4, OPTIONAL, &tally.table) &&
               array_of(&call, edges, cells + 1, 8, OPTIONAL, &tally.edges) &&
               array_of(&call, cuts, CUTS, 8, NEEDED, &tail) &&
               array_of(&call, out, rows * cells, 8, WRITTEN, &tally.pairs);
    if (good && (!tally.table == !tally.edges)) good = refuse("cells or edges are needed") != NULL;
    for (word c = 0; good && tally.table && c < ALL_CODES; c++)
        if (tally.table[c] < 0 || tally.table[c] >= cells) good = refuse("there is no such cell") != NULL;
    if (good && tally.table && tally.limit < INFINITY && cell_of(tally.table, tally.limit) + 1 >= cells)
        good = refuse("a limit has no cells beyond") != NULL;
    for (int j = 0; good && j < CUTS; j++) tally.cuts[j] = fmaxf((float)tail[j], FLT_MIN);
    tally.cells = cells;
    tally.gains = good && weighed ? tally.pairs + cells : NULL;
    tally.losses = good && weighed ? tally.gains + cells : NULL;
    if (good) WITHOUT_LOCK(good = tally_rows(&call, &tally, &weights));
    DONE(call, good);
}

/* ---- window ---- */

typedef struct {
    char *bytes;
    size_t used, room;
} Growing;

static int grow(Growing *out, const void *item, size_t size)
{
    if (!size) return 1;
    if (out->used + size > out->room) {
        size_t room = 2 * (out->used + size) + 4096;
        char *bytes = realloc(out->bytes, room);
        if (!bytes) return 0;
        out->bytes = bytes, out->room = room;
    }
    memcpy(out->bytes + out->used, item, size);
    out->used += size;
    return 1;
}

typedef struct {
    const double *ends; /* low and high of each, ascending */
    word number;
    Growing scores, weights;
} Window;

static int within(const Window *window, double score)
{
    for (word s = 0; s < window->number; s++)
        if (score <= window->ends[2 * s + 1]) return score > window->ends[2 * s];
    return 0;
}

static int window_take(Window *window, double score, word column, const word *weights)
{
    if (!within(window, score)) return 1;
    return grow(&window->scores, &score, sizeof score) &&
           (!weights || grow(&window->weights, weights + column, sizeof *weights));
}

static int window_rows(const Call *call, Window *window, const Weights *weights)
{
    const Block *block = &call->block;
    double limit = window->ends[2 * window->number - 1];
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        const word *own = weights_of(weights, block, i);
        look(&row, block, i, limit);
        for (word j = 0; good && j < row.number; j++) good = window_take(window, row.score[j], row.column[j], own);
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
    window.number = length_of(ends) / 16;
    if (PyErr_Occurred()) return NULL;
    int good = call_open(&call, block, first, last) && weights_open(&call, labels, values, &weights) &&
               array_of(&call, ends, 2 * window.number, 8, NEEDED, &window.ends);
    if (good && window.number) WITHOUT_LOCK(good = window_rows(&call, &window, &weights));
    call_close(&call);
    if (good)
        found = Py_BuildValue("y#y#", window.scores.bytes ? window.scores.bytes : "", (Py_ssize_t)window.scores.used,
                              window.weights.bytes ? window.weights.bytes : "", (Py_ssize_t)window.weights.used);
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    free(window.scores.bytes);
    free(window.weights.bytes);
    return found;
}

/* ---- profile and sets: thresholds are one number each, one per label or one per row ---- */

enum { SAME, PER_LABEL, PER_ROW };

typedef struct {
    const double *values; /* number x 1, number x k or number x rows */
    word number;
    int kind;
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

/* Add a pair's weight where its score is at most a threshold. Of ascending ones: to the first of them. */
static void profile_one(const Thresholds *q, const Block *block, word i, double score, word column, word weight,
                        word *sums)
{
    if (q->kind != SAME) {
        for (word t = 0; t < q->number; t++)
            if (score <= threshold(q, block, t, i, column)) sums[t] += weight;
        return;
    }
    word low = 0, high = q->number;
    while (low < high) {
        word middle = (low + high) / 2;
        if (q->values[middle] < score) low = middle + 1; else high = middle;
    }
    if (low < q->number) sums[low] += weight;
}

static int profile_rows(const Call *call, const Thresholds *q, const Weights *weights, word *out)
{
    const Block *block = &call->block;
    double most = q->kind == PER_ROW ? 0 : largest(q, block, 0);
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        const word *own = weights_of(weights, block, i);
        word *sums = out + i * q->number;
        double limit = q->kind == PER_ROW ? largest(q, block, i) : most;
        look(&row, block, i, limit);
        for (word j = 0; j < row.number; j++)
            profile_one(q, block, i, row.score[j], row.column[j], own ? own[row.column[j]] : 1, sums);
        for (word t = 1; q->kind == SAME && t < q->number; t++) sums[t] += sums[t - 1];
    }
    row_close(&row);
    return good;
}

static int thresholds_open(Call *call, PyObject *values, int kind, Thresholds *q)
{
    if (kind < SAME || kind > PER_ROW) return refuse("there are no such thresholds") != NULL;
    word each = kind == SAME ? 1 : kind == PER_LABEL ? call->block.k : call->block.rows, bytes = length_of(values);
    if (bytes < 0) return 0;
    q->kind = kind;
    q->number = each ? bytes / 8 / each : 0;
    return array_of(call, values, q->number * each, 8, NEEDED, &q->values);
}

static PyObject *profile(PyObject *self, PyObject *args)
{
    PyObject *block, *values, *labels, *entries, *out;
    Py_ssize_t first, last;
    int kind;
    Call call;
    Thresholds q;
    Weights weights;
    word *sums;
    if (!PyArg_ParseTuple(args, "OnnOiOOO", &block, &first, &last, &values, &kind, &labels, &entries, &out)) return NULL;
    int good = call_open(&call, block, first, last) && thresholds_open(&call, values, kind, &q) &&
               weights_open(&call, labels, entries, &weights) &&
               array_of(&call, out, call.block.rows * q.number, 8, WRITTEN, &sums);
    if (good) WITHOUT_LOCK(good = profile_rows(&call, &q, &weights, sums));
    DONE(call, good);
}

typedef struct {
    Growing labels;
    word *sizes;
    int allow_empty;
} Sets;

/* The labels of row i whose entries are at least a cut. */
static int take_above(Sets *sets, const Block *block, Row *row, word i, double cut)
{
    word number = collect(block, i, cut, INFINITY, row->words);
    for (word j = 0; j < number; j++) row->columns[j] = (int32_t)(uint32_t)row->words[j];
    sets->sizes[i] = number;
    return grow(&sets->labels, row->columns, sizeof *row->columns * (size_t)number);
}

#define FEW_LABELS 32

/* In the order of a row: the first so many labels, ascending. */
static int take_first(Sets *sets, const Block *block, Row *row, word i, word number)
{
    if (number > FEW_LABELS) return take_above(sets, block, row, i, entry(block, i, row->column[number - 1]));
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
    look(row, block, i, limit);
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

static int sets_rows(const Call *call, const Thresholds *q, Sets *sets)
{
    const Block *block = &call->block;
    double most = q->kind == PER_ROW ? 0 : largest(q, block, 0);
    Row row;
    int good = row_open(&row, block->k);
    for (word i = call->first; good && i < call->last; i++) {
        double limit = q->kind == PER_ROW ? largest(q, block, i) : most;
        word number = 0;
        sets->sizes[i] = 0;
        if (q->kind == PER_LABEL) {
            good = take_each(sets, block, q, &row, i, limit);
        } else if (block->code) {
            row_until(&row, block, i, limit);
            while (number < row.number && row.score[number] <= limit) number++;
            good = take_first(sets, block, &row, i, number);
        } else {
            good = take_above(sets, block, &row, i, -limit);
        }
        if (good && !sets->allow_empty && !sets->sizes[i]) good = take_above(sets, block, &row, i, block->lanes->largest(row_at(block, i), block->k));
    }
    row_close(&row);
    return good;
}

static PyObject *sets(PyObject *self, PyObject *args)
{
    PyObject *block, *values, *sizes, *found = NULL;
    Py_ssize_t first, last;
    int kind;
    Call call;
    Thresholds q;
    Sets sets = {0};
    if (!PyArg_ParseTuple(args, "OnnOipO", &block, &first, &last, &values, &kind, &sets.allow_empty, &sizes)) return NULL;
    int good = call_open(&call, block, first, last) && thresholds_open(&call, values, kind, &q) &&
               array_of(&call, sizes, call.block.rows, 8, WRITTEN, &sets.sizes);
    if (good && (q.number != 1 || call.block.kept.starts)) good = refuse("one threshold and rows are needed") != NULL;
    if (good) WITHOUT_LOCK(good = sets_rows(&call, &q, &sets));
    call_close(&call);
    if (good)
        found = PyBytes_FromStringAndSize(sets.labels.bytes ? sets.labels.bytes : "", (Py_ssize_t)sets.labels.used);
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    free(sets.labels.bytes);
    return found;
}

/* ---- walk: see walk in stats/betting.py ---- */

typedef struct {
    const double *gains, *stakes;
    const word *columns;
    word width, first, last, bets; /* of the gains; the points to bet on; how many bets */
    double *growth, *highest, *sums, *squares;
} Walk;

static void walk_points(const Walk *walk)
{
    for (word b = 0; b < walk->bets; b++)
        walk->growth[b] = 1, walk->highest[b] = 0, walk->sums[b] = walk->squares[b] = 0;
    for (word i = walk->first; i < walk->last; i++) {
        const double *gains = walk->gains + i * walk->width;
        for (word b = 0; b < walk->bets; b++) {
            double gain = gains[walk->columns[b]], growth = walk->growth[b] * (1 + walk->stakes[b] * gain);
            walk->growth[b] = growth;
            walk->highest[b] = growth > walk->highest[b] ? growth : walk->highest[b];
            walk->sums[b] += gain;
            walk->squares[b] += gain * gain;
        }
    }
}

static PyObject *walk(PyObject *self, PyObject *args)
{
    PyObject *gains, *columns, *stakes, *out;
    Py_ssize_t points, width, first, last;
    Call call = {.number = 0};
    Walk walk;
    if (!PyArg_ParseTuple(args, "OnnnnOOO", &gains, &points, &width, &first, &last, &columns, &stakes, &out)) return NULL;
    if (points < 0 || width < 0 || (width && points > PY_SSIZE_T_MAX / 8 / width) || first < 0 || last > points)
        return refuse("there are no such points");
    walk.width = width, walk.first = first, walk.last = last, walk.bets = length_of(columns) / 8;
    if (PyErr_Occurred()) return NULL;
    int good = array_of(&call, gains, points * width, 8, NEEDED, &walk.gains) &&
               array_of(&call, columns, walk.bets, 8, NEEDED, &walk.columns) &&
               array_of(&call, stakes, walk.bets, 8, NEEDED, &walk.stakes) &&
               array_of(&call, out, 4 * walk.bets, 8, WRITTEN, &walk.growth);
    for (word b = 0; good && b < walk.bets; b++)
        if (walk.columns[b] < 0 || walk.columns[b] >= width) good = refuse("there is no such bet") != NULL;
    walk.highest = good ? walk.growth + walk.bets : NULL;
    walk.sums = good ? walk.highest + walk.bets : NULL;
    walk.squares = good ? walk.sums + walk.bets : NULL;
    if (good) WITHOUT_LOCK(walk_points(&walk));
    DONE(call, good);
}

/* ---- The module ---- */

static PyMethodDef methods[] = {
    {"check", check, METH_VARARGS, NULL},       {"uniforms", uniforms, METH_VARARGS, NULL},
    {"label_scores", label_scores, METH_VARARGS, NULL}, {"scores", scores, METH_VARARGS, NULL},
    {"tally", tally, METH_VARARGS, NULL},       {"window", window, METH_VARARGS, NULL},
    {"walk", walk, METH_VARARGS, NULL},         {"profile", profile, METH_VARARGS, NULL},   {"sets", sets, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
