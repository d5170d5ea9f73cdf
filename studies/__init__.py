"""The paper's experiments in miniature, and a look inside a model."""
