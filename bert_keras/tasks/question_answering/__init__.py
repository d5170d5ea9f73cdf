"""Answers from a text, as in SQuAD."""
