"""Brute-force oracle: every definition written out, slow, in exact rational arithmetic.

Shares no code with the library. Floats enter by their exact value, thresholds are Fractions,
and a threshold of None means +infinity. "Theory" is THEORY.md; eq. numbers are the paper's.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, takewhile
from typing import SupportsFloat

Number = Fraction | SupportsFloat
Vector = Sequence[Number]
Matrix = Sequence[Sequence[Number]]


def exact(value: Number) -> Fraction:
    """The exact rational value of a float, an int, a numpy scalar or a Fraction."""
    return Fraction(value if isinstance(value, Fraction | int) else float(value))


def exact_rows(matrix: Matrix) -> list[list[Fraction]]:
    """A matrix as nested lists of exact rationals."""
    return [[exact(v) for v in row] for row in matrix]


# Scores


def scores(
    name: str, row: Vector, *, u: Number | None = None, penalty: Number | None = None, free: int | None = None
) -> list[Fraction]:
    """S(x, l) for every label l of one row of probabilities (eqs. 1-3; Theory 1, "Scores")."""
    p = [exact(v) for v in row]
    v = Fraction(1) if u is None else exact(u)
    result = []
    for label, p_l in enumerate(p):
        above = [p_i for p_i in p if p_i > p_l]
        at_least = [p_i for p_i in p if p_i >= p_l]
        aps = sum(at_least) if u is None else sum(above) + v * p_l
        if name == "hps":
            s = 1 - p_l
        elif name == "aps":
            s = aps
        elif name == "raps":
            s = aps + exact(penalty) * max(0, len(at_least) - free)
        elif name == "saps":
            s = max(p) + exact(penalty) * (len(above) - 1 + v) if above else v * max(p)
        elif name == "margin":
            s = max(p_i for i, p_i in enumerate(p) if i != label) - p_l
        elif name == "topk":
            s = Fraction(len(at_least))
        else:
            raise ValueError(f"unknown score {name!r}")
        result.append(s)
    return result


def in_set(row_scores: Vector, q: Number | None) -> set[int]:
    """C_q(x) = {l : S(x, l) <= q}; q None or inf is every label (Theory 1)."""
    bound = math.inf if q is None else q if isinstance(q, Fraction) else float(q)
    # Python compares a Fraction with a float by the float's exact value.
    return {label for label, s in enumerate(row_scores) if exact(s) <= bound}


# Noise matrices: P[i][j] = p(noisy = j | true = i)


def identity(k: int) -> list[list[Fraction]]:
    """No noise: P[i][j] = 1{i = j}."""
    return [[Fraction(int(i == j)) for j in range(k)] for i in range(k)]


def uniform_matrix(rate: Number, k: int) -> list[list[Fraction]]:
    """P[i][j] = 1{i = j}(1 - rate) + rate/k (eq. 4)."""
    e = exact(rate)
    return [[(1 - e) * (i == j) + e / k for j in range(k)] for i in range(k)]


def group_matrix(groups: Sequence[int], rate: Number) -> list[list[Fraction]]:
    """With probability rate, a uniform member of the own group; groups[i] is class i's group."""
    e, k = exact(rate), len(groups)
    size = [sum(1 for g in groups if g == groups[i]) for i in range(k)]
    return [[(1 - e) * (i == j) + (groups[i] == groups[j]) * e / size[i] for j in range(k)] for i in range(k)]


def inverse(matrix: Matrix) -> list[list[Fraction]]:
    """The exact inverse by Gauss-Jordan elimination on [matrix | I]; ValueError if singular."""
    k = len(matrix)
    a = [row + unit for row, unit in zip(exact_rows(matrix), identity(k), strict=True)]
    for c in range(k):
        pivot = next((r for r in range(c, k) if a[r][c] != 0), None)
        if pivot is None:
            raise ValueError("singular matrix")
        a[c], a[pivot] = a[pivot], a[c]
        a[c] = [v / a[c][c] for v in a[c]]
        for r in range(k):
            if r != c and a[r][c] != 0:
                a[r] = [v - a[r][c] * w for v, w in zip(a[r], a[c], strict=True)]
    return [row[k:] for row in a]


# Coverage estimates


