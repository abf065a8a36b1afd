"""The grid, and the parts of it that tests and groups use, by their definition."""

import numpy as np
import pytest

from nacp.coverage.grid import BY_CLASS, COARSE, GRID, INFINITE, TESTED, cells_of, cells_of_probabilities


def test_grid_points_are_those_11_significant_bits_from_0_or_1():
    small = np.array([2.0**e * (1 + j / 1024) for e in range(-40, -1) for j in range(1024)])
    every = np.array([2.0**e * (1 + j / 1024) for e in range(-40, 21) for j in range(1024)])
    points = {0.0, 0.5, 1.0, np.inf, *small, *(1 - small), *-every, *(1 + every)}
    np.testing.assert_array_equal(GRID, sorted(points))


@pytest.mark.parametrize(("found", "near", "far"), [(TESTED, 8, 64), (BY_CLASS[:-1], 4, 32)])
def test_thinner_grids_have_every_nth_point_of_an_octave(found, near, far):
    distance = np.minimum(np.abs(GRID), np.abs(GRID - 1))
    mantissa, _ = np.frexp(distance)
    number = np.where(distance > 0, np.rint((2 * mantissa - 1) * 1024), 0)
    with np.errstate(invalid="ignore"):
        expected = np.isfinite(GRID) & (number % np.where(distance < 2.0**-12, far, near) == 0)
    np.testing.assert_array_equal(found, np.flatnonzero(expected))
    assert BY_CLASS[-1] == COARSE[-1] == INFINITE
    np.testing.assert_array_equal(COARSE[:-1], TESTED[::8])


def test_the_grid_cannot_be_changed():
    for each in (GRID, TESTED):
        with pytest.raises(ValueError, match="read-only"):
            each[0] = 0


def test_the_cell_of_a_score_is_the_first_point_that_is_not_below_it():
    rng = np.random.default_rng(0)
    some = np.concatenate(
        [GRID[rng.integers(len(GRID), size=5000)], rng.random(1000), 10 * rng.normal(size=1000)]
    )
    scores = np.concatenate(
        [some, np.nextafter(some, -np.inf), np.nextafter(some, np.inf), [0.0, -0.0, 1e300]]
    )
    scores = scores[(scores > GRID[0]) & ~((np.abs(scores - 1) < 2.0**-40) & (scores != 1))]
    np.testing.assert_array_equal(cells_of(scores), np.searchsorted(GRID, scores))
    p = np.concatenate([rng.random(1000), 1 - rng.random(1000) / 4096, [0, 1, 0.5]])
    np.testing.assert_array_equal(cells_of_probabilities(p), np.searchsorted(GRID, 1 - p))
