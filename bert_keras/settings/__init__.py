"""Settings of the programs as frozen dataclasses, from which their flags are made."""
