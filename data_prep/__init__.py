"""Data preparation: tokenizer, pre-training examples, input pipelines."""
