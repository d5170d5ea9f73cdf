#!/usr/bin/env python3
"""Finds wrong labels in a table of texts, and the texts without a label that help most with one.

The code is in bert_keras/commands/check_labels.py.
"""

from bert_keras.commands.check_labels import run_program

if __name__ == "__main__":
    run_program()
