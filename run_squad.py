#!/usr/bin/env python3
"""Trains a model that finds answers to questions in texts (SQuAD 1.1 and 2.0), evaluates it and predicts.

Its settings are in bert_keras/tasks/question_answering/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["run_squad"].run_program()
