"""Compares an export with the model it was made from."""
