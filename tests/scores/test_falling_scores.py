"""A ranked score must be a number that does not fall along a row: every engine refuses others."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import nacp
from nacp import engine
from nacp.engine import Spec, traced

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.ones(200), 300)
LABELS = RNG.integers(200, size=300)
FORMULAS = {
    "falls": lambda rank: rank.p,
    "no number": lambda rank: np.sqrt(-rank.above),
    "falls late": lambda rank: np.where(rank.n_above < 150, rank.n_above, -rank.n_above),
}


@pytest.mark.parametrize("name", ["numpy", "native", "torch"])
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_every_engine_refuses_it(name, formula):
    pytest.importorskip("torch") if name == "torch" else None
    with engine.using(name), pytest.raises(nacp.InputError, match="must not fall from the most to the least"):
        engine.of(PROBS).tally(PROBS, Spec("ranked", traced(formula)))


def test_calibrate_says_so():
    from nacp.scores.base import RankedScore

    @dataclass(frozen=True)
    class Falling(RankedScore):
        name: ClassVar[str] = "falling"
        span: ClassVar[tuple[float, float]] = (0.0, 1.0)

        def formula(self, ranks):
            return ranks.p

    with pytest.raises(nacp.InputError, match="score must be a number, and must not fall"):
        nacp.calibrate(PROBS, LABELS, noise=None, score=Falling(), alpha=0.4)


@pytest.mark.parametrize("name", ["numpy", "native", "torch"])
def test_numbers_of_labels_do_not_wrap_around(name):
    pytest.importorskip("torch") if name == "torch" else None
    spec = Spec(
        "ranked", traced(lambda rank: rank.n_upto * rank.n_upto * rank.n_upto * rank.n_upto * rank.n_upto)
    )
    values = RNG.dirichlet(np.ones(20_000), 2)
    with engine.using(name):
        found = engine.of(values).scores(values, spec)
    assert found.max() == 20_000.0**5
