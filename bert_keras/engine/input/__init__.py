"""Batches for training and evaluation."""
