#!/usr/bin/env python3
"""Trains a model that tags words, for example named entities (paper, section 5.3), evaluates it and predicts.

Its settings are in bert_keras/tasks/tagging/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["run_ner"].run_program()
