"""The training programs: as functions of Python, and from their flags to their end."""
