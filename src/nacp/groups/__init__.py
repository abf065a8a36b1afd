"""Coverage for each group of rows or of classes: thresholds, estimates and intervals.

``calibrate(groups=...)`` finds the group of each row or class (grouping.py) and calls `calibrate_groups`
(grouped_calibration.py). A group of rows is calibrated as a sample of its own. A group of classes has a curve
of its own (class_curve.py), from which the guarantee's `find` selects the threshold.
"""
