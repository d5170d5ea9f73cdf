#!/usr/bin/env python3
"""Trains vectors of texts: texts of similar meaning get similar vectors. Evaluates them and writes them.

Its settings are in bert_keras/tasks/vectors/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["run_sentence_vectors"].run_program()
