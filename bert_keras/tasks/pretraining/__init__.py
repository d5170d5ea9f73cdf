"""Pre-training: its input and its run."""
