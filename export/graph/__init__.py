"""Tokenizer and answers as TensorFlow operations."""
