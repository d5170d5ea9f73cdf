"""A run folder: its settings, checkpoints and metrics."""