def clean_coverage(score_rows: Matrix, labels: Sequence[int], W: Matrix, q: Number | None) -> Fraction:
    """F^c-hat(q) = mean_i of the sum over l in C_q(x_i) of W[label_i][l] (Theory 1)."""
    total = Fraction(0)
    for row, label in zip(score_rows, labels, strict=True):
        total += sum((exact(W[label][member]) for member in in_set(row, q)), Fraction(0))
    return total / len(labels)


def noisy_coverage(score_rows: Matrix, labels: Sequence[int], q: Number | None) -> Fraction:
    """F^n-hat(q) = mean_i 1{label_i in C_q(x_i)} (eq. 6)."""
    hits = sum(label in in_set(row, q) for row, label in zip(score_rows, labels, strict=True))
    return Fraction(hits, len(labels))


def random_coverage(score_rows: Matrix, q: Number | None) -> Fraction:
    """F^r-hat(q) = mean_i |C_q(x_i)|/k (eq. 7)."""
    members = sum(len(in_set(row, q)) for row in score_rows)
    return Fraction(members, sum(len(row) for row in score_rows))


# Thresholds


def _steps(score_rows: Matrix, labels: Sequence[int], W: Matrix) -> list[tuple[Fraction, Fraction]]:
    """(q, F^c-hat(q)) at every distinct score, ascending: a signed, weighted ECDF over all n*k scores."""
    weights, jumps = exact_rows(W), defaultdict(Fraction)
    for row, label in zip(exact_rows(score_rows), labels, strict=True):
        for s, w in zip(row, weights[label], strict=True):
            jumps[s] += w / len(labels)
    points = sorted(jumps)
    return list(zip(points, accumulate(jumps[q] for q in points), strict=True))


def first_crossing(score_rows: Matrix, labels: Sequence[int], W: Matrix, target: Number) -> Fraction | None:
    """The smallest of all n*k scores with F^c-hat(q) >= target; a target above 1 can be met."""
    good = [q for q, f in _steps(score_rows, labels, W) if f >= exact(target)]
    return min(good, default=None)


def last_crossing(score_rows: Matrix, labels: Sequence[int], W: Matrix, target: Number) -> Fraction | None:
    """The smallest of all n*k scores with F^c-hat(q') >= target for all q' >= q; None if > 1."""
    if exact(target) > 1:
        return None
    steps = _steps(score_rows, labels, W)
    good = takewhile(lambda step: step[1] >= exact(target), reversed(steps))
    return min((q for q, _ in good), default=None)


def _eleven_bits(distance: Fraction, up: bool) -> Fraction:
    """The nearest number with 11 significant bits from 2^-40 on that is not below, or not above; or 0."""
    if distance < Fraction(1, 2**40):
        return Fraction(1, 2**40) if up and distance > 0 else Fraction(0)
    exponent = math.floor(math.log2(distance))
    while Fraction(2) ** exponent > distance:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= distance:
        exponent += 1
    step = Fraction(2) ** (exponent - 10)
    steps = distance / step
    return (math.ceil(steps) if up else math.floor(steps)) * step


def grid_point(score: Number) -> Fraction:
    """The smallest point of the grid that is not below a score: its distance from 0 or 1 has 11 bits."""
    s = exact(score)
    if s > 1:
        return 1 + _eleven_bits(s - 1, up=True)
    if s >= Fraction(1, 2):
        return 1 - _eleven_bits(1 - s, up=False)
    return _eleven_bits(s, up=True) if s > 0 else -_eleven_bits(-s, up=False)


def on_grid(score_rows: Matrix) -> list[list[Fraction]]:
    """Every score moved up to the grid: at a point of the grid, sets are the same by these."""
    return [[grid_point(s) for s in row] for row in score_rows]


def split_conformal(label_scores: Vector, alpha: Number) -> Fraction | None:
    """The ceil((n+1)(1-alpha))-th smallest score, None when that exceeds n; 0 <= alpha < 1."""
    rank = math.ceil((len(label_scores) + 1) * (1 - exact(alpha)))
    if rank < 1:
        raise ValueError("alpha must be below 1")
    return sorted(exact(s) for s in label_scores)[rank - 1] if rank <= len(label_scores) else None


# Corrections (Theory 2)


