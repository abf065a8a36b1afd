"""The report: one HTML file that opens offline and shows what a calibration promises and what it costs."""

from nacp.show.report.report import Report, make_report

__all__ = ["Report", "make_report"]
