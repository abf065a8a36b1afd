"""Many splits at once: what crosses corrected targets is found by the engine, if it can.

Each split gets what `nacp.paper.splitting` finds for it alone, which does those that the engine leaves to it.
"""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from nacp import engine
from nacp._types import Array, Bools, Ints
from nacp.coverage.crossing import ROUNDING
from nacp.engine.contract import DONE_SPLIT, NEW_SPLIT
from nacp.paper.splitting import Found, Runner


class Batches:
    """What all batches share.

    Parameters
    ----------
    runner : Runner
        A prepared one.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        groups = list(runner.alike())
        rises = all(runner.estimators[aware].rises_by_labels for (_, aware), _ in groups)
        self.table = _table(runner) if rises else None
        if self.table is None:
            return
        self.sees_clean = [sees_clean for (sees_clean, _), group in groups for _ in group]
        self.methods = [m for _, group in groups for m in group]
        kinds, units = [], []
        for (sees_clean, aware), group in groups:
            adds, unit = runner.estimators[aware].per_label_and_pair
            kinds += [(sees_clean, *adds)] * len(group) * len(runner.alphas)
            units += [unit] * len(group) * len(runner.alphas)
        self.kinds = np.array(kinds, dtype=np.int64).reshape(-1, 3)
        self.units = np.array(units, dtype=np.float64).reshape(-1, 2)

    def run(self, masks: Bools, noisy: Array, numbers: range) -> Iterator[Iterator[Found]]:
        """Yield for each split what `Runner.run` does.

        Parameters
        ----------
        masks : array of shape (splits, rows)
            Which rows calibrate.
        noisy : array of shape (splits, rows) or (rows,)
            The noisy labels.
        numbers : range
            The numbers of the splits.
        """
        tallies = engine.masked_sums(masks, self.runner.counts, self.runner.rows.k)
        labels = noisy if noisy.ndim == 2 else [noisy] * len(masks)
        known = self._crossed(masks, noisy, tallies)
        for mask, given, tally, number, crossed in zip(masks, labels, tallies, numbers, known, strict=True):
            yield self.runner.run(mask, given, tally, number, crossed)

    def _crossed(self, masks: Bools, noisy: Array, tallies: Ints) -> list[list[Found] | None]:
        """Return for each split what crosses corrected targets, if the engine has found it."""
        if self.table is None or not len(self.kinds):
            return [None] * len(masks)
        runner, given = self.runner, noisy.astype(np.int32, copy=False)
        wanted = []
        for mask, noisy_ones in zip(masks, np.broadcast_to(given, masks.shape), strict=True):
            counts = [cache(partial(runner.label_counts, mask, each)) for each in (noisy_ones, runner.clean)]
            each = zip(self.sees_clean, self.methods, strict=True)
            wanted.append([pair for sees, m in each for pair in runner.targets(counts[sees], m)])
        corrections, targets = np.moveaxis(np.array(wanted), 2, 0)
        found, open_ = np.empty((3, *targets.shape)), np.full(len(masks), NEW_SPLIT)
        drawn = masks, given, tallies
        columns = self.kinds, self.units, np.ascontiguousarray(targets)
        while (open_ >= 0).any() or (open_ == NEW_SPLIT).any():
            for cell in np.unique(open_[open_ >= 0]).tolist():
                runner.put_in_order(cell)
            self.table.starts[3, :-1] = runner.known
            rule = runner.crossing == "last", ROUNDING
            engine.split_crossings(self.table, runner.n, rule, drawn, columns, found, open_)
        places = [(m, a) for m in self.methods for a in range(len(runner.alphas))]
        return [
            [(m, a, *values) for (m, a), *values in zip(places, *each, strict=True)] if done else None
            for done, *each in zip(
                (open_ == DONE_SPLIT).tolist(), corrections.tolist(), *found.tolist(), strict=True
            )
        ]


def _table(runner: Runner) -> engine.SplitTable | None:
    """Return what splits share, if the engine has found the cell of each pair."""
    matrix, cells = runner.score_matrix(), runner.kept.cells
    if matrix is None or cells is None:
        return None
    starts = np.searchsorted(runner.clean_scores, runner.ends, side="right")
    totals = np.concatenate([[0], runner.totals, [runner.rows.n * runner.rows.k]])
    starts[0], starts[-1] = 0, runner.rows.n
    return engine.SplitTable(
        runner.edges,
        np.array([runner.clean, runner.clean_order], dtype=np.int32),
        runner.clean_scores,
        np.array([starts, runner.kept.starts, totals, np.zeros_like(starts)]),
        runner.kept.scores,
        runner.kept.rows,
        cells,
        *matrix,
    )
