"""Noise-aware conformal prediction: small prediction sets you can trust, from labels you cannot."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nacp.advice.comparison import Comparison, ComparisonRow, compare
from nacp.advice.diagnosis import Diagnosis, compatible_radius, diagnose
from nacp.advice.planning import Plan, plan
from nacp.advice.sensitivity import Sensitivity, sensitivity
from nacp.advice.theorems import NoisyComparison, compare_with_noisy_cp, threshold_bracket
from nacp.calibration import Calibration, NoValidThresholdWarning, calibrate, load
from nacp.coverage import CoverageCurve, coverage_curve
from nacp.estimation import (
    NoiseEstimate,
    noise_from_annotators,
    noise_from_audit,
    noise_from_model,
    noise_from_privacy,
)
from nacp.guarantees import (
    ACNL,
    CRCP,
    NACP,
    PAC,
    Binomial,
    Expected,
    Guarantee,
    SplitConformal,
    Uncorrected,
)
from nacp.metrics import ClassCoverage, Evaluation, coverage_by_class, evaluate
from nacp.noise import GroupNoise, MatrixNoise, Noise, RandomizedResponse, UniformNoise
from nacp.scores import APS, HPS, RAPS, SAPS, Custom, Margin, Precomputed, Score, TopK
from nacp.sets import PredictionSets
from nacp.verdict import Verdict, judge

if TYPE_CHECKING:
    from nacp.show.displays import CorrectionDisplay, CoverageDisplay, SensitivityDisplay, SetSizeDisplay
    from nacp.show.report import Report, make_report
    from nacp.sklearn import NoiseAwareClassifier

__version__ = "0.1.0"

__all__ = [
    "ACNL",
    "APS",
    "CRCP",
    "HPS",
    "NACP",
    "PAC",
    "RAPS",
    "SAPS",
    "Binomial",
    "Calibration",
    "ClassCoverage",
    "Comparison",
    "ComparisonRow",
    "CorrectionDisplay",
    "CoverageCurve",
    "CoverageDisplay",
    "Custom",
    "Diagnosis",
    "Evaluation",
    "Expected",
    "GroupNoise",
    "Guarantee",
    "Margin",
    "MatrixNoise",
    "NoValidThresholdWarning",
    "Noise",
    "NoiseAwareClassifier",
    "NoiseEstimate",
    "NoisyComparison",
    "Plan",
    "Precomputed",
    "PredictionSets",
    "RandomizedResponse",
    "Report",
    "Score",
    "Sensitivity",
    "SensitivityDisplay",
    "SetSizeDisplay",
    "SplitConformal",
    "TopK",
    "Uncorrected",
    "UniformNoise",
    "Verdict",
    "calibrate",
    "compare",
    "compare_with_noisy_cp",
    "compatible_radius",
    "coverage_by_class",
    "coverage_curve",
    "diagnose",
    "evaluate",
    "judge",
    "load",
    "make_report",
    "noise_from_annotators",
    "noise_from_audit",
    "noise_from_model",
    "noise_from_privacy",
    "plan",
    "sensitivity",
    "threshold_bracket",
]


_ELSEWHERE = {
    "NoiseAwareClassifier": "nacp.sklearn",
    "CorrectionDisplay": "nacp.show.displays",
    "CoverageDisplay": "nacp.show.displays",
    "Report": "nacp.show.report",
    "make_report": "nacp.show.report",
    "SensitivityDisplay": "nacp.show.displays",
    "SetSizeDisplay": "nacp.show.displays",
}


def __getattr__(name: str) -> Any:
    """Import what needs an extra, and what few need, only when it is asked for."""
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    if name == "datasets":
        return import_module("nacp.datasets")
    raise AttributeError(f"module 'nacp' has no attribute {name!r}")
