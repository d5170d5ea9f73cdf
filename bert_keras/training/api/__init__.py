"""The training programs as Python functions, with their flags."""
