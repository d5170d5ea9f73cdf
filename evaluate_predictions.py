#!/usr/bin/env python3
"""Scores the predictions of any program against the correct answers.

The code is in bert_keras/commands/evaluate_predictions.py.
"""

from bert_keras.commands.evaluate_predictions import run_program

if __name__ == "__main__":
    run_program()
