"""For every test and every example in the documentation."""

import sys

import pytest


@pytest.fixture(autouse=True)
def no_figure_left_open():
    """pyplot keeps what is drawn, and warns (here: fails) at the 21st figure, wherever that happens to be."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
