"""Fine-tuning: tasks, sweeps, the model folder."""
