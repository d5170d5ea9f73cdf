"""Picks the text that best continues another text."""
