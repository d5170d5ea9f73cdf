"""The settings of the training programs: their groups, their checks, and how flags become settings."""
