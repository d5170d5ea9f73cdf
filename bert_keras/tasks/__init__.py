"""What the programs train: each task with its data, loss, metrics and reports."""
