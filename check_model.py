#!/usr/bin/env python3
"""Says how a model of another library is read, and compares it with that library.

The code is in bert_keras/commands/check_model.py.
"""

from bert_keras.commands.check_model import run_program

if __name__ == "__main__":
    run_program()
