#!/usr/bin/env python3
"""Fine-tunes BERT for classification, regression, multi-label or multiple-choice tasks, evaluates and predicts.

Its settings are in bert_keras/tasks/classification/settings.py, its run is in bert_keras/programs/command.py.
"""

from bert_keras.programs.command import PROGRAMS

if __name__ == "__main__":
    PROGRAMS["run_classifier"].run_program()
