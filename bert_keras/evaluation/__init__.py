"""Computes metrics and the content of report files."""
