"""Checkpoint formats and the names of weights in them."""
