"""Finds and checks the files of a model."""
