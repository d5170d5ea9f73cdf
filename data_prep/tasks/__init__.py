"""Converts datasets and users' files to the features of each task.

Importing these modules does not load TensorFlow. The modules about CoNLL need only the standard library.
"""
