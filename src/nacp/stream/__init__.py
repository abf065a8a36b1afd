"""Points that come in batches: thresholds from them, an alarm, and thresholds that follow a drift."""
