#!/usr/bin/env python3
"""Makes a classifier from a few texts of each class, or from the names of the classes, evaluates it and predicts.

Its settings are in bert_keras/tasks/few_shot/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["run_few_shot"].run_program()
