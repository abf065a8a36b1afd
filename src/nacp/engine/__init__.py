"""What is done to one block of rows: a few verbs, each a pure function.

``numpy.py`` defines what they return; the compiled engine and that for tensors return the same bits.
"""

from nacp.engine.choose import (
    bet,
    check,
    engine_name,
    inside,
    is_tensor,
    label_scores,
    scores,
    sets,
    shares,
    tally,
    uniforms,
    using,
)
from nacp.engine.formula import traced
from nacp.engine.spec import Spec

__all__ = [
    "Spec",
    "bet",
    "check",
    "engine_name",
    "inside",
    "is_tensor",
    "label_scores",
    "scores",
    "sets",
    "shares",
    "tally",
    "traced",
    "uniforms",
    "using",
]
