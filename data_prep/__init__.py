"""Text to numbers: tokenizer, pre-training examples, input pipelines."""
