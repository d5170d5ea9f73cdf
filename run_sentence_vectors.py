#!/usr/bin/env python3
"""Trains vectors of texts: texts of similar meaning get similar vectors. Evaluates them and writes them.

The code is in bert_keras/commands/run_sentence_vectors.py.
"""

from bert_keras.commands.run_sentence_vectors import run_program

if __name__ == "__main__":
    run_program()
