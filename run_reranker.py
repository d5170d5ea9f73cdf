#!/usr/bin/env python3
"""Trains a model that scores texts for a query, evaluates it and predicts.

Its settings are in bert_keras/tasks/reranking/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["run_reranker"].run_program()
