#!/usr/bin/env python3
"""Trains a model that tags words, for example named entities (paper, section 5.3), evaluates it and predicts.

The code is in bert_keras/commands/run_ner.py.
"""

from bert_keras.commands.run_ner import run_program

if __name__ == "__main__":
    run_program()
