"""Text models as TensorFlow operations."""
