"""The page report.html at the end of a run."""
