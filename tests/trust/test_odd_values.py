"""Values that were found by `scripts/fuzz.py` and by hand: each is refused in one sentence."""

import numpy as np
import pytest

import nacp
from tests.refusals import refusal

PROBS, LABELS = np.full((20, 4), 0.25), np.repeat(np.arange(4), 5)


@pytest.mark.parametrize(
    "given", [{"alpha": 10**400}, {"guarantee": "nacp", "delta": 10**400}, {"noise": 10**400}]
)
def test_numbers_too_large_for_a_float_are_refused(given):
    assert "must lie" in refusal(nacp.calibrate, PROBS, LABELS, **{"noise": 0.1} | given)


@pytest.mark.parametrize("returned", ["x", None, {}, [["x"] * 4] * 20])
def test_a_score_that_returns_no_numbers_is_refused(returned):
    said = refusal(nacp.calibrate, PROBS, LABELS, noise=0.1, score=lambda p: returned)
    assert "score must return numbers; found" in said or "shape" in said


@pytest.mark.parametrize("guarantee", [nacp.PAC, nacp.Binomial, nacp.NACP])
def test_a_delta_whose_inverse_overflows_is_refused(guarantee):
    """The bounds divide by delta: ZeroDivisionError before."""
    assert "and be at least 1e-300; found 5e-324" in refusal(guarantee, delta=5e-324)
    with pytest.warns(nacp.NoValidThresholdWarning, match=r"points (should|would) do"):
        nacp.calibrate(PROBS, LABELS, noise=0.1, guarantee=guarantee(delta=1e-300))
