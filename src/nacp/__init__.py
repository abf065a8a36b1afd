"""Noise-aware conformal prediction: small prediction sets you can trust, from labels you cannot."""

from importlib import import_module as _import
from typing import TYPE_CHECKING, Any

from nacp.advice.comparison import Comparison, ComparisonRow, compare
from nacp.advice.diagnosis import Diagnosis, GroupedDiagnosis, compatible_radius, diagnose
from nacp.advice.planning import Plan, plan
from nacp.advice.sensitivity import Sensitivity, sensitivity
from nacp.advice.theorems import NoisyComparison, compare_with_noisy_cp, threshold_bracket
from nacp.audit.checked_sample import AuditWarning
from nacp.audit.plan import AuditPlan, choose_audit
from nacp.calibrate import calibrate
from nacp.calibration import Calibration, NoValidThresholdWarning
from nacp.coverage.contradiction import NoiseModelWarning
from nacp.coverage.curve import CoverageCurve
from nacp.coverage.exact import coverage_curve
from nacp.coverage.tally import Tally
from nacp.errors import InputError
from nacp.estimation import (
    NoiseEstimate,
    noise_from_annotators,
    noise_from_audit,
    noise_from_model,
    noise_from_privacy,
)
from nacp.files import load
from nacp.groups.class_coverage import ClassCoverage, coverage_by_class
from nacp.groups.clusters import cluster_classes
from nacp.groups.grouped_calibration import GroupedCalibration
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
from nacp.metrics import Evaluation, evaluate
from nacp.noise import (
    AnnotatorNoise,
    GroupNoise,
    LowRankNoise,
    MatrixNoise,
    Noise,
    RandomizedResponse,
    UniformNoise,
)
from nacp.points import RepeatedRowsWarning, TopRows
from nacp.predictor import Predictor
from nacp.scores import APS, HPS, RAPS, SAPS, Custom, Margin, Precomputed, Score, TopK
from nacp.sets import PredictionSets
from nacp.stream.calibrator import Calibrator
from nacp.stream.monitor import Monitor
from nacp.stream.online import OnlineCalibrator
from nacp.verdict import Verdict, judge
from nacp.versions import __version__, show_versions

if TYPE_CHECKING:
    from nacp.show.displays import CoverageDisplay, ExcessDisplay, SetSizeDisplay
    from nacp.show.report import Report, make_report
    from nacp.sklearn import NoiseAwareClassifier

# What needs an extra, and what few need, is imported when it is asked for.
_ELSEWHERE = {
    "NoiseAwareClassifier": "nacp.sklearn",
    "ExcessDisplay": "nacp.show.displays",
    "CoverageDisplay": "nacp.show.displays",
    "Report": "nacp.show.report",
    "make_report": "nacp.show.report",
    "SetSizeDisplay": "nacp.show.displays",
}

__all__ = [
    "ACNL",
    "APS",
    "CRCP",
    "HPS",
    "NACP",
    "PAC",
    "RAPS",
    "SAPS",
    "AnnotatorNoise",
    "AuditPlan",
    "AuditWarning",
    "Binomial",
    "Calibration",
    "Calibrator",
    "ClassCoverage",
    "Comparison",
    "ComparisonRow",
    "CoverageCurve",
    "CoverageDisplay",
    "Custom",
    "Diagnosis",
    "Evaluation",
    "ExcessDisplay",
    "Expected",
    "GroupNoise",
    "GroupedCalibration",
    "GroupedDiagnosis",
    "Guarantee",
    "InputError",
    "LowRankNoise",
    "Margin",
    "MatrixNoise",
    "Monitor",
    "NoValidThresholdWarning",
    "Noise",
    "NoiseAwareClassifier",
    "NoiseEstimate",
    "NoiseModelWarning",
    "NoisyComparison",
    "OnlineCalibrator",
    "Plan",
    "Precomputed",
    "PredictionSets",
    "Predictor",
    "RandomizedResponse",
    "RepeatedRowsWarning",
    "Report",
    "Score",
    "Sensitivity",
    "SetSizeDisplay",
    "SplitConformal",
    "Tally",
    "TopK",
    "TopRows",
    "Uncorrected",
    "UniformNoise",
    "Verdict",
    "__version__",
    "calibrate",
    "choose_audit",
    "cluster_classes",
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
    "show_versions",
    "threshold_bracket",
]


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(_import(_ELSEWHERE[name]), name)
    if name == "datasets":
        return _import("nacp.datasets")
    raise AttributeError(f"module 'nacp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "datasets", "estimation", "labels"])
