"""Converts datasets and users' files to the features of each task. Importing these modules does not load TensorFlow."""
