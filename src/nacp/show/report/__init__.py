"""The report: one HTML file that opens offline and shows a calibration's promise and its sets."""

from nacp.show.report.report import Report, make_report

__all__ = ["Report", "make_report"]
