"""Reads texts from files, and writes vectors to files."""
