"""The files of a tokenizer: vocabularies, and how text becomes tokens."""
