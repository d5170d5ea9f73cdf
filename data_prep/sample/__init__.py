"""Sample data to try the programs with, all of it written or made for this project."""
