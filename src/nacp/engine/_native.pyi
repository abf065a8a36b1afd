from typing import Any

# A score is (kernel, codes, constants, hashed columns, keys), as in native.py.
_Score = tuple[Any, ...]
# Sorted rows and the columns of their entries, as in ranks.py.
_Sorted = tuple[Any, Any] | None

def check(values: Any, tolerance: float, /) -> bool: ...
def uniforms(values: Any, columns: Any, keys: Any, out: Any, /) -> None: ...
def label_scores(values: Any, score: _Score, labels: Any, out: Any, /) -> None: ...
def tally(values: Any, order: _Sorted, score: _Score, which: Any, table: Any, /) -> tuple[int, bytearray]: ...
def shares(
    values: Any,
    order: _Sorted,
    score: _Score,
    thresholds: tuple[Any, float],
    given: tuple[Any, Any, float],
    which: Any,
    table: Any,
    out: Any,
    /,
) -> None: ...
def sets(
    values: Any, order: _Sorted, score: _Score, thresholds: Any, allow_empty: bool, sizes: Any, /
) -> bytearray: ...
def play(
    bets: tuple[Any, Any, Any],
    shares: Any,
    scale: tuple[float, float],
    seen: int,
    schedule: tuple[Any, Any],
    delta: float,
    hedges: tuple[Any, Any],
    /,
) -> None: ...
