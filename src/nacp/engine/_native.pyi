from typing import Any

# Verbs over the rows from `first` to `last` of a block: see native.c.
_Block = tuple[Any, ...]

def look_over(block: _Block, first: int, last: int, /) -> None: ...
def label_scores(block: _Block, first: int, last: int, labels: Any, out: Any, /) -> None: ...
def scores(block: _Block, first: int, last: int, out: Any, /) -> None: ...
def tally(
    block: _Block,
    first: int,
    last: int,
    edges: Any,
    limit: float,
    cuts: Any,
    labels: Any,
    weights: Any,
    numbers: Any,
    out: Any,
    index: Any = ...,
    spans: Any = ...,
    scores: Any = ...,
    columns: Any = ...,
    /,
) -> tuple[bytes | None, bytes | None]: ...
def squares(block: _Block, first: int, last: int, edges: Any, index: Any, out: Any, /) -> None: ...
def window(
    block: _Block, first: int, last: int, ends: Any, labels: Any, weights: Any, /
) -> tuple[bytes, bytes]: ...
def profile(
    block: _Block,
    first: int,
    last: int,
    thresholds: Any,
    kind: int,
    labels: Any,
    weights: Any,
    out: Any,
    /,
) -> None: ...
def counts(
    block: _Block, first: int, last: int, marks: Any, labels: Any, entries: Any, out: Any, /
) -> None: ...
def gaps(
    block: _Block,
    first: int,
    last: int,
    columns: Any,
    lows: Any,
    highs: Any,
    labels: Any,
    weights: Any,
    /,
) -> tuple[bytes, bytes, bytes]: ...
def sets(
    block: _Block,
    first: int,
    last: int,
    thresholds: Any,
    kind: int,
    allow_empty: bool,
    sizes: Any,
    room: Any = ...,
    /,
) -> bytes | None: ...
def bet(
    block: _Block,
    first: int,
    last: int,
    thresholds: Any,
    labels: Any,
    weights: Any,
    scores: Any,
    own: Any,
    scale: float,
    width: float,
    columns: Any,
    targets: Any,
    owners: Any,
    state: Any,
    most: Any,
    outcome: Any,
    seen: int,
    stops: Any,
    changes: Any,
    delta: float,
    hedges: Any,
    slopes: Any,
    /,
) -> None: ...
def play(
    state: Any,
    most: Any,
    outcome: Any,
    gains: Any,
    points: int,
    bets: int,
    seen: int,
    stops: Any,
    changes: Any,
    delta: float,
    hedges: Any,
    slopes: Any,
    /,
) -> None: ...
def vectors(bytes: int, /) -> None: ...
def learn_cells(table: Any, number: int, /) -> None: ...
def ascending(numbers: Any, others: Any, /) -> None: ...
def masked_sums(
    masks: Any, first: int, last: int, counts: Any, rows: int, width: int, most: int, out: Any, /
) -> None: ...
def split_draws(
    states: Any,
    first: int,
    last: int,
    labels: Any,
    k: int,
    calibration: int,
    rate: float,
    masks: Any,
    noisy: Any,
    /,
) -> None: ...
def split_cells(
    values: Any,
    first: int,
    last: int,
    rows: int,
    k: int,
    width: int,
    minus: bool,
    edges: Any,
    cells: Any,
    counts: Any,
    known: Any,
    stops: Any,
    places: Any,
    pair_scores: Any,
    pair_rows: Any,
    /,
) -> None: ...
def split_crossings(
    table: tuple[Any, ...],
    first: int,
    last: int,
    k: int,
    calibration: int,
    last_crossing: bool,
    rounding: float,
    masks: Any,
    noisy: Any,
    tallies: Any,
    kinds: Any,
    units: Any,
    targets: Any,
    found: Any,
    open: Any,
    /,
) -> None: ...

# Not on Windows, which has no pread.
def fetch(places: Any, first: int, last: int, file: int, out: Any, /) -> bool: ...
