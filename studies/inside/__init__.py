"""The attention and the layers of a model."""
