"""Reads sentences of words and tags, and converts them to features."""
