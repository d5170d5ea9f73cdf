"""Documents to examples of pre-training: pairs, masks, order."""