def c_exact(n: int) -> float:
    """c(n) = n!/(2 n^(n+1)) * sum_{j<n} n^j/j!; above n = 300 by the logs of the terms."""
    if n <= 300:
        total = sum((Fraction(n**j, math.factorial(j)) for j in range(n)), Fraction(0))
        return float(Fraction(math.factorial(n), 2 * n ** (n + 1)) * total)
    # n!/n^n * n^j/j! is the product of i/n over j < i <= n; here j = n-1, n-2, ..., 0.
    log_terms = accumulate(math.log(i / n) for i in range(n, 0, -1))
    return math.fsum(math.exp(t) for t in log_terms) / (2 * n)


def nacp_correction(n: int, rate: float, delta: float) -> float:
    """sqrt(log(4/delta)/(2 n h^2)) with h = (1-rate)/(1+rate) (paper Theorem 3.3)."""
    h = (1 - float(rate)) / (1 + float(rate))
    return math.sqrt(math.log(4 / delta) / (2 * n * h**2))


def _bayes(P: Matrix, rho: Vector) -> tuple[list[Fraction], list[Fraction], list[list[Fraction]]]:
    """True priors, noisy priors rho P, and posterior[j][i] = p(y=i | noisy=j) by Bayes' rule."""
    prior, p, k = [exact(v) for v in rho], exact_rows(P), range(len(P))
    noisy = [sum((prior[i] * p[i][j] for i in k), Fraction(0)) for j in k]
    return prior, noisy, [[prior[i] * p[i][j] / noisy[j] for i in k] for j in k]


def acnl_correction(n: int, smallest_count: int, P: Matrix, rho: Vector) -> float:
    """The term of Sesia et al.: V = M^-1, M[j][i] = p(y=i | noisy=j), n_* = smallest_count."""
    prior, noisy, M = _bayes(P, rho)
    V, k, least = inverse(M), len(M), smallest_count
    spread = max(sum(abs(V[i][m]) for m in range(k) if m != i) for i in range(k))
    shift = sum(abs(a - b) for a, b in zip(prior, noisy, strict=True))
    root = math.sqrt(least)
    log_part = 1 / root + math.sqrt((math.log(2 * k**2) + math.log(least)) / 2)
    factor = min(k**2 * math.sqrt(math.pi / 2), log_part)
    return c_exact(n) + float(2 * spread + shift) / root * factor


def crcp_correction(n: int, P: Matrix, rho: Vector) -> float:
    """The term of Clarkson et al.: A[i][j] = p(y=i | noisy=j), columns the noisy class."""
    prior, noisy, M = _bayes(P, rho)
    k = range(len(M))
    A_inv = inverse([[M[j][i] for j in k] for i in k])
    b = [(1 - float(r)) ** n + math.sqrt(math.pi / (n * float(r))) for r in noisy]
    total = 0.0
    for i in k:
        total += float(abs(A_inv[i][i] * prior[i] - noisy[i])) * b[i]
        total += sum(float(abs(prior[i] * A_inv[j][i])) * b[j] for j in k if j != i)
    return total


def crcp_excess(alpha: float, n: int, P: Matrix, rho: Vector) -> float:
    """The least d such that F^c-hat = 1 - alpha + d passes: n F^c-hat/(n + 1) >= 1 - alpha + the term."""
    return (1 - alpha + crcp_correction(n, P, rho)) * (n + 1) / n - (1 - alpha)


# The hash behind the randomised scores


def _mix(x: int) -> int:
    """The splitmix64 step on a 64-bit integer."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 % 2**64
    x ^= x >> 27
    x = x * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def uniforms(row: Sequence[SupportsFloat], seed: int) -> float:
    """One u in [0, 1) from the row's entries at up to 16 columns, its maximum, and the seed."""
    values = [float(v) for v in row]
    k = len(values)
    columns = range(k) if k <= 16 else dict.fromkeys(j * (k - 1) // 15 for j in range(16))
    key = _mix(seed % 2**64)
    total = 0
    for place, value in enumerate([*(values[c] for c in columns), max(values)]):
        (bits,) = struct.unpack("<Q", struct.pack("<d", 0.0 if value == 0 else value))
        total += _mix(bits ^ _mix((key + place) % 2**64))
    return (_mix(total % 2**64) >> 11) * 2.0**-53
