#!/usr/bin/env python3
"""Makes a classifier from a few texts of each class, or from the names of the classes, evaluates it and predicts.

The code is in bert_keras/commands/run_few_shot.py.
"""

from bert_keras.commands.run_few_shot import run_program

if __name__ == "__main__":
    run_program()
