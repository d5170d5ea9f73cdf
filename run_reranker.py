#!/usr/bin/env python3
"""Trains a model that scores texts for a query, evaluates it and predicts.

The code is in bert_keras/commands/run_reranker.py.
"""

from bert_keras.commands.run_reranker import run_program

if __name__ == "__main__":
    run_program()
