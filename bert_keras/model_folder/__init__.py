"""Functions that find, check and open the files of a model."""
