"""Benchmarks: the files of GLUE, XNLI, SWAG and minimal pairs, TensorFlow Datasets, and scores of predictions."""
