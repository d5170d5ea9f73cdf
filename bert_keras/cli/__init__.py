"""Code that all programs share: flags, console, progress and the start of TensorFlow."""
