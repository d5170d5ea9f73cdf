#!/usr/bin/env python3
"""Writes BERT's vectors of texts, from any of its layers.

The code is in bert_keras/commands/extract_features.py.
"""

from bert_keras.commands.extract_features import run_program

if __name__ == "__main__":
    run_program()
