"""Builds pre-training examples from documents: pairs, masks, order."""
