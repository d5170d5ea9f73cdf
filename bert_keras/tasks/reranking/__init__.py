"""Training of rerankers: scores of texts for a query."""
