#!/usr/bin/env python3
"""Pre-trains BERT with masked LM and next sentence prediction on record files of examples.

Its settings are in bert_keras/tasks/pretraining/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["run_pretraining"].run_program()
