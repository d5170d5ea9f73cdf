"""Tokenizer and vocabularies."""
