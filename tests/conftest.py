"""Fixtures for all tests."""

from importlib.util import find_spec

import pytest

from nacp import engine


@pytest.fixture(params=["numpy", "native", "torch"])
def every_engine(request):
    """Run a test once on each engine; the value is the engine's name.

    A file asks for it for all of its tests by `pytestmark = pytest.mark.usefixtures("every_engine")`.
    """
    if request.param == "native":
        pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    if request.param == "torch" and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    with engine.using(request.param):
        yield request.param
