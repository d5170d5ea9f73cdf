"""Reads text files as tokenized documents, with one process or several."""
