"""The machinery of the studies: cells, probes, intervals and reports."""
