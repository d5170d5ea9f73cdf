"""Fixtures shared by the tests of tasks."""

from small_files import letters_tokenizer, letters_vocab_file, odd_tokenizer, write  # noqa: F401
