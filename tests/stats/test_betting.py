"""Bets one after the other, against wealth that is computed point by point."""

import numpy as np
import pytest

from nacp.stats.betting import Bets
from tests.guarantees.test_pointwise import bet


@pytest.mark.parametrize("batch", [1000, 37, 1])
@pytest.mark.parametrize(("n", "gap"), [(40, 0.2), (300, 0.08), (1000, 0.05)])
def test_the_last_bet_that_fails_is_the_last_whose_wealth_never_suffices(n, gap, batch):
    """A bet on each of 12 columns of shares, whose means rise from below the target."""
    rng, target, delta, found = np.random.default_rng(n), 0.6, 0.1, set()
    for _ in range(8):
        shares = (rng.random((n, 12)) < target + gap * np.linspace(-0.2, 2, 12)).astype(float)
        bets, seen = Bets(12, n, delta, target, 1.0, 0.99 / target), 0
        while seen < n and len(bets.open):
            bets.play(np.ascontiguousarray(shares[seen : seen + batch, bets.open]))
            seen += batch
        failed = [i for i in range(12) if not bet(shares[:, i], delta, 0.0, 1.0, target)]
        assert bets.failed == max(failed, default=-1)
        found.add(bets.failed)
    assert len(found) > 1
