"""What printed estimates and errors of the estimation say."""

import numpy as np
import pytest

import nacp
from nacp.wrapping import on_one_line

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet(np.full(3, 0.5), size=600)
TRUE = (PROBS.cumsum(axis=1) > RNG.random((600, 1))).argmax(axis=1)
NOISY = nacp.UniformNoise(0.2).sample(TRUE, 3, random_state=0)


def test_an_estimate_from_the_model_calls_its_interval_approximate_and_says_which_side_is_safe():
    estimate = nacp.noise_from_model(PROBS, NOISY)
    said = on_one_line(estimate)
    assert "(approximate: 95% sure if what is assumed holds)" in said
    assert "(95% sure)" not in said
    assert "Above it, that is safe" in said
    assert "Below it, it is not: coverage is too low" in said
    exact = str(nacp.noise_from_audit(NOISY[:100], TRUE[:100], k=3, model="uniform"))
    assert "(95% sure)" in exact
    assert "approximate" not in exact


def test_an_audit_does_not_speak_of_probabilities_that_it_has_not():
    for noisy, clean, options, words in (
        ([0, 1, 5], [0, 1, 2], {"k": 3}, "noisy must lie from 0 to 2, for 3 classes; found 0 to 5"),
        ([0, 1], [0, 1, 2], {"k": 3}, "noisy must have one label for each of the 3 true ones"),
        ([0, 1], [0, 1], {"classes": ["a", "a"]}, "classes must hold 2 different names, one per class"),
        (["a", "b"], ["a", "b"], {"k": 2}, "noisy holds names such as 'a'"),
    ):
        with pytest.raises(nacp.InputError, match=words) as caught:
            nacp.noise_from_audit(noisy, clean, **options)
        assert "probs" not in str(caught.value)
