"""Points that come one after the other: calibration, monitoring, and thresholds that follow a drift."""
