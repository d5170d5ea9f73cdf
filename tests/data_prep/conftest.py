"""Fixtures shared by the tests of data preparation."""

from small_files import letters_tokenizer, letters_vocab_file, odd_tokenizer, odd_tokenizers, write  # noqa: F401
