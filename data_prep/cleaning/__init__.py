"""Removes documents and lines from text, and holds a share out."""
