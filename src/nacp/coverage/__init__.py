"""What is known of coverage: tallies of the pairs, F^n, F^r and F^c, and where F^c crosses a target."""

from nacp.coverage.asking import Answer, OrderedQuestion, Question, Talk, both, together
from nacp.coverage.coverage import Coverage, Estimates
from nacp.coverage.crossing import RULES, Crossing, Rule
from nacp.coverage.curve import CoverageCurve
from nacp.coverage.lazy import sample_of
from nacp.coverage.sample import Sample
from nacp.coverage.tally import Tally

__all__ = [
    "RULES", "Answer", "Coverage", "CoverageCurve", "Crossing", "Estimates", "OrderedQuestion", "Question",
    "Rule", "Sample", "Talk", "Tally", "both", "sample_of", "together",
]  # fmt: skip
