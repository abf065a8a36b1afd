"""User-defined scores: a precomputed matrix, or a function from probabilities to scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from nacp._types import Array
from nacp.engine import Spec
from nacp.engine.spec import ENTRIES
from nacp.scores.base import Score


@dataclass(frozen=True)
class Precomputed(Score):
    """The matrix that is passed as `probs` contains the scores; lower is better.

    Examples
    --------
    >>> import nacp
    >>> scores = [[0.1, 2.0, 3.0], [4.0, 0.2, 0.9], [0.3, 1.0, 5.0]]
    >>> cal = nacp.calibrate(scores, [0, 1, 0], noise=None, alpha=0.5, score="precomputed")
    >>> cal.predict_set([[0.1, 0.2, 0.3]]).to_lists()
    [[0, 1]]
    """

    name: ClassVar[str] = "precomputed"
    takes_probabilities: ClassVar[bool] = False

    @property
    def spec(self) -> Spec:
        return ENTRIES


@dataclass(frozen=True)
class Custom(Score):
    """A score computed by a function, lower is better.

    Parameters
    ----------
    function : callable
        Takes an (m, k) block of probabilities and returns their (m, k) scores. The scores of a row
        must not depend on the other rows of the block.

    Examples
    --------
    >>> import numpy as np
    >>> import nacp
    >>> nacp.Custom(lambda p: -np.log(p)).scores([[0.5, 0.25, 0.25]]).round(2).tolist()
    [[0.69, 1.39, 1.39]]
    """

    function: Callable[[Array], Array]
    name: ClassVar[str] = "custom"

    @property
    def spec(self) -> Spec:
        return Spec("function", function=self.function)

    def to_dict(self) -> dict[str, Any]:
        """Return the name of the function, which itself is not saved."""
        return {"name": self.name, "function": getattr(self.function, "__name__", "function")}
