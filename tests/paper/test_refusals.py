"""The reproduction refuses what `calibrate` refuses."""

import pytest

import nacp
from nacp.paper import twins
from nacp.paper.methods import Method
from nacp.paper.splits import run_splits


def test_splits_refuse_what_calibrate_refuses():
    probs, labels = twins.simulate("cifar10", n=1000, random_state=0)
    tested = [Method("pac", False, True, nacp.PAC())]
    with pytest.raises(nacp.InputError, match=r'methods hold "pac", which judges thresholds'):
        run_splits(probs, labels, noise=0.2, methods=tested, crossing="first", splits=2)
    with pytest.raises(nacp.InputError, match="noise must be known exactly"):
        run_splits(probs, labels, noise=nacp.UniformNoise(0.2, interval=(0.15, 0.25)), splits=2)
    with pytest.raises(nacp.InputError, match=r"noise .*100.*10"):
        run_splits(probs, labels, noise=nacp.noise_from_privacy(5.0, k=100), splits=2)
