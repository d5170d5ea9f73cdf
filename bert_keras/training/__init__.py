"""Training: devices, the update step, the training loop, progress and run folders."""
