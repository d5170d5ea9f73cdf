"""Reads and writes local files and object stores (gs://, and ram:// for tests) with the same functions."""
