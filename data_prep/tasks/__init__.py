"""Data sets and users' files to features of each task."""
