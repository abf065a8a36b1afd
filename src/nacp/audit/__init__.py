"""Checked labels: which to check, and calibration from them, for any noise.

``calibrate(clean=...)`` calls `calibrate_checked` (checked_calibration.py). It opens the checked labels
(checked_labels.py) and divides the points into strata (checked_sample.py); the guarantee's `find_checked`
selects the threshold. `choose_audit` (plan.py) selects the labels to check.
"""
