#!/usr/bin/env python3
"""Trains a model that finds answers to questions in texts (SQuAD 1.1 and 2.0), evaluates it and predicts.

The code is in bert_keras/commands/run_squad.py.
"""

from bert_keras.commands.run_squad import run_program

if __name__ == "__main__":
    run_program()
