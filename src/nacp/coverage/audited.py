"""AuditedCoverage: what can be known of a sample some of whose labels were checked, whatever the noise is."""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nacp import engine
from nacp._types import Floats, Ints
from nacp.coverage.sample import Question, Sample, Talk
from nacp.engine import Block, ByEntry, Scratch
from nacp.noise.matrices import ClassMatrix
from nacp.points.audit import Audit
from nacp.tuning import tuning


class AuditedEstimates(NamedTuple):
    """F^c-hat at some thresholds, and the standard deviation of one checked point's share in it."""

    clean: Floats
    deviations: Floats


class AuditedCoverage:
    """The estimate of the clean coverage from checked labels and a guess of them for all points.

    The guess is the probability of the set under the classifier and a noise model, given the noisy label:
    ``f = sum over l in C_q of p_l P[l, y] / sum over l of p_l P[l, y]``. It may be as wrong as it likes.

    Parameters
    ----------
    sample : Sample
        All points, with their noisy labels.
    audit : Audit
        The checked ones.
    matrix : ClassMatrix
        P, which shapes the guess.
    """

    def __init__(self, sample: Sample, audit: Audit, matrix: ClassMatrix) -> None:
        self.sample, self.audit, self._matrix = sample, audit, matrix
        self.n, self.k, self.m = sample.n, sample.k, len(audit.rows)

    @cached_property
    def checked_scores(self) -> Floats:
        """The native scores of the true labels of the checked points, in the order of the rounds."""
        rows, scratch = self.sample.rows, Scratch()
        scores = np.empty(self.m)
        step = max(1, tuning().block_entries // self.k)
        for start in range(0, self.m, step):
            some = slice(start, start + step)
            block = engine.open_block(rows[self.audit.rows[some]], self.sample.spec, scratch)
            scores[some] = engine.label_scores(block, self.audit.labels[some])
        return scores

    def guess(self, block: Block, rows: Ints, thresholds: Floats) -> Floats:
        """Return the guess that the true label is in the set, at ascending thresholds: (rows, thresholds)."""
        labels = self.sample.labels[rows]
        if not self.sample.score.takes_probabilities:
            return (self.sample.label_scores[rows][:, None] <= thresholds).astype(np.float64)
        probable = block.values * self._matrix.rest(np.arange(self.k)[None], labels[:, None])
        places = np.arange(len(labels)), labels
        probable[places] += block.values[places] * self._matrix.own[labels]
        total = probable.sum(axis=1, keepdims=True)
        probable = np.divide(probable, total, out=np.full_like(probable, 1 / self.k), where=total > 0)
        return np.clip(engine.profile(block, thresholds, ByEntry(probable)), 0.0, 1.0)

    def guesses(self, rows: Ints, thresholds: Floats) -> Floats:
        """Return the mean guess over some points, at ascending thresholds."""
        total, scratch = np.zeros(len(thresholds)), Scratch()
        step = max(1, min(tuning().block_entries // self.k, tuning().bets_entries // max(len(thresholds), 1)))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            block = engine.open_block(self.sample.rows[some], self.sample.spec, scratch)
            total += self.guess(block, some, thresholds).sum(axis=0)
        return total / max(len(rows), 1)

    def checked_quantile(self, level: float) -> float:
        """Return the score up to which a share `level` of the true labels lies, by the checked points."""
        place = max(math.ceil(level * self.m), 1) - 1
        return float(np.sort(self.checked_scores)[place])

    def at(self, thresholds: Floats) -> Talk[AuditedEstimates]:
        """Return the estimate, with the lambda that suits it best, at ascending native thresholds."""
        question = GuessQuestion(self, thresholds)
        yield [question]
        return question.estimates()


class GuessQuestion(Question):
    """The moments of the guess over all points, and of guess and truth over the checked ones."""

    def __init__(self, coverage: AuditedCoverage, thresholds: Floats) -> None:
        self._coverage, self._thresholds = coverage, thresholds
        self._round = np.full(coverage.n, -1)
        self._round[coverage.audit.rows] = np.arange(coverage.m)
        self._sums, self._squares = np.zeros((2, len(thresholds)))
        # Of hits a and guesses b of the checked points: a, b, a b, b b.
        self._moments = np.zeros((4, len(thresholds)))
        self.placed = True

    def see(self, block: Block, rows: slice | Ints) -> None:
        numbers = np.arange(self._coverage.n)[rows]
        step = max(1, tuning().bets_entries // len(self._thresholds))
        for start in range(0, len(numbers), step):
            some = slice(start, start + step)
            part = block if len(numbers) <= step else engine.open_block(block.values[some], block.spec)
            self._add(part, numbers[some])

    def _add(self, block: Block, rows: Ints) -> None:
        coverage = self._coverage
        guess = coverage.guess(block, rows, self._thresholds)
        self._sums += guess.sum(axis=0)
        self._squares += (guess**2).sum(axis=0)
        rounds = self._round[rows]
        some = np.flatnonzero(rounds >= 0)
        if len(some):
            a = coverage.checked_scores[rounds[some], None] <= self._thresholds
            b = guess[some]
            self._moments += np.stack([part.sum(axis=0) for part in (a, b, a * b, b * b)])

    def estimates(self) -> AuditedEstimates:
        """Return the estimate, which is ``mean a - lambda (mean b - mean guess)``."""
        coverage = self._coverage
        a, b, ab, bb = self._moments / coverage.m
        mean = self._sums / coverage.n
        variance = np.maximum(self._squares / coverage.n - mean**2, 0)
        spread = np.maximum(bb - b * b, 0)
        # The mean guess is known from n points, so a guess is worth the less the more of them are checked.
        share = 1 - coverage.m / coverage.n
        use = np.divide(share * (ab - a * b), spread, out=np.zeros_like(a), where=spread > 0).clip(0, 1)
        rest = np.maximum(a - a * a - 2 * use * (ab - a * b) + use**2 * spread, 0)
        deviations = np.sqrt(rest + use**2 * variance * coverage.m / coverage.n)
        return AuditedEstimates(np.clip(a - use * (b - mean), 0.0, 1.0), deviations)
