#!/usr/bin/env python3
"""Pre-trains BERT with masked LM and next sentence prediction on record files of examples.

The code is in bert_keras/commands/run_pretraining.py.
"""

from bert_keras.commands.run_pretraining import run_program

if __name__ == "__main__":
    run_program()
