"""The training loop and its step: batches, devices, evaluation, precision; no file here knows a task."""
