"""Compares an export with its source model."""
