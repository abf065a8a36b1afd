"""The names of the package, and their help."""

import pydoc
import subprocess
import sys

import nacp


def test_dir_lists_what_is_public_and_nothing_else():
    listed = set(dir(nacp))
    assert {
        "NoiseAwareClassifier",
        "CoverageDisplay",
        "make_report",
        "datasets",
        "NoiseModelWarning",
    } <= listed
    assert set(nacp.__all__) <= listed
    assert not {"Any", "TYPE_CHECKING", "import_module", "annotations"} & listed
    assert all(getattr(nacp, name) is not None for name in listed)
    code = "import nacp; print([name for name in dir(nacp) if name not in nacp.__all__])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "['datasets', 'estimation', 'labels']\n"


def test_help_opens_with_names_of_types():
    names = "calibrate compare diagnose evaluate coverage_by_class plan sensitivity make_report"
    for name in [*names.split(), "noise_from_model", "noise_from_audit", "choose_audit", "Calibration"]:
        assert "numpy._typing" not in pydoc.plain(pydoc.render_doc(getattr(nacp, name))), name
    shown = pydoc.plain(pydoc.render_doc(nacp.calibrate))
    assert "calibrate(probs:'ArrayLike'" in "".join(shown.split())  # Pythons break lines differently
