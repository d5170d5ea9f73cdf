"""Texts from files, and answers to files."""
