"""Fixtures for all tests."""

import pytest

from nacp import engine


@pytest.fixture(params=["numpy", "native", "torch"])
def every_engine(request):
    """Run a test once on each engine; the value is the engine's name.

    A file asks for it for all of its tests by `pytestmark = pytest.mark.usefixtures("every_engine")`.
    """
    if request.param == "native":
        pytest.importorskip("nacp.engine._native", reason="the compiled engine was not built")
    if request.param == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        torch.set_num_threads(1)  # the matrices are small
    with engine.using(request.param):
        yield request.param
