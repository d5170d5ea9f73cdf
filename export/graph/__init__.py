"""Tokenizer and text models as TensorFlow operations."""
