#!/usr/bin/env python3
"""Finds wrong labels in a table of texts, and the texts without a label that help most with one.

Its settings are in bert_keras/tasks/classification/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["check_labels"].run_program()
