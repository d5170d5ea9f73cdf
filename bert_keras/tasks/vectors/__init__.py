"""Training of vectors of texts: their data, losses and evaluation."""
