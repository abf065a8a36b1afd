"""For every test and every example in the documentation."""

import sys

import numpy as np
import pytest


def pytest_collection_modifyitems(items):
    """Tutorials and the quick start take seconds each, so they are not part of the fast tier."""
    for item in items:
        if item.path.parent.name == "tutorials" or item.path.name == "quick-start.md":
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def no_figure_left_open():
    """pyplot keeps what is drawn, and warns (here: fails) at the 21st figure, wherever that happens to be."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def same_numbers_in_any_order(request):
    """The random numbers of a file do not depend on which of its tests came before."""
    rng = getattr(getattr(request.node, "module", None), "RNG", None)
    if rng is not None:
        rng.bit_generator.state = np.random.default_rng(0).bit_generator.state
