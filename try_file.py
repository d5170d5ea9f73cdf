#!/usr/bin/env python3
"""Shows what a file of texts and labels holds, and after a question trains a classifier on it and checks its labels.

The code is in bert_keras/commands/try_file.py.
"""

from bert_keras.commands.try_file import run_program

if __name__ == "__main__":
    run_program()
