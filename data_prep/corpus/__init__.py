"""Text files as tokenized documents, read by one process or several."""
